"""Choose sizes for dynamic dimensions as users feed them: one sample and several, small images, short texts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from opshift.passes.inputs.interface import tensor
from opshift.passes.model.messages import TensorProto, TypeProto
from opshift.passes.model.types import is_fixed, symbol
from opshift.verification.engines import EngineError
from opshift.verification.feeding.windows import Window, infer_shapes, windows
from opshift.verification.side import Side

BATCH, HEIGHT, WIDTH, SEQUENCE, PAST, TOTAL = "batch", "height", "width", "sequence", "past", "total"
# The size of a dimension in the first run, the second, and so on. The third sizes are odd or short.
TYPICAL = {
    BATCH: (1, 2, 3, 5),
    HEIGHT: (64, 96, 37, 128),
    WIDTH: (96, 64, 53, 160),
    SEQUENCE: (16, 24, 1, 13),
    PAST: (8, 12, 3, 1),
    TOTAL: (24, 36, 4, 14),  # both
    "count": (5, 8, 1, 3),
}
# Patterns for the name of a dimension, and its role; the first that fits counts.
_NAMED = (
    (r"total", TOTAL),
    (r"past|cache", PAST),
    (r"batch|bsz|^[nb]$", BATCH),
    (r"height|^h$", HEIGHT),
    (r"width|^w$", WIDTH),
    (r"seq|len|time|token|frame|sample|audio|^[tls]$", SEQUENCE),
    (r"num|count|box|class|point", "count"),
)
_NO_IMAGE = frozenset([TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.STRING])
_LINE = {HEIGHT: 32, WIDTH: 320}  # of text, for models that read one
_GROWTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # how many times as large sizes become to fill windows
_ROOM = 1 << 20  # elements of an input that is made larger
Places = Mapping[str, list[tuple[str, int]]]
ShapeOf = Callable[[str, Mapping[str, int]], list[int]]


def place(name: str, axis: int) -> str:
    """Make a key for a dimension without a symbol; it has a line break, which no symbol has."""
    return f"{name}\n{axis}"


def roles(taken: Mapping[str, TypeProto], dims: Places) -> dict[str, str]:
    """Find the role of each dynamic dimension by its name, else by its place.

    A total length (of past and new steps) is an ordinary sequence if no dimension is the past.
    """
    role_of = {}
    for dim, places in dims.items():
        named = (role for pattern, role in _NAMED if "\n" not in dim and re.search(pattern, dim.lower()))
        role = next(named, None)
        if role == BATCH and len(dim) == 1 and all(axis and _sizes(taken[name])[0] for name, axis in places):
            role = None  # n boxes of one image
        role_of[dim] = role or _guess_role(taken, *places[0])
    if PAST in role_of.values():
        return role_of
    return {dim: SEQUENCE if role == TOTAL else role for dim, role in role_of.items()}


def _guess_role(taken: Mapping[str, TypeProto], name: str, axis: int) -> str:
    """Guess the role of a dimension from its place: the last two of an image, the batch first, else a sequence."""
    sizes = _sizes(taken[name])
    spatial = _spatial(sizes, tensor(taken[name]).elem_type)
    if axis in spatial[-2:]:
        return WIDTH if axis == spatial[-1] else HEIGHT
    if axis == 0:
        return BATCH if len(sizes) > 1 or len(taken) > 1 else SEQUENCE
    is_state = len(sizes) == 3 and axis == 1 and sizes[0] and sizes[2]  # of a recurrent layer
    beside = (_sizes(value_type) for other, value_type in taken.items() if other != name)
    return BATCH if is_state and any(other and not other[0] for other in beside) else SEQUENCE


def _sizes(value_type: TypeProto) -> list[int]:
    """List the sizes of a tensor, 0 for dynamic ones."""
    return [dim.dim_value if is_fixed(dim) else 0 for dim in tensor(value_type).shape.dim]


def _spatial(sizes: list[int], elem_type: int) -> list[int]:
    """Find the spatial axes of an image, channels first or last; there are none in other inputs."""
    if elem_type in _NO_IMAGE or len(sizes) < 3:
        return []
    if len(sizes) == 3:
        return [1, 2] if sizes[0] in (1, 3, 4) and not any(sizes[1:]) else []
    if sizes[-1] in (1, 3, 4) and not any(sizes[1:-1]):
        return list(range(1, len(sizes) - 1))
    return list(range(2, len(sizes))) if sizes[1] in (1, 3) or not any(sizes[2:]) else []


class Plan:
    """The sizes of each run."""

    def __init__(self, side: Side, taken: Mapping[str, TypeProto], dims: Places, shape_of: ShapeOf):
        """`shape_of` computes the shape of an input from the sizes of dimensions."""
        self._side, self._taken, self._shape_of = side, taken, shape_of
        self.roles = roles(taken, dims)

    def sizes(self, number: int) -> Iterator[dict[str, int]]:
        """Yield sizes for a run, the best ones first."""
        usual = self._choose_usual(number)
        if number == 0:
            yield self._fill_windows
        elif number == 1:
            sequences = [dim for dim, role in self.roles.items() if role == SEQUENCE and "\n" not in dim]
            # a model may mix up two of them
            yield {**usual, **{dim: usual[dim] + 8 * place for place, dim in enumerate(sequences)}}
        else:
            yield {dim: TYPICAL[role][number % 4] for dim, role in self.roles.items()}
        yield usual
        if number == 0 and HEIGHT in self.roles.values():
            yield {dim: _LINE.get(role, usual[dim]) for dim, role in self.roles.items()}

    def _choose_usual(self, number: int) -> dict[str, int]:
        """Take two sizes in turn, and more samples in each run; images of large models are halved."""
        sizes = {dim: TYPICAL[role][number % 4 if role == BATCH else number % 2] for dim, role in self.roles.items()}
        halved = (HEIGHT, WIDTH) if self._side.is_large else ()  # a run may take minutes
        return {dim: size // 2 if self.roles[dim] in halved else size for dim, size in sizes.items()}

    @cached_property
    def _fill_windows(self) -> dict[str, int]:
        """Multiply the first sizes until each window is filled, within `_ROOM`; those of large models stay."""
        filled = first = self._choose_usual(0)
        image = {HEIGHT, WIDTH} & {*self.roles.values()}
        growing = [dim for dim, role in self.roles.items() if role in (image or {SEQUENCE})]
        seen = windows(self._side.model) if growing and not self._side.is_large else []
        lacking = self._count_unfilled(first, seen)
        for times in _GROWTHS:
            sizes = {**first, **{dim: first[dim] * times for dim in growing}}
            if not lacking or any(math.prod(self._shape_of(name, sizes)) > _ROOM for name in self._taken):
                break
            left = self._count_unfilled(sizes, seen)
            if left < lacking:
                filled, lacking = sizes, left
        return filled

    def _count_unfilled(self, sizes: Mapping[str, int], seen: list[Window]) -> int:
        """Count the windows that are larger than their map. Used while windows are filled."""
        if not seen:
            return 0
        shapes = {name: self._shape_of(name, sizes) for name in self._taken}
        known = infer_shapes(self._side.model, self._side.folder, shapes, [window.value for window in seen])
        return sum(window.lacking(known.get(window.value, ())) for window in seen)


def unite(taken: Mapping[str, TypeProto], others: Mapping[str, TypeProto]) -> dict[str, TypeProto]:
    """Write the sizes that a second model has fixed into the inputs of the first; pair other names by their place.

    Raises:
        EngineError: the second one takes other sizes.
    """
    if len(taken) != len(others):
        raise EngineError(f"the first model has {len(taken)} inputs, the second {len(others)}")
    left = iter([value_type for name, value_type in others.items() if name not in taken])
    same: dict[Any, Any] = {}  # what a dimension of the first model is equal to: a size, or another dimension
    firsts: dict[Any, Any] = {}  # what dimension of the first model one of the second stands for

    def look_up(dim: Any) -> Any:
        """Look up what a dimension is equal to: a size, or another name. Used while both models' sizes are joined."""
        while dim in same:
            dim = same[dim]
        return dim

    for name, value_type in taken.items():
        dims, seconds = tensor(value_type).shape.dim, tensor(others[name] if name in others else next(left)).shape.dim
        if len(dims) != len(seconds):
            raise EngineError(f'input "{name}" has {len(dims)} dimensions, in the second model {len(seconds)}')
        for axis, (dim, second) in enumerate(zip(dims, seconds, strict=True)):
            one, theirs = look_up(_key(dim, name, axis)), _key(second, name, axis)
            other = theirs if is_fixed(second) else look_up(firsts.setdefault(theirs, one))
            if isinstance(one, int) and isinstance(other, int) and one != other:
                raise EngineError(f'axis {axis} of input "{name}" has size {one}, in the second model {other}')
            if one != other:
                # sizes rather than names, and names rather than places
                kept, gone = sorted((other, one), key=lambda dim: (not isinstance(dim, int), "\n" in str(dim)))
                same[gone] = kept
    return {name: _write_sizes(name, value_type, look_up) for name, value_type in taken.items()}


def _key(dim: Any, name: str, axis: int) -> int | str:
    return dim.dim_value if is_fixed(dim) else symbol(dim) or place(name, axis)


def _write_sizes(name: str, value_type: TypeProto, known: Callable[[Any], Any]) -> TypeProto:
    """Write sizes that are known into a type, and one name for dimensions that are equal. Runs for each input."""
    written = TypeProto()
    written.CopyFrom(value_type)
    for axis, dim in enumerate(tensor(written).shape.dim):
        size = known(_key(dim, name, axis))
        if isinstance(size, int):
            dim.dim_value = size
        elif size != place(name, axis):
            dim.dim_param = size
    return written
