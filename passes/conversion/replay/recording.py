"""Record what steps do to a stand-in with placeholders for names (see `cache.py`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import proxy

from opshift.passes.analysis import element_types as elements
from opshift.passes.analysis.scope import Context, Scope, has_shape
from opshift.passes.model import tensors
from opshift.passes.model.messages import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model.types import Dim
from opshift.passes.records import dataclass

MARK = "\x1f"
NAME, DOC = f"{MARK}name{MARK}", f"{MARK}doc{MARK}"
INPUTS = tuple(f"{MARK}in{i}{MARK}" for i in range(32))
OUTPUTS = tuple(f"{MARK}out{i}{MARK}" for i in range(32))
_PLACEHOLDER = f"({MARK}[^{MARK}]+{MARK})"
_TOO_LARGE = object()
_SIZE = "size "  # in front of the axis that is asked for


class Unrepeatable(Exception):
    """Raised where the steps read or change something that only this call has, so that nothing can be replayed."""


class Unasked(Unrepeatable):
    """Raised where an answer depends on a value that the steps never asked about."""

    def __init__(self, place: str):
        self.place = place


@dataclass(frozen=True)
class Event:
    """A fresh name or a constant that the steps asked for; `hint` is split at its placeholders."""

    place: str
    hint: tuple[str, ...]
    tensor: TensorProto | None = None
    key: bytes = b""


class _Placeholders:
    """Gives out placeholders in place of fresh names."""

    def __init__(self, events: list[Event]):
        self._events = events

    def fresh(self, hint: str) -> str:
        """Give out a placeholder where a step asks for a fresh name, and record the request."""
        place = f"{MARK}made{len(self._events)}{MARK}"
        self._events.append(Event(place, tuple(filter(None, re.split(_PLACEHOLDER, hint)))))
        return place


class _Unread:
    """Which outputs nobody reads, as an answer to be remembered."""

    def __init__(self, stage: StandInScope):
        self._stage = proxy(stage)  # no cycle, which would keep the real scope

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._stage.stands_for(name) and bool(self._stage.ask("unread", name))


class _Backdrop(Context):
    """The context of a recording: names and constants go into the script."""

    def __init__(self, real: Context, stage: StandInScope):
        super().__init__(ModelProto(), ModelProto(), real.folder)
        self.overridable = real.overridable
        self.names = _Placeholders(stage.events)  # type: ignore[assignment]
        self._unread = _Unread(stage)  # type: ignore[assignment]


class StandInScope(Scope):
    """A scope that records every question and passes it on to the real scope."""

    def __init__(self, real: Scope, names: Mapping[str, str], stand_in: NodeProto):
        self.events: list[Event] = []
        self.asked: list[tuple[str, str, object]] = []
        self.spoiled = False
        self._over = False
        self._real = real
        self._stand_in = stand_in
        self._names = {place: name for place, name in names.items() if name and place != NAME}
        self._answers: dict[tuple[str, str], Any] = {}
        super().__init__(
            GraphProto() if real.graph is not None else FunctionProto(), _Backdrop(real.context, self), real.opset
        )

    def stands_for(self, name: str) -> bool:
        return name in self._names

    def ask(self, kind: str, place: str) -> Any:
        """Answer a step's question about the call from the real scope, and record question and answer.

        A replay asks the same questions of another call, and fits only if the answers are the same.
        """
        if (kind, place) not in self._answers:
            if self._over:
                raise Unasked(place)
            value, key = answer(kind, self._names[place], self._real)
            if key is _TOO_LARGE:
                self._spoil()
            self._answers[kind, place] = value
            self.asked.append((kind, place, key))
        return self._answers[kind, place]

    def _spoil(self) -> None:
        self.spoiled = True
        raise Unrepeatable

    def _defines(self, name: str) -> bool:
        return name in self._names or super()._defines(name)

    def producer(self, name: str) -> NodeProto | None:
        """Give up the recording if a step looks at the node that makes an input: replays do not ask for nodes.

        Runs during a rehearsal.
        """
        if name in self._names and name not in self.made:
            self._spoil()
        return super().producer(name)

    def initializer(self, name: str, most: int | None = None) -> TensorProto | None:
        """Record a question for the constant behind an input; give up if it is about an output of the call."""
        if name not in self._names:
            return super().initializer(name, most)
        if name.startswith(f"{MARK}out"):
            self._spoil()
        tensor: TensorProto | None = self.ask("tensor" if most is None else "small", name)
        return tensor

    def relabel_constant(self, name: str, elem_type: int, dims: Sequence[int]) -> str | None:
        self._spoil()
        return None

    def node_to_ask(self, name: str) -> tuple[NodeProto, int] | None:
        """Record whether the type of an output is to be inferred from the stand-in."""
        if name not in self._names or name in self.made:
            return super().node_to_ask(name)
        return (self._stand_in, self.opset) if name in self._stand_in.output and self.ask("origin", name) else None

    def stated_type(self, name: str) -> TypeProto | None:
        """Record the declared type of a value of the call."""
        stated = self.typed.get(name)
        if name not in self._names or (stated is not None and has_shape(stated)):
            return super().stated_type(name)
        value_type: TypeProto | None = self.ask("stated", name)
        return value_type or stated

    def own_type(self, name: str) -> TypeProto | None:
        """Record the type of a value of the call, with what inference adds."""
        stated = self.typed.get(name)
        if name not in self._names or name in self.made or (stated is not None and has_shape(stated)):
            return super().own_type(name)
        value_type: TypeProto | None = self.ask("type", name)
        return value_type or stated

    def notice(self, name: str, known: TypeProto | None) -> None:
        if name in self._names and name not in self.typed:
            self.ask("claim", name)

    def seed(self, names: Sequence[str], value_types: Sequence[TypeProto | None]) -> None:
        """Keep types that are known for new values, but not over a known shape. Runs during a rehearsal."""
        for name, value_type in zip(names, value_types, strict=False):
            known = self.stated_type(name)
            if known is None or not has_shape(known):
                super().seed([name], [value_type])

    def elem_type(self, name: str) -> int:
        """Record the element type of a value of the call."""
        if name in self._names and name not in self.made and name not in self.typed:
            return int(self._carried_elem_type(name) or self.ask("elem_type", name))
        return super().elem_type(name)

    def _carried_elem_type(self, name: str) -> int:
        """The element type of an output, if it equals that of an input; 0 if unknown."""
        call = self._stand_in
        if call.domain or name not in call.output or self.ask("stated_elem_type", name):
            return 0
        _, source = elements.find_output_type(call, self.opset, name, self)
        return self.elem_type(source) if source else 0

    def stated_elem_type(self, name: str) -> int:
        """Record the declared element type of a value of the call."""
        if name in self._names and name not in self.made and name not in self.typed:
            return int(self.ask("elem_type", name))
        return super().stated_elem_type(name)

    def followed_elem_type(self, name: str) -> tuple[int, str]:
        """Infer the element type of a recorded value from answers so far, without a new question.

        Used while a script is written.
        """
        self._over = True
        try:
            return elements.elem_type(self, name), ""
        except Unasked as unasked:
            return 0, unasked.place
        except Unrepeatable:
            return 0, ""

    def shape(self, name: str) -> list[Dim] | None:
        """Record the shape of a value of the call."""
        if name in self._names and name not in self.made and name not in self.typed:
            dims: list[Dim] | None = self.ask("shape", name)
            return None if dims is None else list(dims)
        return super().shape(name)

    def rank(self, name: str) -> int | None:
        """Record the rank of a value of the call."""
        if name in self._names and name not in self.made and name not in self.typed:
            rank: int | None = self.ask("rank", name)
            return rank
        return super().rank(name)

    def size(self, name: str, axis: int) -> int | None:
        """Record the size of a value of the call along one axis."""
        if name in self._names and name not in self.made and name not in self.typed:
            size: int | None = self.ask(f"{_SIZE}{axis}", name)
            return size
        return super().size(name, axis)

    def shape_in_source(self, name: str) -> list[Dim] | None:
        """Record the shape that inference finds for a value of the call in the source."""
        if name not in self._names:
            return super().shape_in_source(name)
        dims: list[Dim] | None = self.ask("shape_in_source", name)
        return None if dims is None else list(dims)

    def elements(self, name: str) -> list[str] | None:
        """Record whether a value of the call is a removed sequence; the answer to the step is no."""
        if name in self._names:
            self.ask("elements", name)
            return None
        return super().elements(name)

    def _keep(self, name: str, tensor: TensorProto, key: bytes) -> None:
        """Record a constant that a step makes, which a replay makes or shares."""
        copy = TensorProto()
        copy.CopyFrom(tensor)
        self.events[-1] = Event(name, self.events[-1].hint, copy, key)
        super().hold(name, tensor)

    def hold(self, name: str, tensor: TensorProto) -> None:
        self._spoil()

    def declare(self, name: str) -> None:
        self._spoil()

    def dissolve(self, name: str, elements: Sequence[str]) -> None:
        self._spoil()


def answer(kind: str, name: str, scope: Scope) -> tuple[Any, object]:
    """Ask the real scope about a value; returns the answer, and the answer as a key.

    Used in rehearsals and replays alike.
    """
    if kind == "elem_type":
        elem_type = scope.elem_types.get(name) or scope.elem_type(name)
        return elem_type, elem_type
    if (remembered := scope.answered.get((kind, name))) is not None:
        return remembered
    if kind == "stated_elem_type":
        stated = scope.stated_elem_type(name)
        return stated, stated
    if kind in ("shape", "shape_in_source"):
        shape = getattr(scope, kind)(name)
        return shape, None if shape is None else tuple(shape)
    if kind == "rank":
        rank = scope.rank(name)
        return rank, rank
    if kind.startswith(_SIZE):
        size = scope.size(name, int(kind.removeprefix(_SIZE)))
        return size, size
    if kind == "claim":
        scope.notice(name, scope.stated_type(name))
        return None, None
    if kind == "unread":
        unread = name in scope.context.unread
        return unread, unread
    if kind == "elements":
        return None, None if scope.elements(name) is None else _TOO_LARGE
    if kind == "origin":
        origin = scope.node_to_ask(name) is not None
        return origin, origin
    if kind in ("tensor", "small"):
        answered = _tensor(kind, name, scope)
        if name in scope.initializers:
            scope.answered[kind, name] = answered
        return answered
    value = scope.type(name) if kind == "type" else scope.stated_type(name)
    return value, value and value.SerializeToString(deterministic=True)


def _tensor(kind: str, name: str, scope: Scope) -> tuple[Any, object]:
    """Ask the real scope for a constant; for one too large to compare, the recording is given up."""
    value = scope.tensor(name, tensors.SMALL if kind == "small" else None)
    if kind == "tensor" and value is not None and tensors.size(value) > tensors.SMALL:
        return None, _TOO_LARGE
    return value, value and value.SerializeToString(deterministic=True)
