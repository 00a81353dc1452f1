"""What becomes a constant is declared with the shape that it has, whatever the model declared of it."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto
from opshift.passes.analysis.claims import CONTRADICTED
from opshift.passes.conversion import convert
from opshift.passes.optimization import optimize

from tests.support import evaluate

NON_ZERO = ("", "NonZero")
WAYS = {
    "optimize": optimize.attempt,
    "inline": lambda of: convert.attempt(of, {}, ops=[NON_ZERO]),
    "down": lambda of: convert.attempt(of, {"": 7}),
}
HEAD = '<ir_version: 8, opset_import: ["" : 18, "f" : 1]> g (bool c, float[2] q) => '
HELD = "<float[2,2] x = {1, 1.5, 3, 0.125}>"
BRANCHES = """y = If(c) <then_branch = t () => (int64[2,%s] a) { z = Cast<to=1>(x) a = NonZero(z) },
    else_branch = e () => (int64[2,?] b) { w = Cast<to=1>(x) b = NonZero(w) }>"""
MODELS = {
    "graph": f"{HEAD}(int64[2,%s] y, float[2] n) {HELD} {{ z = Cast<to=1>(x) y = NonZero(z) n = Neg(q) }}",
    "branch": f"{HEAD}(int64[2,N] y, float[2] n) {HELD} {{ {BRANCHES} n = Neg(q) }}",
    "between": f"{HEAD}(int64[2,N] y, float[2] n) {HELD[:-1]}, int64[2,%s] w> "
    "{ z = Cast<to=1>(x) w = NonZero(z) y = Neg(w) n = Neg(q) }",
    "function": f'{HEAD}(int64[?,?] y, float[2] n) {{ y = f.F(c) n = Neg(q) }} <domain: "f", opset_import: ["" : 18]>'
    f"F (c) => (y) {{ x = Constant<value = float[2,2] {{1, 1.5, 3, 0.125}}>() {BRANCHES} }}",
}
FEEDS = {"c": np.array(True), "q": np.ones(2, np.float32)}


def parsed(name: str, size: int) -> ModelProto:
    return onnx.parser.parse_model(MODELS[name].replace("%s", str(size)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_shape_that_the_constant_does_not_have(name, way):
    source = parsed(name, 3)
    onnx.checker.check_model(source, full_check=True)
    result = WAYS[way](source)
    onnx.checker.check_model(result.model, full_check=True)
    said = [change for change in result.changes if change.how == CONTRADICTED]
    assert ["declared [2, 3], inferred [2, 4]" in change.remark for change in said] == [True] * len(said)
    assert said or (name, way) == ("between", "optimize")  # where nothing is declared any more
    for expected, actual in zip(evaluate(parsed(name, 4), FEEDS), evaluate(result.model, FEEDS), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_shape_that_it_has(name, way):
    result = WAYS[way](parsed(name, 4))
    assert not any(change.how == CONTRADICTED for change in result.changes)
