"""The cases that others are derived from: a few of one node for each version of each operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx.helper
from opshift.passes.conversion import convert
from opshift.passes.model import schemas

from tests.conformance.cases import Case
from tests.support import model

OLDEST = 7  # of the opsets that onnxruntime has kernels for
MOST = 4  # calls of each version of an operator
UNPUBLISHED = (  # operators without a test of one node
    ("y = ConcatFromSequence<axis=1>(s)", 11, "seq(float[2,3]) s", "float[2,6] y"),
    ("y = ConcatFromSequence<axis=0, new_axis=1>(s)", 11, "seq(float[2,3]) s", "float[2,2,3] y"),
    ("y = GlobalLpPool(x)", 2, "float[2,3,4] x", "float[2,3,1] y"),
    ("y = MaxRoiPool<pooled_shape=[2,2]>(x, r)", 1, "float[2,3,4,4] x, float[2,5] r", "float[2,3,2,2] y"),
    ("y = SequenceAt(s, i)", 11, "seq(float[2,3]) s, int64 i", "float[2,3] y"),
    ("y = SequenceConstruct(a, b)", 11, "float[2,3] a, float[2,3] b", "seq(float[2,3]) y"),
    ("y = SequenceErase(s, i)", 11, "seq(float[2,3]) s, int64 i", "seq(float[2,3]) y"),
    ("y = SequenceLength(s)", 11, "seq(float[2,3]) s", "int64 y"),
    ("y = SplitToSequence<axis=1, keepdims=0>(x)", 11, "float[2,3] x", "seq(float[2]) y"),
)
UNTOLD = ("to", "dtype", "seed")  # attributes that choose a type
COMMON = ("float32", "int64", "bool", "object")


@dataclass(frozen=True)
class Base:
    """A case that others are derived from, one of so many of its version of its operator: these take turns in what they declare."""

    case: Case
    index: int = 0
    of: int = 1

    def takes(self, change: int, turn: int, turns: int) -> bool:
        """Whether it is this one's turn to declare a change in this way; where there is one base alone, it always is."""
        return (self.index + change + turn) % min(self.of, turns) == 0


def bases(published: Sequence[Case]) -> list[Base]:
    """A few cases of one node for each version of each operator, published or brought to an older opset."""
    single = [
        case
        for case in published
        if len(case.model.graph.node) == 1
        and not case.model.graph.node[0].domain
        and all(value.name in case.inputs for value in case.model.graph.input)
    ]
    own = [*sorted(single, key=_oddity), *map(_unpublished, range(len(UNPUBLISHED)))]
    older = [version for case in _spread(own) for version in _older(case)]
    found: dict[tuple[str, int], list[Case]] = defaultdict(list)
    for case in _spread([*own, *older]):
        found[version(case)].append(case)
    return [Base(case, index, len(alike)) for alike in found.values() for index, case in enumerate(alike)]


def _spread(cases: Sequence[Case]) -> list[Case]:
    """The few of each version of an operator that differ most, in the inputs, their ranks and the attributes; the first
    ones of those that differ as much."""
    alike: dict[tuple[str, int], dict[str, Case]] = defaultdict(dict)
    for case in cases:
        alike[version(case)].setdefault(_kind(case), case)
    chosen = []
    for kinds in alike.values():
        left, seen = {kind: _traits(case) for kind, case in kinds.items()}, set[object]()
        for _ in range(min(MOST, len(left))):
            kind = max(left, key=lambda k: len(left[k] - seen))
            seen |= left.pop(kind)
            chosen.append(kinds[kind])
    return chosen


def _traits(case: Case) -> set[object]:
    """What tells a call from others of its operator."""
    (node,) = case.model.graph.node
    ranks = {
        (index, getattr(case.inputs[name], "ndim", None))
        for index, name in enumerate(node.input)
        if name in case.inputs
    }
    held = {("held", index) for index, name in enumerate(node.input) if name and name not in case.inputs}
    attributes = {a.SerializeToString(deterministic=True) for a in node.attribute if a.name not in UNTOLD}
    made = {("made", index) for index, name in enumerate(node.output) if name}
    return {*ranks, *held, *attributes, *made, *(a.name for a in node.attribute), ("inputs", len(node.input))}


def version(case: Case) -> tuple[str, int]:
    """The operator of a case and the opset that its version is from."""
    (op,) = case.ops
    return op, schemas.since("", op, case.opset) or 0


def _kind(case: Case) -> str:
    """What is alike but for the values and the types."""
    (node,) = case.model.graph.node
    attributes = sorted(a.SerializeToString(deterministic=True) for a in node.attribute if a.name not in UNTOLD)
    inputs = [np.shape(v) if isinstance(v, np.ndarray) else type(v).__name__ for v in case.inputs.values()]
    held = [tuple(tensor.dims) for tensor in case.model.graph.initializer]
    return repr((version(case), attributes, list(map(bool, node.output)), inputs, held))


def _oddity(case: Case) -> int:
    """How many of the inputs have a type that few engines know."""
    return sum(isinstance(v, np.ndarray) and v.dtype not in COMMON for v in case.inputs.values())


def _unpublished(index: int) -> Case:
    body, opset, inputs, outputs = UNPUBLISHED[index]
    of = model(body, max(opset, OLDEST), inputs=inputs, outputs=outputs)
    feeds: dict[str, Any] = {}
    for value in of.graph.input:
        sequence = value.type.HasField("sequence_type")
        kind = (value.type.sequence_type.elem_type if sequence else value.type).tensor_type
        shape = [d.dim_value for d in kind.shape.dim]
        count, dtype = int(np.prod(shape)), onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        array = (np.arange(count) % 3).astype(dtype).reshape(shape)
        feeds[value.name] = [array, array] if sequence else array
    return Case(of.graph.node[0].op_type.lower(), "", of, feeds, [])


def _older(case: Case) -> Iterator[Case]:
    """The case at each older version of its operator where it is one node of it, too."""
    node = case.model.graph.node[0]
    for first in schemas.versions("", node.op_type):
        opset = max(first, OLDEST)
        if opset >= case.opset or schemas.since("", node.op_type, opset) == version(case)[1]:
            continue
        result = convert.attempt(case.model, {"": opset})
        if result.model is not None and [n.op_type for n in result.model.graph.node] == [node.op_type]:
            yield replace(case, name=f"{case.name}@{opset}", model=result.model)
