"""Regions are proved one by one: on captured values, which decide, and on drawn ones, for which they may be widened."""

import time
from itertools import pairwise

import numpy as np
import pytest

from opshift.verification import proof
from opshift.verification.engines import OnnxRuntime, Reference
from opshift.verification.proof import CAPTURED, Manner, Prover
from opshift.verification.regions import Body
from opshift.verification.side import Side
from tests.support import model

IO = {"inputs": "float[N,8] x", "outputs": "float[A,B] y"}
RUNS = [{"x": np.random.default_rng(k).standard_normal((k + 2, 8)).astype(np.float32)} for k in range(2)]


def prover(one, other, runs=RUNS, manner=None, opsets=(17, 17), **io):
    bodies = [Body(Side(model(text, opset, **{**IO, **io}))) for text, opset in zip((one, other), opsets, strict=True)]
    return Prover(*bodies, runs, manner or Manner("close"))


def proved(*arguments, **named):
    made = prover(*arguments, **named)
    return made.prove(), made


def test_nothing_that_differs_is_nothing_to_run():
    found, made = proved("a = Exp(x) y = Neg(a)", "a = Exp(x) y = Neg(a)")
    assert (found, made.failures, made.remarks) == ([], [], {})


def test_what_is_told_of_a_kind():
    (found,), made = proved(
        "a = Exp(x) b = Exp(a) y = Sqrt(b)", "a = Exp(x) p = Neg(a) q = Exp(p) b = Reciprocal(q) y = Sqrt(b)"
    )
    assert (found.before, found.after) == (("Exp",), ("Neg", "Exp", "Reciprocal"))
    assert (found.values, found.nodes, found.made) == (("b",), ("b",), ("p", "q", "b"))
    assert (found.status, found.places, found.captured, found.engines) == ("equal", 1, True, "onnxruntime")
    assert 0 < found.difference < found.allowed
    assert not found.is_same
    assert found.runs > 4
    assert made.failures == []


def test_places_of_one_kind_are_one_finding():
    names = ["x", *(f"v{k}" for k in range(1, 12)), "y"]
    one, other = (
        " ".join(f"{b} = {text.format(a, b)}" for a, b in pairwise(names)) for text in ("Relu({0})", "Max({0}, z)")
    )
    found, _ = proved(one, other, constants="float z = {0}")
    assert [(finding.places, finding.status) for finding in found] == [(12, "equal")]
    assert found[0].difference == 0


def test_what_differs_is_told_with_all_that_is_known():
    (found,), made = proved(
        "a = Exp(x) b = Neg(a) y = Sqrt(x)".replace("Sqrt(x)", "Sin(b)"), "a = Exp(x) b = Abs(a) y = Sin(b)"
    )
    assert (found.status, found.label) == ("different", CAPTURED)
    failure = made.failures[0]
    assert (failure.region.outputs, failure.label, failure.op) == (("b",), CAPTURED, "Abs")
    assert (failure.nodes, failure.made, failure.weights) == (("b",), ("b",), ())
    np.testing.assert_allclose(failure.values["a"], np.exp(RUNS[0]["x"]), rtol=1e-6)
    assert failure.is_other


def test_failures_stand_in_the_order_of_the_second_model():
    _, made = proved("a = Exp(x) b = Neg(a) y = Sin(b)", "a = Abs(x) b = Neg(a) y = Cos(b)")
    assert list(dict.fromkeys(failure.region.outputs for failure in made.failures)) == [("a",), ("y",)]


def test_weights_that_differ_are_named():
    bodies = [Body(Side(model("a = Mul(x, w) y = Add(a, v)", 17, constants=f"float[8] w = {{1, 2, 3, 4, 5, 6, 7, {k}}}, float[8] v = {{1, 1, 1, 1, 1, 1, 1, 1}}", **IO))) for k in (8, 9)]  # fmt: skip
    made = Prover(*bodies, RUNS, Manner("close"))
    made.prove()
    assert {(f.region.outputs, f.weights) for f in made.failures} == {(("a",), ("w",))}


@pytest.mark.parametrize("slow", [2.0, 0.0], ids=["fast", "slow"])
def test_each_set_of_weights_is_run(monkeypatch, slow):
    """Relu(x) * w is Relu(x * w) until a weight is negative, which one of twenty is. Slow parts are run once each."""
    monkeypatch.setattr(proof, "_SLOW", slow)
    held = ", ".join(f"float[8] w{k} = {{1, {-0.5 if k == 17 else 2}, 1, 1, 1, 1, 1, 1}}" for k in range(20))
    one = " ".join(f"p{k} = Mul(x, w{k}) r{k} = Relu(p{k})" for k in range(20))
    other = " ".join(f"q{k} = Relu(x) r{k} = Mul(q{k}, w{k})" for k in range(20))
    total = f" y = Sum({', '.join(f'r{k}' for k in range(20))})"
    _, made = proved(one + total, other + total, constants=held)
    assert {failure.region.outputs for failure in made.failures} == {("r17",)}


