"""Replays what the steps did to one call on every call like it.

The second call of a kind is rehearsed: the steps rewrite a stand-in whose names are placeholders, on a stage that
passes each question about a placeholder on to the real scope and writes the answer down. What comes out is a script;
calls of the same kind for which the same questions have the same answers are rewritten by it, without the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from opshift.passes import script
from opshift.passes.changes import Change
from opshift.passes.names import subgraphs
from opshift.passes.protos import FunctionProto, NodeProto
from opshift.passes.scope import Scope
from opshift.passes.script import Script
from opshift.passes.stage import DOC, INPUTS, NAME, OUTPUTS, Stage, answer
from opshift.passes.survey import Kind

_MOST_ANSWERS = 64  # calls that differ more than this are hardly alike
_MOST_NODES = 4096  # a longer script is not worth keeping
_LARGEST = 8192  # bytes of a call: what is larger holds data of its own

Rehearsal = Callable[[NodeProto, Scope], "tuple[list[NodeProto], Sequence[Change]] | None"]


@dataclass
class _Question:
    """What the steps ask next about a placeholder, and where each answer leads; None leads to the steps."""

    kind: str
    place: str
    answers: dict[object, _Question | Script | None] = field(default_factory=dict)


class Replays:
    """The scripts for the bodies that are written at the same versions."""

    def __init__(self) -> None:
        self._heads: dict[tuple[Any, ...], _Question | Script | None] = {}
        self._once: set[tuple[Any, ...]] = set()

    def settle(
        self, proto: NodeProto, kind: Kind, scope: Scope, rehearse: Rehearsal, changes: list[Change]
    ) -> list[NodeProto | bytes] | None:
        """What takes the node's place, all of it at the target; None where the steps themselves have to look."""
        inputs, outputs, name = proto.input[:], proto.output[:], proto.name
        key = _key(proto, kind, inputs, outputs, name, scope)
        if key is None:
            return None
        names = _names(inputs, outputs, name)
        if key in self._heads:
            at = self._heads[key]
        elif key in self._once:
            at = self._learn(key, proto, names, scope, rehearse)
        else:
            self._once.add(key)
            if any(True for _ in subgraphs(proto)):  # they mention values by their real names
                self._heads[key] = None
            return None
        while isinstance(at, _Question):
            found = answer(at.kind, names[at.place], scope)[1]
            if found in at.answers:
                at = at.answers[found]
            elif len(at.answers) >= _MOST_ANSWERS:
                return None
            else:
                at = self._learn(key, proto, names, scope, rehearse)
        return None if at is None else script.play(at, proto, names, scope, changes)

    def _learn(
        self, key: tuple[Any, ...], proto: NodeProto, names: dict[str, str], scope: Scope, rehearse: Rehearsal
    ) -> Script | None:
        stand_in = _stand_in(proto)
        stage = Stage(scope, names, stand_in)
        end: Script | None = None
        try:
            rewritten = rehearse(stand_in, stage)
            if rewritten is not None and not stage.spoiled and len(rewritten[0]) <= _MOST_NODES:
                end = script.write(stage, stand_in, _stand_in(proto), *rewritten)
        except Exception:  # whatever it is, the steps will meet it again at the call itself
            end = None
        if not stage.asked:
            self._heads[key] = end
            return end
        at = self._heads.get(key)
        if not isinstance(at, _Question):
            at = self._heads[key] = _Question(*stage.asked[0][:2])
        for index, (kind, place, found) in enumerate(stage.asked):
            if (at.kind, at.place) != (kind, place):
                self._heads[key] = None  # the steps do not ask the same things twice
                return end
            if index + 1 == len(stage.asked):
                at.answers[found] = end
                break
            following = at.answers.get(found)
            if not isinstance(following, _Question):
                following = at.answers[found] = _Question(*stage.asked[index + 1][:2])
            at = following
        return end


def _names(inputs: list[str], outputs: list[str], name: str) -> dict[str, str]:
    if len(inputs) == len(outputs) == 1:
        return {INPUTS[0]: inputs[0], OUTPUTS[0]: outputs[0], NAME: name}
    names = dict(zip(INPUTS, inputs, strict=False))
    names.update(zip(OUTPUTS, outputs, strict=False))
    names[NAME] = name
    return names


def _key(
    proto: NodeProto, kind: Kind, inputs: list[str], outputs: list[str], name: str, scope: Scope
) -> tuple[Any, ...] | None:
    """All that steps see of a call but its names; None where that is too much."""
    known, made = len(inputs), len(outputs)
    if known > len(INPUTS) or not 0 < made <= len(OUTPUTS):
        return None
    held = kind if kind.same else _without_names(proto)
    if held is None:
        return None
    return (
        held,
        known if known < 2 and all(inputs) else tuple([inputs.index(n) if n else -1 for n in inputs]),
        made if all(outputs) else tuple(map(bool, outputs)),
        bool(name),
        isinstance(scope.body, FunctionProto),
    )


def _without_names(proto: NodeProto) -> tuple[bytes, bool, bool] | None:
    """What a call holds besides names, and whether it has notes; None for one with data of its own."""
    if proto.ByteSize() > _LARGEST:
        return None
    rest = NodeProto()
    rest.CopyFrom(proto)
    for own in ("input", "output", "name", "doc_string", "metadata_props"):
        rest.ClearField(own)
    return rest.SerializeToString(), bool(proto.doc_string), bool(proto.metadata_props)


def _stand_in(proto: NodeProto) -> NodeProto:
    """The call with placeholders for its names; equal names get equal ones."""
    made = NodeProto()
    made.CopyFrom(proto)
    inputs = proto.input[:]
    made.input[:] = [INPUTS[inputs.index(name)] if name else "" for name in inputs]
    made.output[:] = [OUTPUTS[index] if name else "" for index, name in enumerate(proto.output)]
    if proto.name:
        made.name = NAME
    if proto.doc_string:
        made.doc_string = DOC
    if proto.metadata_props:
        del made.metadata_props[:]
        made.metadata_props.add(key=DOC, value=DOC)
    return made
