"""What a model declares wrongly is mended where a newer opset's inference finds out, and kept where it does not."""

import onnx
import pytest

import opshift
from tests.support import model

# the rank of a Reshape to sizes that are computed: inference tells it from opset 14 on
COMPUTED = "s = Shape(x) t = Concat<axis=0>(s, one) y = Reshape(x, t)"
IO = {"inputs": "float[N,M] x", "constants": "int64[1] one = {1}"}


def shapes(found):
    return {
        value.name: [dim.dim_param or dim.dim_value or "?" for dim in value.type.tensor_type.shape.dim]
        for value in (*found.graph.output, *found.graph.value_info)
    }


@pytest.mark.parametrize("target", [14, 17, 23])
def test_a_rank_that_a_newer_opset_finds_out_is_mended(target):
    source = model(COMPUTED, 13, outputs="float[1,K] y", **IO)
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, target)
    onnx.checker.check_model(made, full_check=True)
    assert len(shapes(made)["y"]) == 3
    assert shapes(source)["y"] == [1, "K"]


def test_what_is_declared_of_values_between_is_mended_too():
    source = model(COMPUTED.replace("y =", "z =") + " y = Size(z)", 13, outputs="int64 y", **IO)
    source.graph.value_info.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["A", "B"]))
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, 17)
    onnx.checker.check_model(made, full_check=True)
    assert len(shapes(made)["z"]) == 3


@pytest.mark.parametrize("target", [12, 13])
def test_it_is_kept_where_nobody_finds_out(target):
    source = model(COMPUTED, 13, outputs="float[1,K] y", **IO)
    assert shapes(opshift.convert_version(source, target))["y"] == [1, "K"]


def test_what_is_right_is_kept():
    source = model(COMPUTED, 13, outputs="float[A,B,1] y", **IO)
    assert shapes(opshift.convert_version(source, 17))["y"] == ["A", "B", 1]


def test_it_is_said():
    (change,) = opshift.plan(model(COMPUTED, 13, outputs="float[1,K] y", **IO), 14).changes
    assert "declared" in change.how
    assert "[1, K] of 'y'" in change.remark


def test_a_branch_is_mended():
    inner = COMPUTED.replace("y =", "b =")
    source = model(
        f"y = If(c) <then_branch = t () => (float[1,K] b) {{ {inner} }}, else_branch = e () => (float[A,B,C] d) "
        "{ d = Unsqueeze(x, one) }>",
        13,
        inputs="float[N,M] x, bool c",
        outputs="float[P,Q,R] y",
        constants="int64[1] one = {1}",
    )
    onnx.checker.check_model(source, full_check=True)
    onnx.checker.check_model(opshift.convert_version(source, 17), full_check=True)


@pytest.mark.parametrize(
    ("declared", "asked"),
    [("float[A,B,1] y", True), ("float[A,5] y", False), ("float y", True)],
)
def test_what_the_nodes_nearby_tell_is_not_inferred(declared, asked, monkeypatch):
    """Whether a wide inference looks for what it denies: not where a weight tells the sizes that are declared."""
    source = model(
        "s = Shape(x) r = Reshape(x, s) y = MatMul(r, w)",
        13,
        inputs="float[N,3] x, float[3,5] w",
        outputs=declared,
    )
    if declared == "float y":
        source.graph.output[0].type.tensor_type.shape.SetInParent()
    looked = []
    monkeypatch.setattr("opshift.passes.conversion.declared.contradiction", lambda *_: looked.append(1) or "")
    opshift.convert_version(source, 17)
    assert bool(looked) == asked


def test_a_size_that_a_newer_opset_finds_out_is_mended_beside_others_that_are_told():
    source = model(
        COMPUTED + " z = MatMul(x, w) v = Concat<axis=0>(s, one) u = Reshape(x, v)",
        13,
        inputs="float[N,3] x, float[3,5] w",
        outputs="float[A,5] z, float[B,C,D] y, float[1,K] u",
        constants="int64[1] one = {1}",
    )
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, 17)
    onnx.checker.check_model(made, full_check=True)
    assert len(shapes(made)["u"]) == 3
