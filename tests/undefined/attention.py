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


def masks_others(call: Call) -> bool:
    """Whether a mask is for other batches, heads, queries or keys than there are."""
    q, k, mask, past = map(call.shape, (0, 1, 3, 4))
    if not q or not k or not mask:
        return False
    heads = q[1] if len(q) == 4 else call.attribute("q_num_heads", 1)
    scores = (q[0], heads, q[-2], k[-2] + (past[-2] if past else 0))
    ahead = zip(mask[-2::-1], scores[-2::-1], strict=False)
    return len(mask) > len(scores) or mask[-1] > scores[-1] or any(size not in (1, asked) for size, asked in ahead)
