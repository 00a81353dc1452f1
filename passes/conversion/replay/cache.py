"""Replays what the steps did to one call on every call like it.

A later call of a kind (`switch.py` says which) is rehearsed: the steps rewrite a stand-in whose names are placeholders,
on a stage that passes each question about a placeholder on to the real scope and writes the answer down. What comes out
is a script; calls of the same kind for which the same questions have the same answers are rewritten by it, without the
steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.conversion.replay import bulk, template
from opshift.passes.conversion.replay.bulk import Patch
from opshift.passes.conversion.replay.recording import DOC, INPUTS, NAME, OUTPUTS, StandInScope, answer
from opshift.passes.conversion.replay.switch import first_call_to_replay
from opshift.passes.conversion.replay.template import Script
from opshift.passes.model.call_signatures import CallSignature
from opshift.passes.model.messages import NodeProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.records import dataclass, field

_MOST_ANSWERS = 64  # calls that differ more than this are hardly alike
_MOST_NODES = 4096  # a longer script is not worth keeping
_LARGEST = 8192  # bytes of a call: what is larger holds data of its own

Rehearsal = Callable[[NodeProto, Scope], "tuple[list[NodeProto], Sequence[Change]] | None"]


@dataclass(frozen=True)
class _Learned:
    """What to do with calls of a kind: a script, and a patch if there is one."""

    script: Script
    patch: Patch | None


@dataclass
class _ReplayQuestion:
    """A question that steps ask about a call, and where each answer leads; None: run the steps."""

    kind: str
    number: int
    answers: dict[object, _ReplayQuestion | _Learned | None] = field(default_factory=dict)


class Replays:
    """The scripts for bodies at the same versions."""

    def __init__(self) -> None:
        self._heads: dict[tuple[Any, ...], _ReplayQuestion | _Learned | None] = {}
        self._once: set[tuple[Any, ...]] = set()
        self._seen: Counter[CallSignature] = Counter()
        self._from = first_call_to_replay()

    def replay(
        self, proto: NodeProto, signature: CallSignature, scope: Scope, rehearse: Rehearsal, changes: list[Change]
    ) -> list[NodeProto | bytes] | None:
        """Convert a call as earlier calls like it were; returns the new nodes, or None if the steps have to run.

        A script is learned from the eighth call with one signature, and calls for which the scope gives the same
        answers are converted by it. Runs for each node that is converted.
        """
        read, own = proto.input, proto.name
        names = read[:]
        inputs = len(names)
        names += proto.output[:]
        usual = signature.same and all(names) and (inputs < 2 or len(set(names[:inputs])) == inputs)
        names.append(own)
        if not _are_texts(names):
            return None
        key: tuple[Any, ...] = (signature, own != "", type(scope.body))
        at = self._heads.get(key) if usual else None
        if at is None:
            self._seen[signature] += 1
            if not self._may_learn(proto, signature):
                return None
            key = key if usual else _make_key(proto, signature, names, scope)
            if key in self._heads:
                at = self._heads[key]
            elif key in self._once:
                at = self._learn(key, proto, names, scope, rehearse)
            else:
                self._once.add(key)
                if any(True for _ in subgraphs(proto)):  # they mention values by their real names
                    self._heads[key] = None
                return None
        while isinstance(at, _ReplayQuestion):
            found = answer(at.kind, names[at.number], scope)[1]
            if found in at.answers:
                at = at.answers[found]
            elif len(at.answers) >= _MOST_ANSWERS:
                return None
            else:
                at = self._learn(key, proto, names, scope, rehearse)
        return None if at is None else _replay_call(at, proto, read, names, scope, changes)

    def _may_learn(self, proto: NodeProto, signature: CallSignature) -> bool:
        """Whether a script can be learned from this call: enough calls of its kind came before."""
        if self._from is None or self._seen[signature] < self._from - 1:
            return False
        if signature.inputs > len(INPUTS) or not 0 < signature.outputs <= len(OUTPUTS):
            return False
        return signature.same or proto.ByteSize() <= _LARGEST

    def ahead(
        self, signature: CallSignature, nodes: Sequence[NodeProto], places: Sequence[int], scope: Scope, *, whole: bool
    ) -> Iterator[Iterable[Change]] | None:
        """Edit all later calls of one kind at once by a patch; None if that is not possible.

        Called when the first call of the kind was replayed.

        `whole` says that no call leaves out an input or an output.
        """
        if not signature.same or not places:
            return None
        at = self._heads.get((signature, nodes[places[0]].name != "", type(scope.body)))
        if not isinstance(at, _Learned) or at.patch is None or not at.patch.fits(scope):
            return None
        calls = [nodes[place] for place in places]
        names = [call.name for call in calls]
        if all(names) != any(names):
            return None
        if not whole and not all(name for call in calls for name in (*call.input, *call.output)):
            return None
        if signature.inputs > 1 and not all(
            len(set(inputs)) == len(inputs) for inputs in [call.input[:] for call in calls]
        ):
            return None
        return at.patch.many(at.script, calls, names, scope)

    def _learn(
        self, key: tuple[Any, ...], proto: NodeProto, names: list[str], scope: Scope, rehearse: Rehearsal
    ) -> _Learned | None:
        """Run the steps on a stand-in of the call, and keep what they did as a script, under the answers that they got.

        The questions of the steps form a tree, as another answer may lead to other nodes. An exception here is ignored:
        the steps will meet it again at the call itself.
        """
        stand_in = _stand_in(proto)
        places = template.places_of(proto)
        stage = StandInScope(scope, dict(zip(places, names, strict=True)), stand_in)
        end: _Learned | None = None
        try:
            rewritten = rehearse(stand_in, stage)
            if rewritten is not None and not stage.spoiled and len(rewritten[0]) <= _MOST_NODES:
                end = _make_learned(stage, _stand_in(proto), *rewritten)
        except Exception:  # whatever it is, the steps will meet it again at the call itself
            end = None
        if not stage.asked:
            self._heads[key] = end
            return end
        asked = [(kind, places.index(place), found) for kind, place, found in stage.asked]
        at = self._heads.get(key)
        if not isinstance(at, _ReplayQuestion):
            at = self._heads[key] = _ReplayQuestion(*asked[0][:2])
        for index, (kind, number, found) in enumerate(asked):
            if (at.kind, at.number) != (kind, number):
                self._heads[key] = None  # the steps do not ask the same things twice
                return end
            if index + 1 == len(asked):
                at.answers[found] = end
                break
            following = at.answers.get(found)
            if not isinstance(following, _ReplayQuestion):
                following = at.answers[found] = _ReplayQuestion(*asked[index + 1][:2])
            at = following
        return end


def _replay_call(
    learned: _Learned, call: NodeProto, read: Any, names: list[str], scope: Scope, changes: list[Change]
) -> list[NodeProto | bytes]:
    """Convert a call as an earlier call like it was converted. Runs for each call that is replayed.

    A script lists the nodes that were written for the earlier call, with gaps for names. A patch is a faster form of
    the same script, which joins bytes: it is used if the constants that it names are there.
    """
    patch = learned.patch
    if patch is not None and (not patch.constants or patch.fits(scope)):
        return patch.one(learned.script, call, read, names, scope, changes)
    return template.play(learned.script, call, names, scope, changes)


def _make_learned(stage: StandInScope, call: NodeProto, done: list[NodeProto], changes: Sequence[Change]) -> _Learned:
    """Write the script of a rehearsal, and find a patch for it. Runs once for each kind of call and answers."""
    script = template.write(stage, call, done, changes)
    keys = [event.key for event in stage.events]
    return _Learned(script, bulk.find(script, keys, call, *done) if script.edits else None)


def _are_texts(names: list[str]) -> bool:
    """Whether all names are valid UTF-8; protobuf returns others as bytes. Other names are not replayed."""
    try:
        "".join(names)
    except TypeError:
        return False
    return True


def _is_usual(values: list[str], inputs: int) -> bool:
    """Whether a call leaves no input out and reads no value twice."""
    return all(values) and (inputs < 2 or len(set(values[:inputs])) == inputs)


def _make_key(proto: NodeProto, signature: CallSignature, names: list[str], scope: Scope) -> tuple[Any, ...]:
    """Make a key of all that steps see of a call except its names: calls with one key may share a script."""
    return (
        signature if signature.same else _without_names(proto),
        names[-1] != "",
        type(scope.body),
        tuple([names.index(name) if name else -1 for name in names[:-1]]),
    )


def _without_names(proto: NodeProto) -> tuple[bytes, int, int, bool, bool]:
    """Encode a call without its names, and whether it has doc strings or metadata. Part of `_make_key`."""
    rest = NodeProto()
    rest.CopyFrom(proto)
    for own in ("input", "output", "name", "doc_string", "metadata_props"):
        rest.ClearField(own)
    notes = bool(proto.doc_string), bool(proto.metadata_props)
    return rest.SerializeToString(), len(proto.input), len(proto.output), *notes


def _stand_in(proto: NodeProto) -> NodeProto:
    """Copy a call with placeholders for its names; equal names get equal placeholders. Runs before a rehearsal."""
    stand_in = NodeProto()
    stand_in.CopyFrom(proto)
    inputs = proto.input[:]
    stand_in.input[:] = [INPUTS[inputs.index(name)] if name else "" for name in inputs]
    stand_in.output[:] = [OUTPUTS[index] if name else "" for index, name in enumerate(proto.output)]
    if proto.name:
        stand_in.name = NAME
    if proto.doc_string:
        stand_in.doc_string = DOC
    if proto.metadata_props:
        del stand_in.metadata_props[:]
        stand_in.metadata_props.add(key=DOC, value=DOC)
    return stand_in
