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
    """Inputs, small weights, and results of calls. What is the same object is the same value: none is ever changed."""

    def __init__(self) -> None:
        self._feeds: dict[int, tuple[Any, Value]] = {}
        self._weights: dict[Key, Value] = {}
        self._calls: dict[Key, tuple[Sequence[Value], Any]] = {}
        self._size = 0

    def feed(self, value: Any) -> Value:
        """An input in double, which both twins are given."""
        return self._feeds.setdefault(id(value), (value, widened(value)))[1]

    def weight(self, tensor: TensorProto, folder: str | None, *, narrow: bool = False) -> Value:
        """A weight; a small one that holds the same as another is the same."""
        raw = tensor.raw_data if len(tensor.raw_data) <= _SMALL else b""
        made = None if raw else of_tensor(tensor, folder, narrow=narrow)
        if made is not None and (made.data.dtype == object or made.data.nbytes > _SMALL):
            return made
        key = tensor.data_type, tuple(tensor.dims), narrow, raw if made is None else made.data.tobytes()
        if key not in self._weights:
            self._weights[key] = made or of_tensor(tensor, folder, narrow=narrow)
        return self._weights[key]

    def key(self, marks: Key, inputs: Sequence[Value], more: tuple[int, ...]) -> Key:
        """What a call is known again by, beside the `marks` of its node."""
        return marks, more, *((id(value.data), value.kind, value.cut) for value in inputs)

    def result(self, key: Key) -> Any:
        """What a call yielded, and what was counted there; None where that was not kept."""
        found = self._calls.get(key)
        return None if found is None else found[1]

    def keep(self, key: Key, inputs: Sequence[Value], made: Sequence[Value], counted: Any) -> None:
        """Keep what a call yields, and what it was given, as long as there is room."""
        self._size += sum(getattr(value.data, "nbytes", MOST) for value in made if value.data is not None)
        if self._size <= MOST:
            self._calls[key] = inputs, (made, counted)
