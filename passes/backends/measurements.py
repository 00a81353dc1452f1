"""The `measured` texts of target files: with which ranks and types an operator ran.

`MatMul = "2-6 symbolic; T: floats, not ints uints"`: ranks of the first input, whether its sizes were symbols, too, and
for each type variable the types that ran, and those of which no call did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from opshift.passes.backends.backend import Backend, MeasuredCall, Types
from opshift.passes.model import schemas
from opshift.passes.model.messages import NodeProto, normalize_domain
from opshift.passes.model.schemas import INFINITE
from opshift.passes.model.types import ELEMENT_TYPES, plain_type, type_text
from opshift.passes.spelling import hint

if TYPE_CHECKING:
    from opshift.passes.analysis.scope import Scope

_LISTED = r"\d(?:-\d)?(?:, \d(?:-\d)?)*"
_RANKS = re.compile(rf"(any|{_LISTED})( symbolic)?(?:, not ({_LISTED}))?")
_WIDTHS = (8, 16, 32, 64)
_FLOATS = ("float", "float16", "double")
_INTS, _UINTS = tuple(f"int{bits}" for bits in _WIDTHS), tuple(f"uint{bits}" for bits in _WIDTHS)
_FLOAT8S = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
_INT4S, _INT2S = ("int4", "uint4"), ("int2", "uint2")
_GROUPS = {
    "numbers": (*_FLOATS, *_INTS, *_UINTS),
    "narrow": (*_FLOAT8S, *_INT4S, *_INT2S, "float4e2m1", "float8e8m0"),
    "floats": _FLOATS,
    "ints": _INTS,
    "uints": _UINTS,
    "float8s": _FLOAT8S,
    "float6s": ("float6e2m3", "float6e3m2"),
    "int4s": _INT4S,
    "int2s": _INT2S,
}


class OpenType(NamedTuple):
    """An input or output of a call: its type, if known, and what was measured for its type variable."""

    name: str
    type: str | None
    types: Types | None


def find_open_types(node: NodeProto, scope: Scope, backend: Backend, opset: int) -> Iterator[OpenType]:
    """List the inputs and outputs of a call, without empty ones such as the `roi` that exporters give to Resize.

    Used to compare a call with the measured ones.

    Measurements name the type variables of the newest version that the backend has.
    """
    op = normalize_domain(node.domain), node.op_type
    held, own = backend.measured.get(op), schemas.schema(*op, opset)
    if held is None or own is None:
        return
    newest = backend.ml_opset if op[0] == "ai.onnx.ml" else backend.opset
    now = schemas.schema(*op, min(newest or schemas.latest(op[0]), backend.lacks.get(op, INFINITE) - 1)) or own
    for names, formals, measured in ((node.input, own.input, now.input), (node.output, own.output, now.output)):
        for place, name in enumerate(names):
            formal, then = formals(place), measured(place)
            if name and formal is not None and len(formal.types) > 1 and 0 not in (scope.shape(name) or ()):
                value_type = scope.type(name)
                types = held.types.get(then.type) if then is not None else None
                yield OpenType(
                    name,
                    type_text(value_type) if value_type is not None else None,
                    types or held.types.get(formal.type),
                )


def read(name: str, text: str) -> MeasuredCall:
    """Parse the measured text of an operator; raises `ValueError`. Runs while target files are read."""
    first, *rest = text.split("; ")
    ranked = _RANKS.fullmatch(first)
    if ranked is None:
        raise ValueError(
            f"the target file has {first!r} as the ranks at which {name} was measured; write 4 or 1-6, with "
            "symbolic if symbolic sizes ran, too, and ranks that failed after not: 1, 3-5 symbolic, not 2"
        )
    types = {}
    for part in rest:
        variable, said, listed = part.partition(": ")
        ran, _, failed = listed.partition(", not ") if not listed.startswith("not ") else ("", "", listed[4:])
        if not said or not (ran or failed):
            raise ValueError(
                f'the target file has {part!r} as types measured for {name}; write types like "T: floats '
                'int32, not bool"'
            )
        types[variable] = Types(_parse_types(ran), _parse_types(failed))
    return MeasuredCall(_parse_ranks(ranked[1]), bool(ranked[2]), types, _parse_ranks(ranked[3] or "any"))


def _parse_ranks(text: str) -> tuple[int, ...]:
    """Parse ranks as target files write them: `1, 3-5`. Part of `read`."""
    ranks: list[int] = []
    for part in text.split(", ") if text != "any" else ():
        low, _, high = part.partition("-")
        ranks += range(int(low), int(high or low) + 1)
    return tuple(ranks)


def spell_call(held: MeasuredCall) -> str:
    """Write the measured text of an operator. Runs when `probe` writes a target file."""
    types = [
        _spell_types(variable, found) for variable, found in sorted(held.types.items()) if found.ran or found.failed
    ]
    failed = f", not {_spell_ranks(held.failed)}" if held.failed else ""
    return "; ".join([f"{_spell_ranks(held.ranks) or 'any'}{' symbolic' if held.symbolic else ''}{failed}", *types])


def _spell_ranks(ranks: Iterable[int]) -> str:
    """Write ranks as target files do: `1, 3-5`. Part of `spell_call`."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _spell_types(variable: str, found: Types) -> str:
    failed = f"not {_group_types(found.failed)}" if found.failed else ""
    return f"{variable}: {', '.join(filter(None, [_group_types(found.ran), failed]))}"


def _parse_types(text: str) -> frozenset[str]:
    """Parse `floats int64 seq(float)` into types as schemas spell them."""
    return frozenset(_parse_type(each) for name in text.split() for each in _GROUPS.get(name, (name,)))


def _parse_type(name: str) -> str:
    """Parse one element type or a sequence of it; raises `ValueError`, with the most similar known name.

    Part of `read`.
    """
    head, opened, last = name.rpartition("(")
    element = last.rstrip(")")
    if f"tensor({element})" not in ELEMENT_TYPES:
        known = [*_GROUPS, *map(plain_type, ELEMENT_TYPES)]
        likely = hint(name, known) or f"; {', '.join(known)} are"
        raise ValueError(f"{name} is not an element type{likely}")
    return f"{head}{opened}tensor({element}){last[len(element) :]}"


def _group_types(kinds: Iterable[str]) -> str:
    """Write types with the name of a group, such as `floats`, for all its members. Part of `spell_call`."""
    left, groups = set(map(plain_type, kinds)), []
    for group, members in _GROUPS.items():
        if left.issuperset(members):
            groups.append(group)
            left -= set(members)
    order = [plain_type(kind) for kind in ELEMENT_TYPES]
    return " ".join([*groups, *(name for name in order if name in left), *sorted(left.difference(order))])
