"""`python -m tests.lab make-tensorflow [--only FAMILY ...] [--large FOLDER]`: TensorFlow functions through tf2onnx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf2onnx

from tests.exported import store
from tests.exported.making import coarse, export, quiet

OPSETS = [11, 13, 17, 18]
Made = tuple[Callable[..., Any], list[tf.Tensor], list[list[int | None]]]
random = np.random.default_rng(0)


def drawn(*shape: int) -> tf.Tensor:
    return tf.constant(random.standard_normal(shape), tf.float32)


def weight(*shape: int) -> np.ndarray:
    """As numpy has it: a tensor made outside of the function would become an input of it."""
    return coarse(random.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32)


def layer_norm(x: tf.Tensor, scale: np.ndarray, bias: np.ndarray, axes: list[int] = [-1]) -> tf.Tensor:  # noqa: B006
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, bias, scale, 1e-6)


def gelu_tanh(x: tf.Tensor) -> tf.Tensor:
    """As BERT's and GPT-2's first code has it."""
    return 0.5 * x * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3))))


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """As tf.nn.gelu had it before it took erfc, which tf2onnx leaves as it is."""
    return 0.5 * x * (1.0 + tf.math.erf(x / tf.cast(1.4142135623730951, x.dtype)))


def mlp(n: int) -> Made:
    one, two, bias = weight(8 * n, 16 * n), weight(16 * n, 4), weight(16 * n)
    return lambda x: tf.nn.softmax(tf.nn.relu(x @ one + bias) @ two), [drawn(3, 8 * n)], [[None, 8 * n]]


def cnn(n: int) -> Made:
    kernel, deep, head, bias = weight(3, 3, 3, 4 * n), weight(3, 3, 4 * n, 1), weight(4 * n, 5), weight(5)
    held = [weight(4 * n) for _ in range(3)]
    spread = np.abs(weight(4 * n)) + np.float32(0.5)

    def run(x: tf.Tensor) -> tf.Tensor:
        x = tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1, 2, 2, 1], "SAME"), held[0])
        x, *_ = tf.compat.v1.nn.fused_batch_norm(x, held[1], held[2], held[0], spread, is_training=False)
        x = tf.nn.relu6(tf.nn.depthwise_conv2d(x, deep, [1, 1, 1, 1], "SAME"))
        x = tf.nn.max_pool2d(x, 2, 2, "VALID") + tf.nn.avg_pool2d(x, 2, 2, "VALID")
        return tf.reduce_mean(x, [1, 2]) @ head + bias

    return run, [drawn(2, 12 * n, 12 * n, 3)], [[None, 12 * n, 12 * n, 3]]


def encoder(n: int) -> Made:
    """A layer of BERT in TensorFlow's own words: Moments, erf or tanh, -10000 for what is masked."""
    width, heads = 16 * n, 4
    weights = [weight(width, width) for _ in range(4)]
    up, down, biases = weight(width, 2 * width), weight(2 * width, width), [weight(width) for _ in range(5)]
    scales = [np.float32(1) + weight(width), np.float32(1) + weight(width)]

    def split(x: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(x)
        return tf.transpose(tf.reshape(x, [shape[0], shape[1], heads, width // heads]), [0, 2, 1, 3])

    def run(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        q, k, v = (split(x @ held + bias) for held, bias in zip(weights, biases[:3], strict=False))
        scores = tf.matmul(q, k, transpose_b=True) * (width // heads) ** -0.5
        scores += (1.0 - tf.cast(mask, tf.float32)[:, None, None, :]) * -10000.0
        y = tf.transpose(tf.nn.softmax(scores) @ v, [0, 2, 1, 3])
        x = layer_norm(x + tf.reshape(y, tf.shape(x)) @ weights[3], scales[0], biases[3])
        y = x @ up
        return layer_norm(x + (y * 0.5 * (1.0 + tf.math.erf(y / tf.sqrt(2.0)))) @ down, scales[1], biases[4])

    mask = tf.constant(np.arange(6 * n) < 4 * n, tf.int32)[None] * tf.ones([2, 1], tf.int32)
    return run, [drawn(2, 6 * n, width), mask], [[None, None, width], [None, None]]


def norms(n: int) -> Made:
    scale, bias = np.float32(1) + weight(8 * n), weight(8 * n)

    def run(x: tf.Tensor) -> tf.Tensor:
        found = [layer_norm(x, scale, bias), tf.nn.l2_normalize(x, -1), tf.norm(x, axis=-1, keepdims=True) + x]
        found += [
            tf.norm(x, 1, -1, True) * x,
            tf.reduce_logsumexp(x, -1, True) * x,
            tf.math.reduce_std(x, -1, True) * x,
        ]
        found += [x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, True) + 1e-6) * scale]
        return tf.concat(found, -1)

    return run, [drawn(2, 3, 8 * n)], [[None, 3, 8 * n]]


def image_norms(n: int) -> Made:
    """Instance and group normalization of NHWC images."""
    scale, bias, groups = np.float32(1) + weight(8 * n), weight(8 * n), 4

    def run(x: tf.Tensor) -> tf.Tensor:
        one = layer_norm(x, scale, bias, [1, 2])
        shape = x.shape
        parts = tf.reshape(x, [-1, shape[1], shape[2], groups, shape[3] // groups])
        mean, variance = tf.nn.moments(parts, [1, 2, 4], keepdims=True)
        parts = (parts - mean) / tf.sqrt(variance + 1e-5)
        return tf.nn.swish(tf.reshape(parts, [-1, *shape[1:]]) * scale + bias) + one

    return run, [drawn(2, 5 * n, 5 * n, 8 * n)], [[None, 5 * n, 5 * n, 8 * n]]


def activations(n: int) -> Made:
    def run(x: tf.Tensor) -> tf.Tensor:
        kinds = [tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.selu, gelu_erf, gelu_tanh, tf.nn.swish, tf.nn.softplus]
        kinds += [tf.nn.softsign, tf.nn.sigmoid, tf.nn.leaky_relu, tf.nn.log_softmax, tf.nn.softmax]
        kinds += [lambda x: tf.nn.gelu(x, approximate=True), lambda x: x * tf.tanh(tf.nn.softplus(x))]
        kinds += [lambda x: x * tf.nn.relu6(x + 3.0) / 6.0, lambda x: tf.nn.relu6(x + 3.0) * (1 / 6)]
        return tf.concat([kind(x) for kind in kinds], -1)

    return run, [drawn(3, 8 * n) * 2], [[None, 8 * n]]


def loop(n: int) -> Made:
    """A while loop over the steps of a sequence: tf2onnx writes a Loop or a Scan."""
    one, two = weight(4 * n, 4 * n), weight(4 * n, 4 * n)

    def run(x: tf.Tensor) -> tf.Tensor:
        def step(i: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, tf.tanh(x[:, i] @ one + state @ two)

        return tf.while_loop(lambda i, _: i < tf.shape(x)[1], step, [tf.constant(0), tf.zeros_like(x[:, 0])])[1]

    return run, [drawn(2, 5, 4 * n)], [[None, None, 4 * n]]


FAMILIES = {made.__name__: made for made in (mlp, cnn, encoder, norms, image_norms, activations, loop)}


def exported(name: str, n: int) -> list[store.Family]:
    """The family with fixed and with varying dimensions."""
    run, inputs, shapes = FAMILIES[name](n)
    outputs = [np.asarray(run(*inputs))]
    families = []
    for title, dims in ((name, [held.shape for held in inputs]), (f"{name}.dynamic", shapes)):
        family = store.Family(title, [np.asarray(held) for held in inputs], outputs)
        signature = [
            tf.TensorSpec(d, held.dtype, f"x{i}") for i, (held, d) in enumerate(zip(inputs, dims, strict=True))
        ]
        for opset in OPSETS:
            try:
                with quiet():
                    model, _ = tf2onnx.convert.from_function(tf.function(run, signature), signature, opset=opset)
            except Exception as error:
                print(f"{title} {opset}: {type(error).__name__}: {str(error)[:150]}")
                continue
            family.exports["tf2onnx", opset] = store.stripped(model)
        families.append(family)
    return families


if __name__ == "__main__":
    export(__doc__, "tensorflow", ["tensorflow-cpu", "tf2onnx", "onnx"], FAMILIES, exported)
