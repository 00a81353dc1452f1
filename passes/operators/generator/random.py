"""Random numbers: distributions that had no operator, and bfloat16 (22)."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.generators import DRAWS, make_in_float
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
OTHER_DRAWS = "draws other random numbers from the same distribution"


@says("Replaced Bernoulli by comparing a random number with the probability")
def draw_below(node: Node) -> str:
    node.close(OTHER_DRAWS)
    build, p, elem_type = node.build, node.input(0), node.elem_type()
    wide = _width(elem_type)
    drawn = build.RandomUniformLike(p, dtype=wide, seed=node.attributes.get("seed"))
    below = build.Less(drawn, p if elem_type == wide else build.Cast(p, to=wide))
    dtype = node.attributes.get("dtype") or elem_type
    return below if dtype == T.BOOL else str(build.Cast(below, to=dtype))


@says("Replaced Multinomial by ArgMax of the log probabilities plus Gumbel noise")
def likeliest_with_noise(node: Node) -> str:
    node.close(OTHER_DRAWS)
    build, x, elem_type = node.build, node.input(0), node.elem_type()
    wide = _width(elem_type)
    x = x if elem_type == wide else build.Cast(x, to=wide)
    each = build.Tile(build.Unsqueeze(x, axes=[1]), [1, node.attributes.get("sample_size", 1), 1])
    drawn = build.RandomUniformLike(each, seed=node.attributes.get("seed"))
    noise = build.Neg(build.Log(build.Neg(build.Log(drawn))))
    sampled = build.ArgMax(build.Add(each, noise), axis=2, keepdims=0)
    dtype = node.attributes.get("dtype", T.INT32)
    return sampled if dtype == T.INT64 else str(build.Cast(sampled, to=dtype))


def _width(elem_type: int) -> int:
    return T.DOUBLE if elem_type == T.DOUBLE else T.FLOAT


changed("Multinomial", 7, Pair(down=likeliest_with_noise))
changed("Bernoulli", 15, Pair(down=draw_below))
changed(DRAWS, 22, Pair(down=make_in_float))
