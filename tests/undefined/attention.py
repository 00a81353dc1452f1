"""When a call of Attention is one of which its text says nothing."""

from __future__ import annotations

from tests.node_calls import Call


def heads_apart(call: Call) -> bool:
    """Whether the sizes of heads differ, of which the last axis holds one, or as many as there are heads."""
    sizes = []
    for at, name in ((0, "q_num_heads"), (1, "kv_num_heads")):
        shape = call.shape(at)
        if not shape:
            return False
        sizes.append(shape[-1] if len(shape) == 4 else shape[-1] / call.attribute(name, shape[-1]))
    return sizes[0] != sizes[1]


def heads_twice(call: Call) -> bool:
    return bool(call.attribute("q_num_heads")) and any(len(call.shape(at) or ()) == 4 for at in range(3))


def no_query_head(call: Call) -> bool:
    q, k = call.shape(0) or (), call.shape(1) or ()
    return len(q) == 4 and len(k) == 4 and q[1] == 0 != k[1]


def more_than_there_are(call: Call) -> bool:
    lengths, keys = call.given(6), call.shape(1)
    return lengths is not None and keys is not None and bool(((lengths < 0) | (lengths > keys[-2])).any())