def test_drawn_values_tell_what_captured_ones_do_not():
    """All that was captured is positive."""
    runs = [{"x": np.abs(run["x"]) + 1} for run in RUNS]
    found, made = proved("y = Relu(x)", "y = Identity(x)", runs=runs)
    assert [failure.label for failure in made.failures] != [CAPTURED]
    assert made.failures
    assert found[0].status == "different"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = Mul(x, x) y = Relu(a)", "a = Mul(x, x) y = Identity(a)"),
        ("a = Softmax(x) y = Clip(a, n, o)", "a = Softmax(x) y = Identity(a)"),
        ("a = Sub(x, x) y = Add(a, x)", "a = Sub(x, x) y = Identity(x)"),
        ("a = Shape(x) b = Cast<to = 1>(a) c = Relu(b) d = ReduceSum<keepdims = 0>(c) y = Mul(x, d)",
         "a = Shape(x) b = Cast<to = 1>(a) c = Identity(b) d = ReduceSum<keepdims = 0>(c) y = Mul(x, d)"),
    ],
)  # fmt: skip
def test_a_region_is_widened_to_values_that_are_free(one, other):
    """What holds between landmarks is no difference, but is said."""
    _, made = proved(one, other, constants="float n = {0}, float o = {1}")
    assert made.failures == []
    assert made.remarks.keys() <= {"equal only on numbers that the nodes before it can compute"}


def test_the_size_of_an_input_is_no_free_number():
    """A mask has as many rows as the tokens: its length is read off the tokens instead, as exported BERT is folded."""
    runs = [{**run, "m": run["x"]} for run in RUNS]
    length = "n = Shape(m) b = Gather(n, i) z = Add(b, b) "
    _, made = proved(
        f"{length} u = Unsqueeze(b, j) y = Concat<axis = 0>(u, u)",
        f"{length} s = Shape<start = 0, end = 1>(x) y = Concat<axis = 0>(s, s)",
        runs=runs,
        inputs="float[N,8] x, float[N,8] m",
        outputs="int64[2] y, int64 z",
        constants="int64 i = {0}, int64[1] j = {0}",
    )
    assert made.failures == []
    assert made.remarks == {"equal only on numbers that the nodes before it can compute": {"y": None}}


def test_names_that_mean_other_values_are_given_up():
    _, made = proved("a = Exp(x) b = Neg(a) y = Sin(b)", "b = Exp(x) a = Neg(b) y = Sin(a)")
    assert made.failures
    made.prove({"a", "b"})
    assert made.failures == []


def test_without_runs_what_inference_tells_is_drawn():
    (found,), made = proved(
        "a = Exp(x) y = Relu(a)", "a = Exp(x) y = Max(a, z)", runs=[], constants="float z = {0}", inputs="float[N,8] x"
    )
    assert (found.status, found.captured, found.runs > 4) == ("equal", False, True)
    _, made = proved("a = Exp(x) y = Relu(a)", "a = Exp(x) y = Neg(a)", runs=[])
    assert made.failures


def test_what_nothing_runs_is_not_covered():
    (found,), made = proved("y = my.F(x)", "y = my.G(x)", domains='"my" : 1')
    assert (found.status, found.runs, made.failures) == ("not covered", 0, [])
    assert "my:F" in found.why


def test_what_is_invalid_is_told_where_the_reference_takes_too_long(monkeypatch):
    monkeypatch.setattr(proof, "_PATIENCE", 0.01)
    monkeypatch.setattr(Reference, "run", lambda self, feeds: time.sleep(9))
    runs = [{"x": np.zeros((2, 8), np.int64)}]
    (found,), _ = proved("y = Relu(x)", "y = Max(x, x)", runs, opsets=(13, 13), inputs="int64[N,8] x")
    assert found.status == "not covered"
    assert found.why.startswith("it takes longer than 0.01 s in onnx.reference; onnxruntime does not load it: ")
    assert "Type Error: Type 'tensor(int64)' of input parameter" in found.why


@pytest.mark.parametrize(("grade", "special", "count"), [("exact", True, 1), ("exact", False, 0), ("close", True, 0)])
def test_nan_decides_where_all_is_exact_and_plain(grade, special, count):
    _, made = proved(
        "y = Relu(x)", "m = Greater(x, z) y = Where(m, x, z)", manner=Manner(grade, special), constants="float z = {0}"
    )
    assert [failure.label for failure in made.failures] == ["infinities, NaN and denormals"] * count


