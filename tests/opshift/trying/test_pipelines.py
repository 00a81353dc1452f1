"""`opshift.try_in`: a function of a pipeline's own stands for a backend, or an installed one is tried."""

import numpy as np
import onnx
import pytest

import opshift
from opshift.verification.engines import OnnxRuntime
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}


def session(*refused, wrong=()):
    """A backend without some operators, that computes wrongly where there are others."""
    seen = []

    def mine(serialized, feeds):
        held = onnx.load_model_from_string(serialized)
        ops = {node.op_type for node in held.graph.node}
        seen.append(ops)
        for op in refused:
            if op in ops:
                raise RuntimeError(f"no kernel for '{op}'")
        return [value + 1 if ops & set(wrong) else value for value in OnnxRuntime(held).run(feeds)]

    mine.seen = seen
    return mine


def ops(of):
    return [node.op_type for node in of.graph.node]


def test_what_the_function_refuses_is_replaced():
    run = session("HardSwish")
    found = opshift.try_in(model("a = HardSwish(x) y = Mish(a)", 22, **IO), run=run, runs=1)
    assert found
    assert "HardSwish" not in ops(found.model)
    assert "Mish" in ops(found.model)
    assert found.tried.backend == "mine"
    assert found.tried.lines == ["mine refuses HardSwish with 2-D input of symbolic sizes: expanded, 1 node"]


def test_what_it_computes_otherwise_is_replaced():
    found = opshift.try_in(model("a = Abs(x) y = Gelu(a)", 22, **IO), run=session(wrong=["Gelu"]), runs=1)
    assert found
    assert "Gelu" not in ops(found.model)


def test_what_runs_is_the_same_model_of_the_same_kind():
    of = model("y = Abs(x)", 22, **IO)
    found = opshift.try_in(of, run=session(), runs=1)
    assert (bool(found), found.tried.tries, found.tried.learnt) == (True, 1, ())
    assert isinstance(found.model, onnx.ModelProto)
    assert found.model is not of


def test_what_nothing_helps_is_no_model():
    found = opshift.try_in(model("y = Atan(x)", 22, **IO), run=session("Atan"), runs=1, tries=5)
    assert not found
    assert (found.model, found.tried.status) == (None, "refused")
    assert "no kernel for 'Atan'" in found.tried.why
    assert found.tried.tries <= 5


def test_it_is_fed_what_is_given_and_sizes_are_fixed():
    given = []

    def run(serialized, feeds):
        given.append(feeds)
        dims = onnx.load_model_from_string(serialized).graph.input[0].type.tensor_type.shape.dim
        assert [dim.dim_value for dim in dims] == [2, 3]
        return [abs(feeds["x"])]

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = opshift.try_in(model("y = Abs(x)", 22, **IO), run=run, inputs={"x": x}, fix_shape={"N": 2})
    assert found
    assert [np.array_equal(each["x"], x) for each in given] == [True]


def test_an_older_opset_without_a_target():
    def run(serialized, feeds):
        held = onnx.load_model_from_string(serialized)
        if held.opset_import[0].version > 17:
            raise RuntimeError("too new")
        return OnnxRuntime(held).run(feeds)

    found = opshift.try_in(model("y = Abs(x)", 22, **IO), run=run, runs=1)
    assert found.model.opset_import[0].version <= 17


def test_an_installed_backend():
    found = opshift.try_in(model("y = Abs(x)", 18, **IO), "onnxruntime", runs=1)
    assert found
    assert found.tried.backend.startswith("onnxruntime ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "needs a backend by name"),
        ({"target": "rknn-2.1"}, "does not have the backend"),
        ({"target": 17}, "needs a backend by name"),
        ({"run": abs, "tries": 0}, "tries must be 1 or more"),
        ({"run": abs, "seconds": 0}, "seconds more than 0"),
        ({"run": abs, "fix_shape": {"M": 2}}, "no symbolic dimension 'M'"),
    ],
)
def test_what_has_no_meaning(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        opshift.try_in(model("y = Abs(x)", 18, **IO), **arguments)


def test_what_fails_of_the_second_inputs_alone_is_found_with_those():
    def run(serialized, feeds):
        held = onnx.load_model_from_string(serialized)
        wrong = "Gelu" in {node.op_type for node in held.graph.node} and max(v.max() for v in feeds.values()) > 5
        return [value + wrong for value in OnnxRuntime(held).run(feeds)]

    x = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    of = model("a = Abs(x) b = Gelu(a) c = Mish(b) y = Abs(c)", 22, **IO)
    found = opshift.try_in(of, run=run, inputs=[{"x": x}, {"x": x * 9}])
    assert found
    assert "Gelu" not in ops(found.model)
    assert "Mish" in ops(found.model)
    assert found.tried.tries < 10
