"""Which values may be constants, told without a look at what they hold."""

import onnx.helper
import onnx.parser
import pytest
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.fusion.fixed import Fixed

from tests.support import model

BODY = """s = Shape(x) n = Size(x) c = Constant<value_float=0.5>() a = Add(w, c) b = Gather(s, i) d = Add(a, x) e = Expand(w, u) f = CastLike(w, x)
    g = Expand(x, s) h = Add(d, w) k = Concat<axis=0>(s, b) l = Add(w, given) t, q = Split<num_outputs=2>(a) o = Clip(w, , c)"""


@pytest.fixture
def scope():
    source = model(
        BODY,
        18,
        inputs="float[4] x, int64[1] u, float[2] given",
        outputs="o",
        constants="float[2] w = {1, 2}, int64[1] i = {0}, float[2] given = {1, 2}",
    )
    inner = onnx.parser.parse_graph("g () => (float[2] v, float[2] r) { v = Add(a, w) r = Add(d, w) }")
    source.graph.node.append(onnx.helper.make_node("If", ["x"], ["z", "zz"], then_branch=inner))
    return Scope(source.graph, Context(source, source), 18, path=())


def test_what_is_made_of_constants_and_shapes_alone(scope):
    fixed = Fixed(scope, None)
    names = [*"wisncabdefghkltqxu", "given", "nothing"]
    assert {name for name in names if name in fixed} == {*"wisncabefktq"}


def test_what_lies_around_is_fixed_inside(scope):
    outer = Fixed(scope, None)
    inner = Scope(scope.body.node[-1].attribute[0].g, scope.context, 18, scope)
    fixed = Fixed(inner, outer)
    assert [name in fixed for name in ("v", "r", "a", "d", "w", "x", "nothing")] == [
        True,
        False,
        True,
        False,
        True,
        False,
        False,
    ]
