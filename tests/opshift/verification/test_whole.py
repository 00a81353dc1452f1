"""Whole models run on inputs as users have them: engines, states, random numbers, small sizes, and Loops that end."""

import numpy as np
import onnx
import onnx.helper
import onnx.parser
import pytest
from onnx import TensorProto

import opshift
from opshift.verification import whole
from opshift.verification.engines import EngineError, OnnxRuntime, Reference
from opshift.verification.feeding.asked import DRAWN, read_options
from opshift.verification.side import Side
from opshift.verification.whole import ITERATIONS, OutputJudge, bound_loops, run_whole
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}
ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}


def run(one, other, grade="close", wanted=DRAWN, opsets=(17, 17), **io):
    sides = (Side(model(text, opset, **{**IO, **io})) for text, opset in zip((one, other), opsets, strict=True))
    return run_whole(*sides, grade, wanted)


def test_what_is_the_same():
    found = run("y = Exp(x)", "y = Exp(x)")
    assert (found.is_different, found.engine, found.why, found.remarks) == (False, "onnxruntime", "", [])
    assert found.runs == len(found.shapes) == len(found.feeds) >= 2
    assert len({tuple(shapes["x"]) for shapes in found.shapes}) > 1, "of several sizes"
    assert (found.absolute, found.outputs["y"].is_same) == (0, True)


def test_what_rounds_otherwise():
    found = run("y = Exp(x)", "a = Neg(x) b = Exp(a) y = Reciprocal(b)")
    assert (found.is_different, found.outputs["y"].is_same) == (False, False)
    assert 0 < found.outputs["y"].difference < found.outputs["y"].allowed
    assert found.absolute > 0
    assert 0 < found.relative < 1e-5


def test_the_first_output_that_differs():
    io = {"outputs": "float[N,3] y, float[N,3] z"}
    found = run("y = Exp(x) z = Neg(x)", "y = Exp(x) z = Abs(x)", **io)
    assert (found.is_different, found.tensor, found.runs) == (True, "z", 1)
    assert " elements differ" in found.why


@pytest.mark.usefixtures("loads_to_26")
@pytest.mark.parametrize(
    ("opsets", "engine"),
    [((13, 13), "onnxruntime"), ((13, 28), "onnxruntime and onnx.reference"), ((28, 28), "onnx.reference")],
)
def test_engines_that_load_a_model_run_it(opsets, engine):
    found = run("y = Relu(x)", "y = Relu(x)", opsets=opsets)
    assert (found.engine, found.is_different) == (engine, False)


@pytest.mark.usefixtures("loads_to_26")
def test_a_difference_across_engines_is_a_difference():
    held = {"constants": "int64[1] a = {1}", **ROWS}
    assert run("y = ReduceMax<axes = [1]>(x)", "y = ReduceMin(x, a)", opsets=(13, 28), **held).is_different


@pytest.mark.parametrize(("sizes", "is_told"), [("N,1,H,W", True), ("N,1,4,4", False)])
def test_kernels_that_no_image_filled_are_told(sizes, is_told):
    """The user's image is too small for them. Where all images are, there is nothing to try."""
    body = "y = Conv<kernel_shape=[7,7], pads=[3,3,3,3]>(x, w)"
    io = {"inputs": f"float[{sizes}] x", "outputs": "float[N,1,H,W] y"}
    kernel = f"float[1,1,7,7] w = {{{', '.join(['1'] * 49)}}}"
    found = run(body, body, wanted=read_options(input_shape={"x": (2, 1, 4, 4)}), constants=kernel, **io)
    told = 'kernels larger than their feature map, so not fully tested: Conv "y"; try larger sizes with --input-shape'
    assert found.remarks == [told] * is_told


def test_what_nobody_runs():
    found = run("y = my.Thing(x)", "y = my.Thing(x)", domains='"my" : 1')
    assert (found.engine, found.feeds, found.is_different) == ("", [], False)
    assert "onnxruntime" in found.why
    assert "onnx.reference" in found.why


def test_a_second_model_that_fails():
    found = run("y = Identity(x)", "y = Reshape(x, s)", constants="int64[2] s = {3, 7}")
    assert (found.is_different, found.why.startswith("the second model fails: ")) == (True, True)


def test_a_second_model_that_is_none():
    """onnx.reference runs neither: the parts are equal, and the file would have been written."""
    boxes = {
        "inputs": "float[1,4,4] b, float[1,1,4] s",
        "outputs": "int64[K,3] y",
        "constants": "int64 k = {3}, float i = {0.5}, float t = {0.0}",
    }
    chosen = "r = NonMaxSuppression(b, s, k, i, t)"
    source = model(f"{chosen} y = Identity(r)", 17, **boxes)
    mixed = model(f"{chosen} z = Cast<to=6>(r) q = Add(z, r) y = Cast<to=7>(z)", 17, **boxes)
    found = opshift.verify(source, mixed)
    assert found.status == "different"
    assert found.why.startswith("onnxruntime does not load the second model: ")


