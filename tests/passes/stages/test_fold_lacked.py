"""What a backend lacks becomes an operator that it has, if the model writes that operator out."""

import numpy as np
import onnx
import pytest
from opshift.passes.backends.door import find
from opshift.passes.changes import Allowance
from opshift.passes.goals import Goal
from opshift.passes.stages.fold_lacked import FoldLacked
from opshift.passes.stages.stage import Facts

import opshift
from tests.support import check_outputs, evaluate, model

GELU = """
    root = Constant<value = float {1.4142135}>() one = Constant<value = float {1.0}>() half = Constant<value = float {0.5}>()
    scaled = Div(x, root) curve = Erf(scaled) more = Add(curve, one) product = Mul(x, more) y = Mul(product, half)
"""  # as exporters write it before opset 20
IO = {"inputs": "float[2,3] x", "outputs": "float[2,3] y"}
FEEDS = {"x": np.array([[-3, -0.5, 0], [0.25, 1, 4]], np.float32)}


def folded(source, backend="qnn-npu"):
    kept = source.SerializeToString()
    result = FoldLacked(find(backend)).apply(source, Facts(), Allowance())
    assert source.SerializeToString() == kept
    return result


@pytest.mark.parametrize("backend", ["qnn", "qnn-npu", "qnn-gpu"])
@pytest.mark.parametrize("opset", [9, 13, 20, 22])
def test_gelu_comes_in_where_erf_is_lacking(backend, opset):
    source = model(GELU, opset, **IO)
    result = Goal(backend=find(backend)).run(source)
    assert [node.op_type for node in result.model.graph.node] == ["Gelu"]
    assert [change.grade for change in result.changes if change.op == "Gelu"] == ["close"]
    onnx.checker.check_model(result.model, full_check=True)
    check_outputs(evaluate(source, FEEDS), evaluate(result.model, FEEDS), rtol=1e-5, atol=1e-6)
    assert opshift.verify(source, result.model)


def test_the_dynamic_twin_of_a_constant_does_not_fold():
    source = model(GELU.replace("half = Constant<value = float {0.5}>()", ""), 13, inputs="float[2,3] x, float half", outputs=IO["outputs"])  # fmt: skip
    assert folded(source).model is source


@pytest.mark.parametrize(
    ("body", "backend"),
    [
        (GELU, "mnn"),  # has Erf
        (GELU, "tidl"),  # lacks Gelu, too
        ("y = Erf(x)", "qnn-npu"),
        ("y = Relu(x)", "qnn-npu"),
    ],
)
def test_nothing_changes_where_nothing_is_lacking_or_comes_in(body, backend):
    source = model(body, 13, **IO)
    result = folded(source, backend)
    assert result.model is source
    assert not result.changes
    assert not result.refusals


def test_a_mean_over_an_image_is_a_pool_where_no_other_mean_is_read():
    source = model("y = ReduceMean<axes = [2, 3], keepdims = 1>(x)", 13, inputs="float[1,2,3,4] x", outputs="float[1,2,1,1] y")  # fmt: skip
    result = folded(source, "tidl")
    assert [node.op_type for node in result.model.graph.node] == ["GlobalAveragePool"]
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)}
    check_outputs(evaluate(source, feeds), evaluate(result.model, feeds), rtol=1e-6, atol=0)
    other = model("y = ReduceMean<axes = [1], keepdims = 1>(x)", 13, inputs="float[1,2,3,4] x", outputs="float[1,1,3,4] y")  # fmt: skip
    assert folded(other, "tidl").model is other


def test_a_model_goes_no_further_than_what_comes_in_needs(tmp_path):
    (tmp_path / "npu.toml").write_text('name = "npu"\nsource = "s"\n[versions."1"]\nopset = 26\nlacks = ["MatMul"]\n')
    source = model("y = MatMul(x, x)", 13, inputs="float[2,2] x", outputs="float[2,2] y")
    result = folded(source, str(tmp_path / "npu.toml"))  # Attention of opset 23 is written with MatMul, too
    assert [node.op_type for node in result.model.graph.node] == ["Gemm"]
    assert [entry.version for entry in result.model.opset_import] == [13]


@pytest.mark.parametrize(("ran", "ops"), [("Relu", ["ReduceL2"]), ("GlobalLpPool", ["GlobalLpPool"])])
def test_only_what_ran_comes_in_where_calls_were_measured(tmp_path, ran, ops):
    text = f'name = "npu"\nsource = "s"\n[versions."1"]\nopset = 17\nlacks = ["ReduceL2"]\n[versions."1".measured]\n{ran} = "4"\n'
    (tmp_path / "npu.toml").write_text(text)
    source = model("y = ReduceL2<axes = [2, 3]>(x)", 13, inputs="float[1,2,3,4] x", outputs="float[1,2,1,1] y")
    assert [node.op_type for node in folded(source, str(tmp_path / "npu.toml")).model.graph.node] == ops


@pytest.mark.parametrize(("sizes", "is_read"), [("1,2,6", True), ("1,2,N", False)])
def test_sizes_are_computed_for_a_backend_without_shape(sizes, is_read):
    """QNN runs behind onnxruntime, which computes sizes first."""
    body = "size = Shape(x) two = Constant<value = int64[1] {2}>() rows = Gather(size, two) y = Expand(a, rows)"
    source = model(body, 13, inputs=f"float[{sizes}] x, float[1] a", outputs="float[M] y")
    result = Goal(backend=find("qnn-npu")).run(source)
    assert (result.model is not None) == is_read
    if is_read:
        assert "Shape" not in {node.op_type for node in result.model.graph.node}
    else:
        assert {refusal.op for refusal in result.refusals} == {"Shape"}


def test_an_operator_that_is_to_be_replaced_does_not_come_in():
    source = model(GELU, 20, **IO)
    assert "Gelu" not in {change.op for change in Goal(names=("Gelu",), backend=find("qnn-npu")).run(source).optional}


def test_in_a_branch():
    gelu = GELU.replace("y = Mul", "folds = Mul")
    body = f"""
        largest = ReduceMax<keepdims = 0>(x) zero = Constant<value = float {{0}}>() chosen = Greater(largest, zero)
        y = If(chosen) <then_branch = g() => (float[2,3] folds) {{ {gelu} }},
                        else_branch = h() => (float[2,3] e) {{ e = Neg(x) }}>
    """
    source = model(body, 13, **IO)
    result = folded(source)
    assert [node.op_type for node in result.model.graph.node[-1].attribute[0].g.node] == ["Gelu"]
    for sign in (1, -1):
        feeds = {"x": np.abs(FEEDS["x"]) * np.float32(sign)}
        check_outputs(evaluate(source, feeds), evaluate(result.model, feeds), rtol=1e-5, atol=1e-6)


def test_what_the_proof_takes_back_is_replaced():
    source = model(GELU, 13, **IO)
    goal = Goal(backend=find("qnn-npu"))
    made = goal.run(source).optional
    assert [change.op for change in made] == ["Gelu"]
    again = goal.run(source, allowance=Allowance(frozenset((one.node, one.op, one.how) for one in made)))
    assert "Gelu" not in {node.op_type for node in again.model.graph.node}
