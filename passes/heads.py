"""The head of a node's bytes: the names of its inputs, its outputs and itself, which stand in front of all else.

Fields are written in the order of their numbers, and the names have the lowest. A name is spelled as a file holds it:
its bytes behind their length.
"""

from __future__ import annotations

from opshift.passes.protos import NodeProto, tag

_INPUT, _OUTPUT, _NAME = (
    tag(NodeProto.DESCRIPTOR.fields_by_name[name].number)[0] for name in ("input", "output", "name")
)
_SHORT = 128  # bytes of a name whose length takes one byte
_EMPTY = b"\0"


def without(
    data: bytes, number: int, made: dict[bytes, int], early: set[bytes], omitting: list[int]
) -> tuple[bytes, int, int]:
    """What stands behind the head, and how many inputs and outputs there are.

    `made` learns that the outputs come of the node of this number, `early` which inputs are not in it, and `omitting`
    that the node leaves some out, once for each.
    """
    at = inputs = outputs = 0
    try:
        while data[at] == _INPUT:
            inputs += 1
            size = data[at + 1]
            start = at + 2 if size < _SHORT else _start(data, at + 1)
            at = start + size if size < _SHORT else _length(data, at + 1) + at + 1
            name = data[start:at]
            if name not in made:
                early.add(name)
                if not name:
                    omitting.append(number)
        while data[at] == _OUTPUT:
            outputs += 1
            size = data[at + 1]
            start = at + 2 if size < _SHORT else _start(data, at + 1)
            at = start + size if size < _SHORT else _length(data, at + 1) + at + 1
            if size:
                made[data[start:at]] = number
            else:
                omitting.append(number)
        if data[at] == _NAME:
            size = data[at + 1]
            at += size + 2 if size < _SHORT else _length(data, at + 1) + 1
    except IndexError:  # there is nothing but names
        return b"", inputs, outputs
    return data[at:], inputs, outputs


def names(data: bytes, values: int) -> list[bytes]:
    """The names of so many inputs and outputs, and that of the node, as they are spelled."""
    at, found = 1, list[bytes]()
    for _ in range(values):
        size = data[at]
        end = at + (size + 1 if size < _SHORT else _length(data, at))
        found.append(data[at:end])
        at = end + 1
    if at <= len(data) and data[at - 1] == _NAME:
        size = data[at]
        found.append(data[at : at + (size + 1 if size < _SHORT else _length(data, at))])
    else:
        found.append(_EMPTY)
    return found


def _length(data: bytes, at: int) -> int:
    """How many bytes a name takes that is spelled at `at`."""
    size, start = 0, at
    while True:
        size |= (data[at] & 127) << 7 * (at - start)
        at += 1
        if data[at - 1] < _SHORT:
            return size + at - start


def _start(data: bytes, at: int) -> int:
    """Where a name begins whose length is spelled at `at`."""
    while data[at] >= _SHORT:
        at += 1
    return at + 1


def texts(spelled: list[bytes]) -> list[str]:
    """The names that are spelled so; raises `UnicodeDecodeError` for what is no text."""
    return [name[1:].decode() if name[0] < _SHORT else _text(name) for name in spelled]


def _text(spelled: bytes) -> str:
    return spelled[next(i for i, byte in enumerate(spelled) if byte < _SHORT) + 1 :].decode()