@pytest.mark.parametrize(
    ("x", "body"),
    [("int64", "y = Exp(x)"), ("float", "y = Mul(x, w)"), ("float", "a = Exp(x) b = Mul(a, w) y = Abs(b)")],
)
def test_a_first_model_that_is_none(x, body):
    """onnx.reference computes all of it, and both models would be equal."""
    io = {"inputs": f"{x}[N,3] x", "outputs": f"{x}[N,3] y", "constants": "double[3] w = {1, 2, 3}"}
    source = model(body, 17, **io)
    with pytest.raises(opshift.InvalidModel, match=r"(?s)the model is not valid: .*(Mul|Exp)"):
        opshift.verify(source, source)


@pytest.mark.parametrize(("kind", "body"), [("int64", "y = Clip<min=-1.0>(x)"), ("int64", "y = Relu(x)")])
def test_a_type_that_a_newer_opset_allows_is_no_error(kind, body):
    source = model(body, 11, inputs=f"{kind}[N,3] x", outputs=f"{kind}[N,3] y")
    if "Clip" in body:
        source.opset_import[0].version = 6
    assert opshift.verify(source, source).status == "equal"


def test_a_wrong_type_that_is_only_declared_is_no_error():
    source = model("a = Exp(x) y = Neg(a)", 17, **IO)
    source.graph.value_info.append(onnx.helper.make_tensor_value_info("a", TensorProto.INT64, [None, 3]))
    assert opshift.verify(source, source).status == "equal"


def test_nan_in_each_run_is_as_if_nothing_had_run():
    found = run("y = Mul(x, n)", "y = Add(x, n)", constants="float n = {nan}")
    assert (found.engine, found.why, found.is_different) == ("", "all outputs were NaN in each run", False)
    found = run(
        "y = Mul(x, n) z = Exp(x)",
        "y = Add(x, n) z = Exp(x)",
        constants="float n = {nan}",
        outputs="float[N,3] y, float[N,3] z",
    )
    assert found.engine == "onnxruntime"


def test_an_output_that_never_changes_is_a_remark():
    found = run("y = Mul(x, z)", "y = Mul(x, z)", constants="float z = {0}")
    assert [remark[:10] for remark in found.remarks] == ['output "y"']


def test_a_difference_of_one_sample_alone():
    """Drawn batches have one sample and several: one is always among what is tried."""
    held = {"constants": "int64[1] i = {0}, int64[1] i1 = {1}"}
    one = "c = Shape(x) n = Gather(c, i) l = Equal(n, i1) k = Cast<to = 1>(l) y = Add(x, k)"
    assert run("y = Identity(x)", one, **held).is_different
    assert not run("y = Identity(x)", "s = Shape(x) d = Squeeze(x) y = Reshape(d, s)").is_different


def test_no_samples():
    """Sizes of 0 decide where all is exact; here they are but told."""
    pair = (
        "y = ReduceSum(x, a)",
        "l = ReduceSum(x, a) n = Shape(x) m = ReduceProd(n) c = Equal(m, z) k = Cast<to = 1>(c) y = Add(l, k)",
    )
    found = run(*pair, constants="int64[1] a = {0}, int64[1] z = {0}", outputs="float[A,3] y")
    assert not found.is_different
    assert found.empty.startswith('"y" differs at sizes of 0: ')


@pytest.mark.parametrize("body", ["y = RandomNormalLike<seed = %s>(x)", "p = Sigmoid(x) y = Bernoulli<seed = %s>(p)"])
def test_random_outputs_are_compared_by_shape(body):
    io = {"inputs": "float[40,30] x", "outputs": "float[A,30] y", "opsets": (15, 15)}
    found = run(body % 1.5, body % 2.5, **io)
    assert (found.is_different, found.outputs["y"].is_random, found.absolute) == (False, True, 0)
    assert run(body % 1.5, "y = Concat<axis = 0>(x, x)", **io).is_different


def test_a_seed_hides_no_difference_elsewhere():
    bodies = [f"r = RandomUniformLike<seed = 1.0>(x) y = {op}(r, x)" for op in ("Add", "Sub")]
    io = {"inputs": "float[4] x", "outputs": "float[4] y", "opsets": (13, 13)}
    assert not run(bodies[0], bodies[0], **io).is_different
    assert run(*bodies, "exact", **io).is_different


def test_tolerances_of_a_user_decide():
    bodies = "y = Exp(x)", "e = Exp(x) y = Add(e, k)"
    held = {"constants": "float k = {0.001}"}
    assert run(*bodies, **held).is_different
    found = run(*bodies, wanted=read_options(atol=0.01), **held)
    assert (found.is_different, found.outputs["y"].by_user, found.outputs["y"].allowed) == (False, True, 0.01)
    assert "by more than rtol 0, atol 0.0001" in run(*bodies, wanted=read_options(atol=0.0001), **held).why


def test_engines_that_a_user_names():
    found = run("y = Exp(x)", "y = Exp(x)", wanted=read_options(engine="reference"))
    assert found.engine == "onnx.reference"
    found = run("y = Exp(x)", "y = Exp(x)", wanted=read_options(engine=("onnxruntime", "reference")))
    assert (found.engine, found.is_different) == ("onnxruntime and onnx.reference", False)


