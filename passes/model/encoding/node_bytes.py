"""The head of a node's bytes: the names of its inputs, its outputs and itself, which stand in front of all else.

Fields are written in the order of their numbers, and the names have the lowest. A name is spelled as a file holds it:
its bytes behind their length.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TypeVar

from opshift.passes.model.encoding import tensor_bytes
from opshift.passes.model.encoding.fields import tag, varint
from opshift.passes.model.messages import NodeProto
from opshift.passes.records import dataclass, field

T = TypeVar("T")
Key = tuple[bytes, int, int]
"""What stands behind the head of a node, and how many inputs and outputs it has."""

_INPUT, _OUTPUT, _NAME = (
    tag(NodeProto.DESCRIPTOR.fields_by_name[name].number)[0] for name in ("input", "output", "name")
)
_SHORT = 128  # bytes of a name whose length takes one byte
_EMPTY = b"\0"
_MOST = 256  # bytes of a call without its names: what is longer is hardly repeated


@dataclass
class Values:
    """The names of a body, as they are spelled: which node makes a value, the last one if there are more, or -1 for
    those `given` without; what a node reads that none before it makes; and which nodes leave out an input or an output,
    once for each. `constants` are those of a tensor that surely is right, `nodes` what nodes themselves are called."""

    made: dict[bytes, int] = field(default_factory=dict)
    given: int = 0
    early: set[bytes] = field(default_factory=set)
    omitting: list[int] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)
    nodes: list[bytes] = field(default_factory=list)


def read(
    nodes: Iterable[NodeProto],
    apart: Container[str] | None,
    values: Values,
    known: Mapping[Key, T],
    learn: Callable[[NodeProto, Key | None], T],
) -> list[T]:
    """What is `known` of each node by its key, or else learned; of their names, `values` learn.

    Where some operators are `apart`, nodes of others have no key if they have attributes: graphs would be serialized
    once for each level of their nesting.
    """
    made, early, omitting, named, found = values.made, values.early, values.omitting, values.nodes, list[T]()
    last = b""  # what was made last, which is what is mostly read next
    for number, node in enumerate(nodes):
        plain = apart is None or node.op_type in apart or not node.attribute
        data = (node if plain else NodeProto(input=node.input, output=node.output)).SerializeToString()
        at = inputs = outputs = 0
        try:
            while data[at] == _INPUT:
                inputs += 1
                start = at + 1
                at = start + 1 + data[start] if data[start] < _SHORT else sum(varint(data, start))
                name = data[start:at]
                if name != last and name not in made:
                    early.add(name)
                    if name == _EMPTY:
                        omitting.append(number)
            while data[at] == _OUTPUT:
                outputs += 1
                start = at + 1
                at = start + 1 + data[start] if data[start] < _SHORT else sum(varint(data, start))
                name = data[start:at]
                if name == _EMPTY:
                    omitting.append(number)
                else:
                    made[name] = number
                    last = name
            if data[at] == _NAME:
                start = at + 1
                at = start + 1 + data[start] if data[start] < _SHORT else sum(varint(data, start))
                named.append(data[start:at])
        except IndexError:  # there is nothing but names
            pass
        key = data[at : at + _MOST], inputs, outputs
        kind = known.get(key)
        if kind is None or not plain:
            kind = learn(node, key if plain and len(key[0]) < _MOST else None)
            if not inputs and tensor_bytes.is_constant(data, at):
                values.constants.add(number)
        found.append(kind)
    return found


def names(data: bytes, values: int) -> list[bytes]:
    """The names of so many inputs and outputs, and that of the node, as they are spelled."""
    at, found = 1, list[bytes]()
    for _ in range(values):
        size = data[at]
        end = at + size + 1 if size < _SHORT else sum(varint(data, at))
        found.append(data[at:end])
        at = end + 1
    if at <= len(data) and data[at - 1] == _NAME:
        size = data[at]
        found.append(data[at : at + size + 1 if size < _SHORT else sum(varint(data, at))])
    else:
        found.append(_EMPTY)
    return found


def texts(spelled: list[bytes]) -> list[str]:
    """The names that are spelled so; raises `UnicodeDecodeError` for what is no text."""
    return [name[1:].decode() if name[0] < _SHORT else _text(name) for name in spelled]


def _text(spelled: bytes) -> str:
    return spelled[next(i for i, byte in enumerate(spelled) if byte < _SHORT) + 1 :].decode()
