"""Mistakes of ONNX's shape inference: a table of cases, with the correction and the script that shows each.

`corrected.py` infers a model with them, `node_inference.py` a node. `test_cases.py` in `tests/` holds
a script of each and asks onnx itself about it: a case that a new onnx gets right is noticed.
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
"""Takes back how a model was written for inference, in the model and in the copy with types."""


class Case(NamedTuple):
    """Calls that ONNX's inference gets wrong, and what is done about it.

    Attributes:
        name: by which the script is found.
        ops: the operators, of the default domain.
        told: what inference tells.
        thread: where it is discussed, if somebody reported it.
        rewrite: writes a model otherwise while it is inferred, in a way that is inferred right.
        state: states in a model what inference did not tell; True if anything is to be inferred again.
        may_be_wrong, find_wrong: whether a node at an opset may be told wrong, and which of its outputs are with these
            types of values: nothing is taken of them. In a function, types hang on the calls: none are known.
        node: a copy of a node that is inferred right, or the node itself.
        opset: the version at which a node is inferred right.
        inputs: more types of inputs, by which a node is inferred right.
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
    """Both make what has the type and the shape of their first input."""
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
"""Reshape took its shape as an input; its schema told the rank by the length of a shape that it cannot read."""


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
