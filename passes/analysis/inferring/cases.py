"""Mistakes of ONNX's shape inference: a table of cases, each with its correction.

`corrected.py` applies them to a model, `node_inference.py` to a node. `test_cases.py` shows each mistake by a script
that asks onnx itself, and so notices if a new onnx corrects one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from opshift.passes.analysis.inferring import (
    attention_sizes,
    inferred_defaults,
    later_versions,
    narrow_casts,
    open_slices,
    pool_windows,
)
from opshift.passes.model.messages import ModelProto, NodeProto, TypeProto
from opshift.passes.model.traversal import bodies

Kinds = Mapping[str, TypeProto]
Undo = Callable[[ModelProto], None]
"""Takes a rewrite back, in the model and in its copy with inferred types."""


class Case(NamedTuple):
    """Calls that ONNX's inference gets wrong, and what is done about it.

    Attributes:
        name: the name of the script in the tests.
        ops: the operators, of the default domain.
        told: what ONNX infers wrongly.
        thread: the issue of onnx, if there is one.
        rewrite: rewrites a model before inference, so that it is inferred correctly; returns how to take that back.
        state: declares in the model what inference left open; returns True if the model has to be inferred again.
        may_be_wrong: whether a node at an opset may be inferred wrongly.
        find_wrong: the outputs of such a node that are wrong, given types of values; their types are dropped. The third
            argument tells that the node is in a function, where the types of values are unknown.
        node: rewrites a node so that it is inferred correctly; returns a copy, or the node itself.
        opset: the opset at which a node is inferred correctly.
        inputs: more types of inputs, with which a node is inferred correctly.
    """

    name: str
    ops: tuple[str, ...]
    told: str
    thread: str = ""
    rewrite: Callable[[ModelProto], Undo | None] | None = None
    state: Callable[[ModelProto, ModelProto], bool] | None = None
    may_be_wrong: Callable[[NodeProto, int], bool] | None = None
    find_wrong: Callable[[NodeProto, Kinds, bool], set[str]] | None = None
    node: Callable[[NodeProto], NodeProto] | None = None
    opset: Callable[[NodeProto, int], int] | None = None
    inputs: Callable[[NodeProto, Kinds], Kinds] | None = None


def _write_groups_as_instances(model: ModelProto) -> Undo | None:
    """Infer GroupNormalization as InstanceNormalization: the output of both has the type and shape of their input."""
    places = [
        (place, index)
        for place, body in enumerate(bodies(model))
        for index, node in enumerate(body.node)
        if node.op_type == "GroupNormalization" and not node.domain
    ]

    def name_all(model: ModelProto, op: str) -> None:
        held = list(bodies(model))
        for place, index in places:
            held[place].node[index].op_type = op

    if not places:
        return None
    name_all(model, "InstanceNormalization")
    return lambda inferred: name_all(inferred, "GroupNormalization")


_SHAPE_IS_INPUT, _RANK_BY_LENGTH = 5, 21
"""From these opsets on, Reshape reads its shape from an input, and infers the rank by the length of a dynamic one."""


def _reshape_opset(node: NodeProto, opset: int) -> int:
    return max(opset, _RANK_BY_LENGTH) if opset >= _SHAPE_IS_INPUT else opset


CASES = (
    Case(
        "groups",
        ("GroupNormalization",),
        "nothing from opset 21 on, where the result is like the first input",
        "onnx/onnx#7157",
        rewrite=_write_groups_as_instances,
    ),
    Case(
        "old axes",
        ("Slice", "Squeeze", "Unsqueeze"),
        "below opset 11, that Slice takes the whole of an axis with a name; axes from the end are passed over",
        "onnx/onnx#2347",
        rewrite=later_versions.rewrite,
        opset=later_versions.right_opset,
    ),
    Case(
        "narrow casts",
        ("Cast",),
        "the same number behind a Cast to a type that does not hold it, and back",
        rewrite=narrow_casts.rewrite,
    ),
    Case(
        "open lists",
        ("Slice",),
        "the whole value where the shape of axes or steps is unknown: it takes them for left out",
        state=open_slices.state_lists,
        inputs=open_slices.type_lists,
    ),
    Case(
        "windows behind",
        tuple(sorted(pool_windows.POOLS)),
        "below opset 22, where sizes are rounded up, windows behind the data, which runtimes leave out",
        "onnx/onnx#5711",
        may_be_wrong=pool_windows.may_begin_behind,
        find_wrong=pool_windows.find_wrong,
    ),
    Case(
        "sizes of 0",
        ("Attention",),
        "0 for an unknown size of values or number of keys, and no keys of the past beside no present",
        may_be_wrong=lambda node, opset: True,
        find_wrong=attention_sizes.find_wrong,
    ),
    Case(
        "onesided",
        ("STFT",),
        "two sides where `onesided` is left out, which is 1 by default",
        node=inferred_defaults.state_default,  # of a model, `weightless.py` states it
    ),
    Case(
        "rank by length",
        ("Reshape",),
        "no rank below opset 14 where only the length of the shape is known",
        opset=_reshape_opset,  # of a model, `model_inference.py` states it
    ),
)

BY_OP: dict[str, list[Case]] = {}
for _case in CASES:
    for _op in _case.ops:
        BY_OP.setdefault(_op, []).append(_case)
