"""`python -m tests.lab make-jax [--only FAMILY ...] [--large FOLDER]`: JAX functions and flax modules through jax2onnx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax2onnx
import numpy as np
from flax import nnx

from tests.exported import store
from tests.exported.making import coarse, export, quiet

OPSETS = [21, 23]
Made = tuple[Callable[..., jax.Array], list[jax.Array]]
random = np.random.default_rng(0)


def drawn(*shape: int) -> jax.Array:
    return jnp.asarray(random.standard_normal(shape), jnp.float32)


def weight(*shape: int) -> jax.Array:
    return jnp.asarray(coarse(random.standard_normal(shape) / shape[0] ** 0.5), jnp.float32)


def module(made: nnx.Module) -> nnx.Module:
    """With every parameter drawn, and with few bits; statistics as of a model that was trained."""

    def draw(path: tuple[Any, ...], value: Any) -> Any:
        drawn = coarse(random.standard_normal(value.shape) / max(1, value.shape[0]) ** 0.5)
        drawn = np.abs(drawn) + 0.5 if path[-1] == "var" else drawn + 1 if path[-1] == "scale" else drawn
        return jnp.asarray(drawn, jnp.float32) if value.dtype == jnp.float32 else value

    graph, state = nnx.split(made)
    leaves = [(path, value.replace(draw(path, value.get_value()))) for path, value in nnx.to_flat_state(state)]
    return nnx.merge(graph, nnx.from_flat_state(leaves))


def mlp(n: int) -> Made:
    r = nnx.Rngs(0)
    one, two = module(nnx.Linear(8 * n, 16 * n, rngs=r)), module(nnx.Linear(16 * n, 4, rngs=r))
    return lambda x: jax.nn.softmax(two(jax.nn.relu(one(x)))), [drawn(3, 8 * n)]


def cnn(n: int) -> Made:
    r = nnx.Rngs(0)
    conv, deep = nnx.Conv(3, 8 * n, (3, 3), rngs=r), nnx.Conv(8 * n, 8 * n, (3, 3), feature_group_count=8 * n, rngs=r)
    norm = nnx.BatchNorm(8 * n, use_running_average=True, rngs=r)
    parts = module(nnx.List([conv, norm, deep]))

    def run(x: jax.Array) -> jax.Array:
        x = nnx.max_pool(jax.nn.relu6(parts[1](parts[0](x))), window_shape=(2, 2), strides=(2, 2))
        return jnp.mean(jax.nn.hard_swish(parts[2](x)), (1, 2))

    return run, [drawn(2, 12 * n, 12 * n, 3)]


class Block(nnx.Module):
    """A layer of a transformer in flax."""

    def __init__(self, width: int, norm: type[nnx.Module], r: nnx.Rngs):
        self.attention = nnx.MultiHeadAttention(4, width, decode=False, rngs=r)
        self.norms = nnx.List([norm(width, rngs=r), norm(width, rngs=r)])
        self.up, self.down = nnx.Linear(width, 2 * width, rngs=r), nnx.Linear(2 * width, width, rngs=r)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.norms[0](x))
        return x + self.down(jax.nn.gelu(self.up(self.norms[1](x))))


def encoder(n: int) -> Made:
    return module(Block(16 * n, nnx.LayerNorm, nnx.Rngs(0))), [drawn(2, 6 * n, 16 * n)]


def llama(n: int) -> Made:
    """Written out: RMS normalization, rotation, a causal mask, SwiGLU."""
    width, heads = 16 * n, 4
    head = width // heads
    held = [weight(width, width) for _ in range(4)]
    gate, up, down = weight(width, 2 * width), weight(width, 2 * width), weight(2 * width, width)
    scales = [1 + weight(width), 1 + weight(width)]

    def rms(x: jax.Array, scale: jax.Array) -> jax.Array:
        return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * scale

    def rotated(x: jax.Array) -> jax.Array:
        angles = jnp.arange(x.shape[2])[:, None] * (10000.0 ** (-jnp.arange(0, head, 2) / head))
        one, two = jnp.split(x, 2, -1)
        return jnp.concatenate(
            [one * jnp.cos(angles) - two * jnp.sin(angles), two * jnp.cos(angles) + one * jnp.sin(angles)], -1
        )

    def run(x: jax.Array) -> jax.Array:
        y = rms(x, scales[0])
        q, k, v = (jnp.swapaxes((y @ w).reshape(*x.shape[:2], heads, head), 1, 2) for w in held[:3])
        scores = jnp.einsum("bhqd,bhkd->bhqk", rotated(q), rotated(k)) / head**0.5
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
        y = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)
        x = x + jnp.swapaxes(y, 1, 2).reshape(x.shape) @ held[3]
        y = rms(x, scales[1])
        return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down

    return run, [drawn(2, 6 * n, width)]


def attention(n: int) -> Made:
    shape = 2, 6 * n, 4, 8 * n

    def run(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v) + jax.nn.dot_product_attention(q, k, v, is_causal=True)

    return run, [drawn(*shape), drawn(*shape), drawn(*shape)]


def norms(n: int) -> Made:
    r = nnx.Rngs(0)
    kinds = [
        nnx.LayerNorm(8 * n, rngs=r),
        nnx.RMSNorm(8 * n, rngs=r),
        nnx.LayerNorm(8 * n, use_fast_variance=False, rngs=r),
    ]
    parts = module(nnx.List(kinds))

    def run(x: jax.Array) -> jax.Array:
        found = [part(x) for part in parts]
        found += [
            jax.nn.standardize(x),
            x / jnp.linalg.norm(x, axis=-1, keepdims=True),
            jnp.linalg.norm(x, 1, -1, True) * x,
        ]
        return jnp.concatenate([*found, jax.scipy.special.logsumexp(x, -1, keepdims=True)], -1)

    return run, [drawn(2, 3, 8 * n)]


def image_norms(n: int) -> Made:
    r = nnx.Rngs(0)
    parts = module(nnx.List([nnx.GroupNorm(8 * n, 4, rngs=r), nnx.InstanceNorm(8 * n, rngs=r)]))
    return lambda x: jax.nn.silu(parts[0](x)) + parts[1](x), [drawn(2, 5 * n, 5 * n, 8 * n)]


def activations(n: int) -> Made:
    names = "relu relu6 sigmoid softplus soft_sign silu log_sigmoid leaky_relu hard_sigmoid hard_swish hard_tanh elu celu selu mish gelu log_softmax softmax"
    kinds = [getattr(jax.nn, name) for name in names.split()]

    def run(x: jax.Array) -> jax.Array:
        return jnp.concatenate([*(kind(x) for kind in kinds), jax.nn.gelu(x, approximate=False), jax.nn.glu(x)], -1)

    return run, [drawn(3, 8 * n) * 2]


def recurrent(n: int) -> Made:
    cell = module(nnx.GRUCell(4 * n, 8 * n, rngs=nnx.Rngs(0)))

    def run(x: jax.Array) -> jax.Array:
        state = jnp.zeros((x.shape[0], 8 * n))
        for step in range(x.shape[1]):
            state, _ = cell(state, x[:, step])
        return state

    return run, [drawn(2, 4, 4 * n)]


FAMILIES = {
    made.__name__: made for made in (mlp, cnn, encoder, llama, attention, norms, image_norms, activations, recurrent)
}
DYNAMIC = ("mlp", "cnn", "encoder", "norms")


def exported(name: str, n: int) -> list[store.Family]:
    """The family with a fixed batch and, of some, with one that varies; normalizations as operators and written out."""
    run, inputs = FAMILIES[name](n)
    families = []
    for title in (name, *([f"{name}.dynamic"] if name in DYNAMIC else [])):
        family = store.Family(title, [np.asarray(held) for held in inputs], [np.asarray(run(*inputs))])
        shapes = [("B", *held.shape[1:]) if title != name else held.shape for held in inputs]
        for mode, exporter in (("prefer_native", "jax2onnx"), ("force_decomposed", "jax2onnx_decomposed")):
            for opset in OPSETS:
                try:
                    with quiet():
                        model = jax2onnx.to_onnx(run, shapes, opset=opset, normalization_mode=mode)
                except Exception as error:
                    print(f"{title} {opset}: {type(error).__name__}: {str(error)[:150]}")
                    continue
                family.exports[exporter, opset] = store.stripped(model)
        families.append(family)
    return families


if __name__ == "__main__":
    export(__doc__, "jax", ["jax", "flax", "jax2onnx", "onnx"], FAMILIES, exported)
