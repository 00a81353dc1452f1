"""What twins have computed already: of two forms, most nodes are the same on the same values, and run once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.passes.model.messages import TensorProto
from opshift.verification.twins.values import Value, of_tensor, widened

MOST = 1 << 26
"""Bytes of results that are kept."""
_SMALL = 1 << 20  # bytes of a weight that is known again by what it holds
Key = tuple[Any, ...]


class Memory:
    """Inputs, small weights, and results of calls on these. What is the same object is the same value: none is changed.

    A large weight is read anew for each node, so that nobody asks for what is computed of it again: to keep that would
    keep all weights in double.
    """

    def __init__(self) -> None:
        self._feeds: dict[int, tuple[Any, Value]] = {}
        self._weights: dict[Key, Value] = {}
        self._calls: dict[Key, Any] = {}
        self._held: set[int] = {id(None)}  # of data that stay
        self._size = 0

    def feed(self, value: Any) -> Value:
        """An input in double, which both twins are given."""
        found = self._feeds.setdefault(id(value), (value, widened(value)))[1]
        self._held.add(id(found.data))
        return found

    def weight(self, tensor: TensorProto, folder: str | None, *, narrow: bool = False) -> Value:
        """A weight; a small one that holds the same as another is the same."""
        raw = tensor.raw_data if len(tensor.raw_data) <= _SMALL else b""
        made = None if raw else of_tensor(tensor, folder, narrow=narrow)
        if made is not None and (made.data.dtype == object or made.data.nbytes > _SMALL):
            return made
        key = tensor.data_type, tuple(tensor.dims), narrow, raw if made is None else made.data.tobytes()
        if key not in self._weights:
            self._weights[key] = made or of_tensor(tensor, folder, narrow=narrow)
            self._held.add(id(self._weights[key].data))
        return self._weights[key]

    def key(self, marks: Key, inputs: Sequence[Value], more: tuple[int, ...]) -> Key:
        """What a call is known again by, beside the `marks` of its node."""
        return marks, more, *((id(value.data), value.kind, value.cut) for value in inputs)

    def result(self, key: Key) -> Any:
        """What a call yielded, and what was counted there; None where that was not kept."""
        return self._calls.get(key)

    def keep(self, key: Key, inputs: Sequence[Value], made: Sequence[Value], counted: Any) -> None:
        """Keep what a call yields, as long as there is room, if what it was given stays."""
        if not self._held.issuperset(id(value.data) for value in inputs):
            return
        self._size += sum(getattr(value.data, "nbytes", MOST) for value in made if value.data is not None)
        if self._size <= MOST:
            self._calls[key] = made, counted
            self._held.update(id(value.data) for value in made)
