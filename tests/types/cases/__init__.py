"""The cases, a file a kind: `CASES` of `tests.types.case` holds them once this is imported."""

from tests.types.cases import attributes, bodies, choices, interfaces, masks, operands, quantized, ranges, small

__all__ = ["attributes", "bodies", "choices", "interfaces", "masks", "operands", "quantized", "ranges", "small"]
