"""When a call of RotaryEmbedding is one of which its text says nothing."""

from __future__ import annotations

from tests.conditions import left_out
from tests.node_calls import Call


def no_angles(call: Call) -> bool:
    rank = 3 if left_out(3)(call) else 2
    return any((shape := call.shape(at)) is not None and len(shape) != rank for at in (1, 2))


def misplaced(call: Call) -> bool:
    """Whether positions are no table of batches and places in a sequence."""
    x, places = call.shape(0), call.shape(3)
    return x is not None and places is not None and places != (x[0], x[-2])


def odd(call: Call) -> bool:
    """Whether what turns of a head has no halves; where nothing turns, onnxruntime looks at no size."""
    x, heads = call.shape(0), call.attribute("num_heads", 0)
    if not x:
        return False
    size = x[-1] if len(x) == 4 else x[-1] // heads if heads else 0
    return bool((call.attribute("rotary_embedding_dim", 0) or size) % 2)
