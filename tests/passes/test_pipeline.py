"""Conversion inside onnx_ir pipelines: what comes out computes the same, weights are the same objects."""

import subprocess
import sys

import numpy as np
import onnx.parser
import onnx_ir
import onnx_ir.passes.common
import pytest
from onnx_ir.passes import Sequential
from opshift.passes import ConvertVersionPass, InlineFunctionsPass
from opshift.passes.errors import Refused

from tests.support import check_values

TEXT = """
    <ir_version: 8, opset_import: ["" : 13, "my" : 1]>
    g (float[N,80] x, bool c) => (float[N,1] y) {
        h = MatMul(x, weight)
        y = If (c) <
            then_branch = t () => (float[N,1] p) { p = my.f(h) },
            else_branch = e () => (float[N,1] q) { q = ReduceMin<axes=[1]>(h) }
        >
    }
    <domain: "my", opset_import: ["" : 13]> f (v) => (w) { n = Neg(v) w = ReduceMax<axes=[1]>(n) }
"""


def built() -> onnx_ir.Model:
    model = onnx_ir.from_proto(onnx.parser.parse_model(TEXT))
    values = np.random.default_rng(0).standard_normal((80, 80)).astype(np.float32)
    weight = next(node for node in model.graph if node.op_type == "MatMul").inputs[1]
    weight.const_value = onnx_ir.tensor(values, name="weight")
    model.graph.register_initializer(weight)
    return model


def texts(model: onnx_ir.Model) -> bytes:
    return onnx_ir.to_proto(model).SerializeToString(deterministic=True)


def test_passes_compose_and_do_not_touch_what_they_are_given():
    source = built()
    before = texts(source)
    made = Sequential(InlineFunctionsPass(), ConvertVersionPass(18), onnx_ir.passes.common.CheckerPass())(source)
    assert made.modified
    assert texts(source) == before
    assert (made.model.opset_imports[""], len(made.model.functions)) == (18, 0)
    assert made.model.graph.initializers["weight"].const_value is source.graph.initializers["weight"].const_value
    for c in (True, False):
        feeds = {"c": np.array(c), "x": np.ones((2, 80), np.float32)}
        check_values(onnx_ir.to_proto(source), onnx_ir.to_proto(made.model), feeds, rtol=0, atol=0)


def test_weights_are_not_read():
    """A tensor that raises when its data are asked for."""

    class Shy(onnx_ir.LazyTensor):
        pass

    def told() -> onnx_ir.TensorProtocol:
        raise AssertionError("the weight was read")

    source = built()
    weight = source.graph.initializers["weight"]
    weight.const_value = Shy(told, onnx_ir.DataType.FLOAT, onnx_ir.Shape([80, 80]), name="weight")
    assert ConvertVersionPass(18)(source).model.graph.initializers["weight"].const_value is weight.const_value


@pytest.mark.parametrize(
    ("step", "again"),
    [(ConvertVersionPass(18), ConvertVersionPass(18)), (InlineFunctionsPass(), InlineFunctionsPass())],
)
def test_modified_is_honest(step, again):
    first = step(built())
    assert first.modified
    second = again(first.model)
    assert not second.modified
    assert texts(second.model) == texts(first.model)


def test_functions_that_are_not_named_stay():
    made = InlineFunctionsPass([])(built())
    assert not made.modified
    assert [name for _, name, _ in made.model.functions] == ["f"]


def test_a_refusal_is_raised_and_leaves_the_model_as_it_was():
    source = onnx_ir.from_proto(
        onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 20]> g (string[N] x) => (string[N] y) { y = StringConcat(x, x) }
    """)
    )
    before = texts(source)
    with pytest.raises(Refused, match="joins strings"):
        ConvertVersionPass(18)(source)
    assert texts(source) == before


def test_onnx_ir_is_imported_only_for_pipelines():
    code = "import sys, opshift.passes.conversion.convert, opshift.passes; assert 'onnx_ir' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
