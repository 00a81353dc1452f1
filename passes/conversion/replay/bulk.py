"""A patch: an edit that is the same for all calls of a kind, so that it is made to all of them at once.

Steps often ask nothing about a call, drop or set attributes, and add inputs that are constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.conversion.replay.template import Script
from opshift.passes.model.encoding.fields import tag
from opshift.passes.model.messages import NodeProto

_INPUT = tag(NodeProto.INPUT_FIELD_NUMBER)
_make_change: Any = partial(tuple.__new__, Change)


@dataclass(frozen=True)
class Patch:
    """Attributes that take the place of those that a call has, unless None, and the keys of the constants that it adds.

    `named` are the numbers of the changes' nodes: an output's, or -1 for the call's own name.
    """

    attributes: bytes | None
    constants: tuple[bytes, ...]
    named: tuple[int, ...]

    def apply(self, script: Script, calls: Sequence[NodeProto], names: Sequence[str], scope: Scope) -> Iterator[Any]:
        """Edit the calls, whose own names are `names`, and yield the changes of each."""
        more = b"".join([_INPUT + scope.spelled[key][1] for key in self.constants])
        if self.attributes is None:
            for call in calls:
                call.MergeFromString(more)
        else:
            more += self.attributes
            for call in calls:
                call.ClearField("attribute")
                call.MergeFromString(more)
        outputs = [[call.output[number] for call in calls] for number in range(len(script.outputs))]
        made = list(zip(repeat(script), zip(calls, strict=True)))
        for values, (_, _, elem_type) in zip(outputs, script.outputs, strict=True):
            scope.later.update(zip(values, made, strict=True))
            if elem_type:
                scope.elem_types.update(dict.fromkeys(values, elem_type))
        places = [names if number < 0 else outputs[number] for number in self.named]
        each = [
            map(_make_change, zip(place, *map(repeat, rest), strict=False))
            for place, (_, rest) in zip(places, script.changes, strict=True)
        ]
        return zip(*each, strict=True) if each else repeat(())


def find(script: Script, keys: Sequence[bytes], call: NodeProto, done: NodeProto) -> Patch | None:
    """The patch that makes `done` of a call, whose names are placeholders; None if a script has more to do.

    `keys` are those of the constants that the script asks for, empty for fresh names.
    """
    inputs, outputs = len(call.input), len(call.output)
    constants = dict(zip(script.places[inputs + outputs + 1 :], keys, strict=True))
    more = done.input[inputs:]
    rest, before = NodeProto(), NodeProto()
    for copy, node in ((rest, done), (before, call)):
        copy.CopyFrom(node)
        copy.ClearField("attribute")
    rest.input[:] = done.input[:inputs]
    numbers = [number - inputs for number, _ in script.changes]
    if (
        rest != before
        or not all(constants.values())
        or not all(constants.get(name) for name in more)
        or script.released
        or script.descended
        or any(kind is not None for _, kind, _ in script.outputs)
        or [number for number, _, _ in script.outputs] != list(range(inputs, inputs + outputs))
        or not all(0 <= number <= outputs for number in numbers)
    ):
        return None
    held = [[a.SerializeToString(deterministic=True) for a in node.attribute] for node in (call, done)]
    return Patch(
        NodeProto(attribute=done.attribute).SerializeToString() if held[0] != held[1] else None,
        tuple(constants[name] for name in more),
        tuple(-1 if number == outputs else number for number in numbers),
    )