@pytest.mark.parametrize(
    ("one", "other", "labels"),
    [
        ("e = Exp(x) s = ReduceSum<keepdims = 0>(e, k) y = Log(s)", "y = ReduceLogSumExp<keepdims = 0>(x, k)", []),
        (
            "y = ReduceLogSumExp<keepdims = 0>(x, k)",
            "e = Exp(x) s = ReduceSum<keepdims = 0>(e, k) y = Log(s)",
            ["large numbers"],
        ),
    ],
)
def test_of_large_numbers_only_the_second_model_may_not_overflow(one, other, labels):
    _, made = proved(one, other, opsets=(18, 18), constants="int64[1] k = {1}", outputs="float[N] y")
    assert [failure.label for failure in made.failures] == labels


def test_large_numbers_are_as_exact_as_rounding_in_front_of_them_lets_them():
    """Angles are as large as 100,000: a rounding of these moves what Sin makes of them by parts of 1,000."""
    io = {"constants": "float c = {0.09}, float d = {0.3}", "outputs": "float[N,8] y"}
    _, made = proved("a = Mul(x, x) b = Mul(a, c) y = Sin(b)", "p = Mul(x, d) q = Mul(p, p) y = Sin(q)", **io)
    assert made.failures == []


def test_a_kernel_that_flushes_tiny_numbers_is_told():
    """onnxruntime's RNN makes 0 of them, and Tanh does not."""
    io = {
        "inputs": "float[1,N,8] x, float[1,4,8] w, float[1,4,4] r",
        "outputs": "float[1,N,4] y",
        "constants": "int64[1] z = {0}",
    }
    random = np.random.default_rng(0)
    shapes = {"x": (1, 3, 8), "w": (1, 4, 8), "r": (1, 4, 4)}
    runs = [{name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}]
    other = "s = Squeeze(x, z) v = Squeeze(w, z) t = Transpose(v) m = MatMul(s, t) h = Tanh(m) y = Unsqueeze(h, z)"
    _, made = proved("_, y = RNN<hidden_size = 4>(x, w, r)", other, runs, Manner("close"), **io)
    assert [failure.label for failure in made.failures] == ["tiny numbers"]


def test_what_the_reference_alone_runs_and_fails_at_is_not_covered():
    (found,), made = proved("y = Relu(x)", 'a = Cast<to = "FLOAT">(x) y = Relu(a)', opsets=(6, 5))
    assert (found.status, made.failures) == ("not covered", [])
    assert found.why.startswith("'FLOAT' in onnx.reference; onnxruntime does not load it: ")


def test_the_reference_is_not_believed_where_it_is_blind(monkeypatch):
    """It computes Softmax as it is now, at 12 and at 13."""

    def reference(of):
        return Reference(of)

    monkeypatch.setattr(proof, "_open_part", reference)
    (found,), made = proved("y = Softmax(x)", "y = Softmax(x)", opsets=(12, 13))
    assert (found.status == "different", made.failures) == (False, [])


def test_captured_values_are_held_a_batch_at_a_time(monkeypatch):
    names = ["x", *(f"v{k}" for k in range(1, 100)), "y"]
    one, other = (
        " ".join(f"{b} = {text.format(a)}" for a, b in pairwise(names)) for text in ("Relu({})", "Max({}, z)")
    )
    asked = []
    real = OnnxRuntime.run
    monkeypatch.setattr(
        OnnxRuntime,
        "run",
        lambda self, given, wanted=(): asked.append(len(wanted)) or real(self, given, wanted or None),
    )
    monkeypatch.setattr(proof, "_BATCH", 1000)
    _, made = proved(one, other, constants="float z = {0}")
    assert made.failures == []
    assert sum(map(bool, asked)) > 3
    assert max(asked) <= 64


def test_bodies_in_bodies_end():
    def nested(innermost):
        body = innermost
        for k in range(12):
            body = f"v = If(b) <then_branch = t{k} () => (float[A,B] v) {{ {body} }}, else_branch = e{k} () => (float[A,B] w{k}) {{ w{k} = Neg(x) }}>"
        return f"n = Neg(x) {body.replace('v = If', 'y = If', 1)}"

    runs = [{"x": RUNS[0]["x"], "b": np.array(True)}]
    _, made = proved(nested("v = Abs(x)"), nested("v = Max(x, n)"), inputs="float[N,8] x, bool b", runs=runs)
    assert made.failures == []


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_0_and_1(size):
    runs = [{"x": RUNS[0]["x"][:size]}]
    _, made = proved("y = Relu(x)", "y = Max(x, z)", runs=runs, constants="float z = {0}")
    assert made.failures == []
    _, made = proved("y = Relu(x)", "y = Neg(x)", runs=runs)
    assert bool(made.failures) is bool(size)
