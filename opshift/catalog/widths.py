"""The table of element types: which operators take narrower ones, from which opset on, and which operands never do."""

from __future__ import annotations

from opshift.passes.model import schemas

_HEAD = """\
# Which operators take narrower types

Written by `opshift ledger --types`, from the schemas; do not edit. What a schema does not take stays wide with
`--types` ([half precision](tasks/types.md), [int64 to int32](tasks/integers.md)), whatever its numbers are. An opset
is the first at which the operator takes the type in the place of float32, or of int64; *no* means at none. Inputs and
outputs in the last two columns keep float32 or int64 at the newest opset, and get a cast.

| operator | float16 | bfloat16 | int32 | stays float32 | stays int64 |
|---|---|---|---|---|---|
"""
_NARROWER = (
    ("tensor(float)", "tensor(float16)"),
    ("tensor(float)", "tensor(bfloat16)"),
    ("tensor(int64)", "tensor(int32)"),
)


def as_markdown() -> str:
    """The whole table, one line an operator."""
    lines = []
    for op in sorted(schemas.operators("")):
        schema = schemas.schema("", op, schemas.latest())
        if schema is None or schema.deprecated:
            continue
        since = [_since(op, wide, narrow) for wide, narrow in _NARROWER]
        if any(since):
            stays = [_stays(schema, wide, narrow) for wide, narrow in _NARROWER]
            floats = ", ".join(
                dict.fromkeys([*stays[0], *(f"{name} (in bfloat16)" for name in stays[1] if name not in stays[0])])
            )
            lines.append(f"| {' | '.join([op, *since, floats, ', '.join(stays[2])])} |\n")
    return _HEAD + "".join(lines)


def _since(op: str, wide: str, narrow: str) -> str:
    """The first opset at which an operand takes either type; empty where no operand takes the wide one."""
    has_wide = False
    for version in schemas.versions("", op):
        schema = schemas.schema("", op, version)
        for formal in (*schema.inputs, *schema.outputs) if schema is not None else ():
            has_wide |= wide in formal.types
            if wide in formal.types and narrow in formal.types:
                return str(version)
    return "no" if has_wide else ""


def _stays(schema: schemas.Schema, wide: str, narrow: str) -> list[str]:
    """The inputs and outputs that take the wide type alone."""
    return [each.name for each in (*schema.inputs, *schema.outputs) if wide in each.types and narrow not in each.types]
