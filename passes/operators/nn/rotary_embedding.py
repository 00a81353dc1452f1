"""RotaryEmbedding before it existed: halves or pairs of each head are rotated by the cached angles."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.shapes import reshape_behind, share_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
END = 2**63 - 1
SHORT = (T.FLOAT16, T.BFLOAT16)


@says("Replaced RotaryEmbedding by (x1 * cos - x2 * sin, x1 * sin + x2 * cos)")
def rotate(node: Node) -> str:
    node.close("sums and rounds in another order")
    build, elem_type, rank = node.build, node.elem_type(), node.rank()
    if rank not in (3, 4):
        raise CannotConvert(node, f"RotaryEmbedding gets data of rank {rank}", supported="rank 3 or 4")
    if _turning(node, rank) % 2:
        raise CannotConvert(node, "the number of rotated elements of each head is odd", supported="an even number")
    x, cosine, sine = (build.Cast(name, to=T.FLOAT) if elem_type in SHORT else name for name in node.inputs[:3])
    if node.input(3):
        cosine, sine = (build.Gather(cache, node.input(3), axis=0) for cache in (cosine, sine))
    if rank == 3:
        heads = node.attributes.get("num_heads", 0)
        if not heads:
            raise CannotConvert(
                node,
                "the data has rank 3, and the attribute num_heads is missing",
                supported="data of rank 4, or num_heads",
            )
        x = reshape_behind(node, x, 2, [heads, share_along(node, node.input(0), 2, heads)])
    heads_axis = 2 if rank == 3 else 1
    cosine, sine = (build.Unsqueeze(cache, [heads_axis]) for cache in (cosine, sine))
    size, rest = node.attributes.get("rotary_embedding_dim", 0), ""
    if size:
        x, rest = build.Slice(x, [0], [size], [3]), build.Slice(x, [size], [END], [3])
    y = _pairs(node, x, cosine, sine) if node.attributes.get("interleaved", 0) else _halves(node, x, cosine, sine)
    if rest:
        y = build.Concat(y, rest, axis=3)
    if rank == 3:
        y = reshape_behind(node, y, 2, [share_along(node, node.input(0), 2, 1)])
    return str(build.Cast(y, to=elem_type)) if elem_type in SHORT else y


def _turning(node: Node, rank: int) -> int:
    """How many elements of a head turn; 0 where nothing tells."""
    given, dims = node.attributes.get("rotary_embedding_dim", 0), node.scope.shape(node.input(0))
    if given or not dims or not isinstance(dims[-1], int):
        return int(given)
    heads = 1 if rank == 4 else node.attributes.get("num_heads", 0)
    return dims[-1] // heads if heads else 0


def _halves(node: Node, x: str, cosine: str, sine: str) -> str:
    first, second = node.build.emit("Split", [x], {"axis": 3, "num_outputs": 2}, outputs=2)
    return str(node.build.Concat(*_turn(node, first, second, cosine, sine), axis=3))


def _pairs(node: Node, x: str, cosine: str, sine: str) -> str:
    build = node.build
    pairs = reshape_behind(node, x, 3, [share_along(node, x, 3, 2), 2])
    first, second = (build.Gather(pairs, k, axis=4) for k in range(2))
    turned = _turn(node, first, second, cosine, sine)
    joined = build.Concat(*(build.Unsqueeze(t, [4]) for t in turned), axis=4)
    return reshape_behind(node, joined, 3, [share_along(node, x, 3, 1)])


def _turn(node: Node, first: str, second: str, cosine: str, sine: str) -> tuple[str, str]:
    build = node.build
    real = build.Sub(build.Mul(cosine, first), build.Mul(sine, second))
    return real, build.Add(build.Mul(sine, first), build.Mul(cosine, second))


changed("RotaryEmbedding", 23, Pair(down=rotate))
