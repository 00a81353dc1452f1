"""The form in which an operator is written where a definition was: defaults left out, shapes as runtimes want them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose, prod
from typing import Any

from opshift.passes.analysis.scope import Scope
from opshift.passes.fusion.patterns import PatternCall, PatternTensor, Splat
from opshift.passes.model import tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import Dim
from opshift.passes.rewrite.builder import Builder

Beside = Callable[[str, str, Callable[[Builder], str]], str]


@dataclass
class Emission:
    """A call that is about to be written. `beside` makes a value of another one once, for all calls that need it."""

    build: Builder
    call: PatternCall
    inputs: list[Any]
    attributes: dict[str, Any]
    shapes: Sequence[Sequence[Dim] | None]
    beside: Beside

    @property
    def elem_type(self) -> int:
        """The element type of the first input."""
        given = self.call.inputs[0]
        return given.elem_type if isinstance(given, PatternTensor) else 0


_TOLERANCES: dict[int, float] = {TensorProto.FLOAT16: 1e-3, TensorProto.BFLOAT16: 8e-3}


def reshape_value(build: Builder, name: str, dims: Sequence[int]) -> str:
    """A value in another shape, or as a vector for [-1]; an initializer gets a copy of it, unread."""
    scope = build.scope
    held, made = scope.initializers.get(name), scope.producer(name)
    if made is not None and not normalize_domain(made.domain) and made.op_type in ("Reshape", "Unsqueeze"):
        shape = scope.shape(made.input[0])
        if shape is not None and (shape == list(dims) or (len(shape) == 1 and list(dims) == [-1])):
            return str(made.input[0])
    if held is None:
        return str(build.Reshape(name, list(dims)))
    copy = TensorProto()
    copy.CopyFrom(held)
    copy.dims[:] = dims if -1 not in dims else [prod(held.dims)]
    fresh = str(scope.context.names.fresh(name))
    scope.hold(fresh, copy)
    return fresh


_MOST = 1 << 20  # elements of a table that is read


def _halves(scope: Scope, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    held = scope.tensor(name, _MOST)
    table = None if held is None else tensors.array(held)
    if table is None or table.ndim < 2 or table.shape[-1] % 2 or any(size != 1 for size in table.shape[:-2]):
        return None
    table = table.reshape(table.shape[-2:])
    first, second = np.split(table, 2, axis=-1)
    return first, second


def half_of(scope: Scope, name: str) -> list[Dim] | None:
    """The shape of the first half of a constant table that holds it twice; None for any other."""
    halves = _halves(scope, name)
    return list(halves[0].shape) if halves is not None and np.array_equal(*halves) else None


def first_half(build: Builder, name: str, elem_type: int) -> str:
    """That half as a constant."""
    halves = _halves(build.scope, name)
    assert halves is not None, "it was looked at before"
    return build.constant(halves[0], elem_type, f"{name}/half")


def has_rule(op: Op) -> bool:
    """Whether the form of an operator hangs on shapes."""
    return op in _RULES


def canonicalize(op: Op, made: Emission) -> None:
    """Write the call as exporters write it."""
    rule = _RULES.get(op)
    if rule is not None:
        rule(made)


def _attention(made: Emission) -> None:
    """The scale that the size of the heads gives is not written; a mask has a row for each query, as runtimes want."""
    query = made.shapes[0] or [None]
    size, scale = query[-1], made.attributes["scale"]
    if isinstance(size, int) and size and isclose(scale, size**-0.5, rel_tol=_TOLERANCES.get(made.elem_type, 1e-6)):
        made.attributes["scale"] = None
    if len(made.inputs) < 4:
        return
    mask, rows = made.shapes[3] or [], query[2]
    if len(mask) < 2 or mask[-2] != 1 or rows == 1:
        return
    if isinstance(rows, int):
        made.inputs[3] = made.beside(
            made.inputs[3], f"rows {rows}", lambda build: str(build.Expand(made.inputs[3], [rows, 1]))
        )
    else:
        length = made.build.Concat(made.build.Shape(made.inputs[0], start=2, end=3), [1], axis=0)
        made.inputs[3] = made.build.Expand(made.inputs[3], length)


def _expand_scales(made: Emission) -> None:
    """Scale and bias have the shape of the axes that are normalized; a scale that is not there is one of ones."""
    axis, x = made.attributes["axis"], made.shapes[0] or []
    for index, given in enumerate(made.call.inputs[1:], 1):
        shape = made.shapes[index]
        if isinstance(given, Splat):
            dims = [int(dim) for dim in x[axis:] if isinstance(dim, int)]
            made.inputs[index] = made.build.constant(np.full(dims, given.value), given.elem_type)
        elif shape is not None and len(shape) > -axis:
            made.inputs[index] = reshape_value(
                made.build, made.inputs[index], [int(dim) for dim in shape[axis:] if isinstance(dim, int)]
            )


def _rotary(made: Emission) -> None:
    """Angles by position need the positions; those of all batches are repeated."""
    x, cosine = made.shapes[0] or [], made.shapes[1] or []
    if len(cosine) == 2:
        batch, length = int(x[0] or 0), int(x[2] or 0)
        positions = np.broadcast_to(np.arange(length), (batch, length))
        made.inputs.append(made.build.constant(positions, TensorProto.INT64, "positions"))
    elif cosine[0] == 1 and x[0] != 1:
        batches = made.build.Concat(made.build.Shape(made.inputs[0], start=0, end=1), [1, 1], axis=0)
        made.inputs[1:] = [str(made.build.Expand(angles, batches)) for angles in made.inputs[1:]]


_RULES: dict[Op, Callable[[Emission], None]] = {
    ("", "Attention"): _attention,
    ("", "LayerNormalization"): _expand_scales,
    ("", "RotaryEmbedding"): _rotary,
    ("", "RMSNormalization"): _expand_scales,
}
