"""A patch: an edit that is the same for all calls of a kind, made without a look at what else they hold.

Steps often drop or set attributes, drop inputs, and add some that are constants; where they ask nothing about a call,
all calls are edited at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat, takewhile
from typing import Any

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.conversion.replay.template import Script, recall_later
from opshift.passes.model.encoding.fields import tag
from opshift.passes.model.messages import NodeProto
from opshift.passes.records import dataclass

_INPUT = tag(NodeProto.INPUT_FIELD_NUMBER)
_make_change: Any = partial(tuple.__new__, Change)


@dataclass(frozen=True)
class Patch:
    """An edit of a call: how many inputs stay, which constants follow, which attributes change.

    `named` are the numbers of the changes' nodes: an output's, or -1 for the call's own name; `read` those of
    the inputs that are read on.
    """

    stay: int
    constants: tuple[bytes, ...]
    attributes: bytes | None
    named: tuple[int, ...]
    read: tuple[int, ...]

    def fits(self, scope: Scope) -> bool:
        """Whether all constants that the patch needs exist already."""
        return not self.constants or scope.spelled.keys() >= set(self.constants)

    def one(
        self, script: Script, call: NodeProto, read: Any, names: Sequence[str], scope: Scope, changes: list[Change]
    ) -> list[NodeProto | bytes]:
        """Edit one call, whose inputs are `read`, and whose values and own name are `names`.

        Runs for each call that is replayed alone.
        """
        released = scope.context.released
        if self.attributes is not None:
            call.ClearField("attribute")
        if self.stay < len(read):
            del read[self.stay :]
        if more := self._more(scope) if self.constants else self.attributes:
            call.MergeFromString(more)
        for number in script.released:
            released.add(names[number])
        for number, rest in script.changes:
            changes.append(_make_change((names[number], *rest)))
        edited: list[NodeProto | bytes] = [call]
        recall_later(script, edited, names, scope)
        if released:
            for number in self.read:
                released.discard(names[number])
        return edited

    def _more(self, scope: Scope) -> bytes:
        """Encode the inputs and attributes that are added to each call, as a file holds them."""
        if not self.constants:
            return self.attributes or b""
        return b"".join([_INPUT + scope.spelled[key][1] for key in self.constants]) + (self.attributes or b"")

    def many(self, script: Script, calls: Sequence[NodeProto], names: Sequence[str], scope: Scope) -> Iterator[Any]:
        """Edit the calls, whose own names are `names`, and yield the changes of each."""
        for number in script.released:
            scope.context.released.update([call.input[number] for call in calls])
        inputs, more = len(calls[0].input), self._more(scope)
        for call in calls:
            if self.attributes is not None:
                call.ClearField("attribute")
            if self.stay < inputs:
                del call.input[self.stay :]
            if more:
                call.MergeFromString(more)
        outputs = [[call.output[number] for call in calls] for number in range(len(script.outputs))]
        edited = list(zip(repeat(script), zip(calls, strict=True)))
        for values, (_, _, elem_type, _) in zip(outputs, script.outputs, strict=True):
            scope.later.update(zip(values, edited, strict=True))
            if elem_type:
                scope.elem_types.update(dict.fromkeys(values, elem_type))
        places = [names if number < 0 else outputs[number] for number in self.named]
        each = [
            map(_make_change, zip(place, *map(repeat, rest), strict=False))
            for place, (_, rest) in zip(places, script.changes, strict=True)
        ]
        return zip(*each, strict=True) if each else repeat(())


def _same(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def find(script: Script, keys: Sequence[bytes], call: NodeProto, done: NodeProto) -> Patch | None:
    """Find the patch that turns a call into `done`; None if the script does more than a patch can.

    Called once a script is written.

    `keys` are those of the constants that the script asks for, empty for fresh names.
    """
    inputs, outputs = len(call.input), len(call.output)
    constants = dict(zip(script.places[inputs + outputs + 1 :], keys, strict=True))
    stay = sum(1 for _ in takewhile(_same, zip(call.input, done.input, strict=False)))
    more = done.input[stay:]
    rest, before = NodeProto(), NodeProto()
    for copy, node in ((rest, done), (before, call)):
        copy.CopyFrom(node)
        copy.ClearField("attribute")
        copy.ClearField("input")
    numbers = [number - inputs for number, _ in script.changes]
    if (
        rest != before
        or not all(constants.values())
        or not all(constants.get(name) for name in more)
        or not all(number < inputs for number in script.released)
        or script.descended
        or any(output.value_type is not None for output in script.outputs)
        or [output.number for output in script.outputs] != list(range(inputs, inputs + outputs))
        or not all(0 <= number <= outputs for number in numbers)
    ):
        return None
    attributes = [[a.SerializeToString(deterministic=True) for a in node.attribute] for node in (call, done)]
    return Patch(
        stay,
        tuple(constants[name] for name in more),
        NodeProto(attribute=done.attribute).SerializeToString() if attributes[0] != attributes[1] else None,
        tuple(-1 if number == outputs else number for number in numbers),
        tuple(number for number in script.read if number < inputs),
    )