def test_large_weights_are_not_run_unless_asked(monkeypatch):
    monkeypatch.setattr(whole, "MOST", 8)
    held = {"constants": "float[3] w = {1, 2, 3}"}
    found = run("y = Mul(x, w)", "y = Mul(w, x)", **held)
    assert (found.engine, found.why) == ("", "0 MB of weights; --runs 1 runs the whole models as well")
    assert run("y = Mul(x, w)", "y = Mul(w, x)", wanted=read_options(runs=1), **held).engine == "onnxruntime"


def test_a_slow_reference_does_not_take_for_ever(monkeypatch):
    def slow(self, feeds):
        raise EngineError("it takes longer than 20 s")

    monkeypatch.setattr(Reference, "run", slow)
    monkeypatch.setattr(OnnxRuntime, "__init__", lambda *_, **__: (_ for _ in ()).throw(EngineError("not loaded")))
    assert run("y = Exp(x)", "y = Exp(x)").engine == ""


# --- outputs -------------------------------------------------------------------------------------------------------


def test_what_rounding_of_weights_moves_an_output_may_move():
    """Two large numbers that cancel: what is left is all rounding."""
    held = {"constants": "float[3] w = {1000.1, 2000.3, 3000.7}"}
    one, other = "a = Mul(x, w) b = Add(a, w) y = Sub(b, w)", "a = Add(x, i) b = Mul(a, w) y = Sub(b, w)"
    found = run(one, other, constants=f"{held['constants']}, float i = {{1}}")
    assert (found.is_different, found.outputs["y"].is_same) == (False, False)


def test_runs_that_are_moved_are_made_once():
    side, count = Side(model("y = Exp(x)", 17, **IO)), []
    judge = OutputJudge(side, "close", {}, ["y"], lambda run: lambda given: count.append(1) or run(given))
    given = {"x": np.ones((1, 3), np.float32)}
    a = np.exp(given["x"])
    for _ in range(3):
        assert judge.output("y", given, a, a * 2).why
    assert len(count) == 2
    assert judge.output("y", given, a, a).is_same


# --- Loops -----------------------------------------------------------------------------------------------------------

LOOP = (
    "y = Loop({}) <body = b (int64 i, bool c, float[N,3] v) => (bool d, float[N,3] w) {{ d = Identity(c) w = Neg(v) }}>"
)


@pytest.mark.parametrize(
    ("inputs", "bounded"), [(", t, x", True), (", , x", True), ("n, , x", False), ("n, t, x", False)]
)
def test_a_loop_without_a_trip_count_is_bounded(inputs, bounded):
    source = model(LOOP.format(inputs), 17, constants="int64 n = {3}, bool t = {1}", **IO)
    kept = source.SerializeToString()
    made = bound_loops(source)
    assert source.SerializeToString() == kept
    assert (made is not source) is bounded
    onnx.checker.check_model(made)
    (found,) = OnnxRuntime(made).run({"x": np.ones((1, 3), np.float32)})
    turns = ITERATIONS if bounded else 3
    np.testing.assert_array_equal(found, np.full((1, 3), (-1.0) ** turns))


def test_loops_in_branches_and_functions_are_bounded():
    loop = LOOP.format(", , x").replace("y = Loop", "v = Loop")
    text = f"y = If(b) <then_branch = t () => (float[A,B] v) {{ {loop.replace('] v)', '] p)').replace('Neg(v)', 'Neg(p)')} }}, else_branch = e () => (float[A,B] u) {{ u = Neg(x) }}>"
    source = model(text, 17, inputs="float[N,3] x, bool b", outputs="float[A,B] y")
    (found,) = OnnxRuntime(bound_loops(source)).run({"x": np.ones((1, 3), np.float32), "b": np.array(True)})
    np.testing.assert_array_equal(found, np.ones((1, 3)))
    text = (
        """<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[N,3] x) => (float[N,3] y) { y = my.F(x) }
        <domain: "my", opset_import: ["" : 17]> F (x) => (y) { """
        + LOOP.format(", , x")
        + " }"
    )
    (found,) = OnnxRuntime(bound_loops(onnx.parser.parse_model(text))).run({"x": np.ones((1, 3), np.float32)})
    np.testing.assert_array_equal(found, np.ones((1, 3)))


def test_optional_inputs_sequences_and_words():
    value = onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("OptionalGetElement", ["x"], ["y"])],
        "g",
        [onnx.helper.make_value_info("x", onnx.helper.make_optional_type_proto(value))],
        [onnx.helper.make_value_info("y", value)],
    )
    source = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    assert run_whole(Side(source), Side(source), "close", DRAWN).engine
    for io in (
        {"inputs": "seq(float[2]) s, int64 i", "outputs": "float[2] y"},
        {"inputs": "string[3] x", "outputs": "string[3] y"},
    ):
        body = "y = SequenceAt(s, i)" if "seq" in io["inputs"] else "y = Identity(x)"
        assert run(body, body, **io).engine
