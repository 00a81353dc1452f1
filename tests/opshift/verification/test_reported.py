"""What a verification reports: each field, after what it was made of."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto as T

import opshift
from opshift.verification import random_operators, verify
from opshift.verification.compare import Difference, identical
from opshift.verification.engines import EngineError, OnnxRuntime, Reference, one_line
from opshift.verification.judge import Verdict
from opshift.verification.judgement import BITS, DIRECT, SHAPE, STEP, TOLERANCE, TWINS, Judgement
from opshift.verification.places import ranges
from opshift.verification.precision import as_written
from opshift.verification.side import Side
from opshift.verification.verify import Verification
from tests.support import model

X = np.float32([[1, -2, 3]])
IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}


def test_the_words_for_judges():
    """Part of the published schema of reports."""
    assert (TWINS, DIRECT, BITS, SHAPE, TOLERANCE, STEP) == (
        "float64",
        "printed bound",
        "bit for bit",
        "type and shape",
        "tolerance",
        "one step",
    )


def test_a_difference_is_reported_with_all_that_was_found():
    one, other = (model(f"a = Erf(x) y = {op}(a)", 17, **IO) for op in ("Exp", "Neg"))
    found = opshift.verify(one, other)
    assert (found.status, found.engine, found.runs, found.inputs) == ("different", "onnxruntime", 1, ({"x": [3, 3]},))
    assert (found.tensor, found.node, found.op, found.parts, found.weights) == ("y", "y", "Neg", ("y",), ())
    assert [(output.output, output.judge) for output in found.outputs] == [("y", TWINS)]
    assert found.float64 == "2 nodes in numpy or onnx.reference (Erf 2)"
    assert found.absolute > 0
    assert found.relative > 0
    assert not found
    assert not found.equal


def test_what_is_done_is_told_meanwhile(monkeypatch):
    told = []
    monkeypatch.setattr(verify.progress, "tell", lambda *said: told.append(said))
    one, other = (Side(model(f"a = Exp(x) y = {op}(a)", 17, **IO)) for op in ("Neg", "Abs"))
    verify.verify_sides(one, one)
    first, second, compared = ("run the first form, on inputs that fit",), "run the second form", "compare"
    steps = [first, *((second, k, 3) for k in (1, 2, 3)), *((compared, k, 3) for k in (1, 2, 3))]
    assert told[:7] == steps
    assert ("try special numbers and sizes",) in told[7:]
    told.clear()
    verify.verify_sides(one, other)
    assert told[:5] == steps[:5]
    assert ("look for the first value that differs",) in told[5:]


def test_a_second_form_that_fails_is_reported_with_what_it_fails_on():
    one = model("y = Identity(x)", 17, **IO)
    other = model("y = Reshape(x, s)", 17, constants="int64[2] s = {3, 3}", **IO)
    found = opshift.verify(one, other)
    assert (found.status, found.runs) == ("different", 2)
    assert found.inputs == ({"x": [3, 3]}, {"x": [1, 3]})
    assert found.why.startswith("the second model fails: ")


class Pair:
    """Stands for a pair of forms: what it says of a run is given."""

    grade, cast = "exact", {}

    def __init__(self, *outputs, ties=None, said=""):
        self.verdict, self.said = Verdict(outputs, ties or {}), said

    def judge(self, *_):
        return self.verdict

    def told(self):
        return self.said


def judged(total, pair, expected=1.0, actual=1.0):
    return verify._judged(total, pair, {}, [np.float32([expected])], [np.float32([actual])], None)


def test_runs_add_up():
    first = Judgement("y", TWINS, function=1, function_bound=10, ties=1)
    second = Judgement("y", TWINS, function=5, function_bound=10, ties=2)
    total = judged(Verification("equal"), Pair(first, ties={"m": 1}, said="Erf 1"), 2, 2.5)
    assert (total.outputs, total.ties, total.float64) == ((first,), {"m": 1}, "Erf 1")
    assert (total.absolute, total.relative, total.runs) == (0.5, 0.25, 0)
    total = judged(total, Pair(second, ties={"m": 2, "n": 3}), 8, 9)
    assert total.outputs == (replace(second, ties=3),)
    assert total.ties == {"m": 3, "n": 3}
    assert (total.absolute, total.relative, total.float64) == (1, 0.25, "Erf 1")
    total = judged(total, Pair(first), 4, 3)
    assert (total.absolute, total.relative) == (1, 0.25)


def test_the_largest_differences_are_kept():
    total = verify._worse(Verification("equal", absolute=2, relative=3), Difference("", 1, 4))
    assert (total.absolute, total.relative) == (2, 4)
    assert (
        verify._worse(total, Difference("", 5, 1)).absolute,
        verify._worse(total, Difference("", 5, 1)).relative,
    ) == (5, 4)


def test_what_parts_in_rounds_decides_or_is_a_remark():
    from opshift.verification.places.rounds import Parting, Tried

    one, two = Parting("NaN", "y", "0.0 instead of nan"), Parting("size 0", "", "it fails")
    start = Verification("equal", remarks=("before",))
    found = verify._decided(start, Tried(("NaN", "size 0"), (one, two)), True)
    assert (found.status, found.tensor, found.why) == ("different", "y", "with NaN, 0.0 instead of nan")
    assert found.rounds == ("NaN", "size 0")
    for tried, decides in ((Tried(("NaN",), (one, two)), False), (Tried(("NaN",), (), (one,)), True)):
        found = verify._decided(start, tried, decides)
        said = ("with NaN, 0.0 instead of nan ('y')", "with size 0, it fails")
        blamed = ("with NaN, 0.0 instead of nan ('y'); no other engine is known to do so",)
        assert (found.status, found.tensor) == ("equal", "")
        assert found.remarks == ("before", *(blamed if decides else said))
    assert verify._decided(start, Tried(("NaN",)), True) == replace(start, rounds=("NaN",))


def test_inputs_and_outputs_are_those_of_both():
    one = model("y = Neg(x) z = Neg(x)", 17, inputs="float[2] x, float[2] w", outputs="y, z")
    other = model("z = Neg(x) y = Neg(x)", 17, inputs="float[2] x, float[2] w", outputs="z, y")
    assert verify._interface(one, other, verify.DRAWN) == "the outputs are ['z', 'y'] instead of ['y', 'z']"
    fewer = model("y = Neg(x) z = Neg(x)", 17, inputs="float[2] x", outputs="y, z")
    assert verify._interface(one, fewer, verify.DRAWN) == "the inputs are ['x'] instead of ['x', 'w']"
    assert verify._interface(fewer, one, verify.DRAWN) == "the inputs are ['x', 'w'] instead of ['x']"
    set_ = replace(verify.DRAWN, values={"w": X})
    assert verify._interface(one, fewer, set_) == verify._interface(one, one, set_) == ""
    other_set = replace(verify.DRAWN, values={"v": X})
    assert verify._interface(one, fewer, other_set) == "the inputs are ['x'] instead of ['x', 'w']"
    assert verify._interface(fewer, one, set_) == "the inputs are ['x', 'w'] instead of ['x']"
    held = model("y = Neg(x) z = Neg(x)", 17, inputs="float[2] x, float w", outputs="y, z", constants="float w = {1}")
    held.graph.input.add(name="w").type.CopyFrom(one.graph.input[1].type)
    assert verify._interface(fewer, held, verify.DRAWN) == ""


@pytest.mark.parametrize(
    ("engines", "opsets", "blind"),
    [
        ((Reference, OnnxRuntime), (12, 13), True),
        ((Reference, OnnxRuntime), (13, 13), False),
        ((Reference, OnnxRuntime), (13, 12), False),
        ((OnnxRuntime, Reference), (12, 13), False),
        ((Reference, OnnxRuntime), (None, 1), True),
    ],
)
def test_the_reference_is_blind_to_what_was_older(engines, opsets, blind):
    sides = [Side(model("y = Neg(x)", o or 17, **IO), engine=e) for o, e in zip(opsets, engines, strict=True)]
    if opsets[0] is None:
        sides[0].model.opset_import[0].domain = "own"
    assert verify._blind(*sides) is blind


@pytest.mark.parametrize(
    ("said", "grade", "decides"),
    [({}, "exact", True), ({"plain": False}, "exact", False), ({"grade": "close"}, "close", False)],
)
def test_special_numbers_decide_where_all_is_exact_and_plain(monkeypatch, said, grade, decides):
    asked = []

    def run(one, other, *rest, **named):
        asked.append((one.engine, other.engine, *rest, named))
        return Verification("equal", "an engine")

    monkeypatch.setattr(verify, "_run", run)
    side = Side(model("y = Neg(x)", 17, **IO))
    assert verify.verify_sides(side, side, sought=True, **said).engine == "an engine"
    assert asked == [(OnnxRuntime, OnnxRuntime, grade, verify.DRAWN, {"decides": decides, "sought": True})]
    asked.clear()
    monkeypatch.setattr(verify.isolation, "call", lambda function, *sides, **named: asked.append(named))
    verify.verify_apart(side, side, **said)
    plain = {"grade": "exact", "wanted": verify.DRAWN, "plain": True}
    assert asked == [{**plain, **said}]


def test_engines_that_differ_are_close_at_best_and_each_pair_has_its_say(monkeypatch):
    asked = []

    def run(one, other, grade, *rest, **named):
        asked.append((one.engine, other.engine, grade))
        if one.engine is other.engine is OnnxRuntime:
            raise EngineError("it does not load")
        return Verification("equal", "two engines")

    monkeypatch.setattr(verify, "_run", run)
    side = Side(model("y = Neg(x)", 17, **IO))
    found = verify.verify_sides(side, side)
    assert asked[0] == (OnnxRuntime, OnnxRuntime, "exact")
    assert all(grade == ("exact" if a is b else "close") for a, b, grade in asked)
    assert (found.status, found.engine) == ("equal", "two engines")
    asked.clear()

    def fails(*rest, **named):
        asked.append(rest[0].engine)
        raise EngineError("it does not load" if len(asked) < 3 else "it does not run")

    monkeypatch.setattr(verify, "_run", fails)
    found = verify.verify_sides(side, side)
    assert (found.status, found.why) == ("unverified", "it does not load; it does not run"), "each reason once"


def test_what_openvino_computes_is_float():
    assert verify._as_computed(np.float64([0.1])).dtype == np.float32
    for value in (np.float32([1]), np.array([1]), None, [1.0]):
        assert verify._as_computed(value) is value


# --- what is compared, cut, and written ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (X, X.copy(), True),
        (X, -X, False),
        (X, X.astype("f8"), False),
        (X, X[0], False),
        (np.float32([0.0]), np.float32([-0.0]), False),
        (np.float32([np.nan]), np.float32([np.nan]), True),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), False),
        ([X, X], [X, X], True),
        ([X, X], [X], False),
        ([X], X, False),
        (None, None, True),
        (None, X, False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        (X.astype(ml_dtypes.bfloat16), X.astype(ml_dtypes.bfloat16), True),
    ],
)
def test_what_is_the_same_bit_for_bit(one, other, same):
    assert identical(one, other) is same


def test_a_model_that_takes_values_does_not_make_them():
    source = model(
        "a = Neg(x) b, c = Split<axis = 1>(a, s) y = Abs(b)",
        17,
        constants="int64[2] s = {1, 2}",
        inputs="float[1,3] x",
        outputs="y, c, a",
    )
    source.graph.value_info.add(name="b").type.tensor_type.elem_type = 1
    made = random_operators.cut(source, {"a": X, "b": np.zeros((), np.float16)}, ["c", "d", "a"], "mark")
    assert [list(node.output) for node in made.graph.node] == [["a/mark"], ["b/mark", "c"], ["y"]]
    assert [value.name for value in made.graph.output] == ["y", "c", "d"]
    kinds = {value.name: value.type.tensor_type for value in made.graph.input}
    assert list(kinds) == ["x", "a", "b"]
    assert (kinds["a"].elem_type, [dim.dim_value for dim in kinds["a"].shape.dim]) == (T.FLOAT, [1, 3])
    assert (kinds["b"].elem_type, kinds["b"].HasField("shape"), len(kinds["b"].shape.dim)) == (T.FLOAT16, True, 0)
    assert not made.graph.value_info
    assert source.graph.node[0].output[0] == "a"


def test_generators_and_what_both_models_have_of_them():
    one = model(
        "p = Sigmoid(x) r = Bernoulli<seed = 1.0>(p) u = RandomUniformLike(x) v = own.Dropout(x) y = Add(r, u)",
        17,
        domains='"own" : 1',
        **IO,
    )
    other = model("p = Sigmoid(x) r = Bernoulli(p) y = Add(r, x)", 17, **IO)
    assert random_operators.shared(one, one) == (["r", "u"], ["p"])
    assert random_operators.shared(one, other) == (["r"], ["p"])
    made = random_operators.unseeded(one)
    assert [list(node.attribute) for node in made.graph.node] == [[]] * 5
    assert one.graph.node[1].attribute


def test_a_form_that_rounds_after_every_node():
    source = model("a, m = Dropout(x) b = Identity(a) y = Add(b, b)", 12, inputs="float16[2] x", outputs="float16[2] y")
    source.graph.node[0].output[1] = ""
    made = as_written(source)
    assert [node.op_type for node in made.graph.node] == [
        "Dropout",
        "Identity",
        "Identity",
        "Identity",
        "Add",
        "Identity",
        "Identity",
    ]
    assert [list(node.output) for node in made.graph.node[:3]] == [["a/free", ""], ["a/held"], ["a"]]
    x = np.float16([0.1, 3])
    assert OnnxRuntime(made).run({"x": x})[0].tolist() == (x + x).tolist()
    plain = model("y = Neg(x)", 17, **IO)
    assert as_written(plain) is plain


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("two\n lines", "two lines"),
        ("", "EngineError"),
        ("x" * 300, "x" * 300),
        ("a" * 150 + "b" * 151, "a" * 100 + "..." + "b" * 151 + ""),
        ("bfc_arena.cc failed", "the memory does not suffice to run it"),
        ("Failed to allocate memory for", "the memory does not suffice to run it"),
        ("Unable to allocate 3 GiB", "the memory does not suffice to run it"),
    ],
)
def test_an_error_is_one_line(text, line):
    found = one_line(EngineError(text))
    if len(text) == 301:
        assert found == text[:100] + "..." + text[-197:]
        assert len(found) == 300
    else:
        assert found == line


@pytest.mark.parametrize(("code", "named"), [(16, "bfloat16"), (17, "float8e4m3fn"), (22, "int4")])
def test_types_that_numpy_lacks_are_not_exchanged(code, named):
    for taken, made in (("float", code), (named, 1)):
        of = model(f"y = Cast<to = {made}>(x)", 21, inputs=f"{taken}[2] x", outputs="y")
        of.graph.output[0].type.tensor_type.elem_type = made
        with pytest.raises(
            EngineError, match=rf"it exchanges no tensor\({named}\) with numpy \({'y' if taken == 'float' else 'x'}\)"
        ):
            OnnxRuntime(of)
    of = model(f"h = Cast<to = {code}>(x) y = Cast<to = 1>(h)", 21, inputs="float[2] x", outputs="float[2] y")
    assert OnnxRuntime(of).run({"x": X[0, :2], "other": X})[0].tolist() == [1, -2]


EVERY = np.float32([[-1e30, -500, -30, -2, -1, -0.5, 0, 0.5, 1, 2, 30, 500, 1e30]])


@pytest.mark.parametrize(
    "op",
    [
        *("Abs", "Cos", "Elu", "Erf", "Exp", "HardSigmoid", "LeakyRelu", "Neg"),
        *("Relu", "Sigmoid", "Sin", "Softmax", "Softplus", "Softsign", "Sqrt", "Tanh"),
    ],
)
def test_operators_yield_what_is_said_of_them(op):
    of = model(f"y = {op}(x)", 17, inputs="float[1,13] x", outputs="y")
    made = OnnxRuntime(of).run({"x": EVERY})[0]
    made, (low, high) = made[~np.isnan(made)], ranges.Ranges(of).of("y")
    assert low <= made.min()
    assert made.max() <= high
    if op not in ("Elu", "LeakyRelu", "Neg"):
        assert made.min() <= low + 0.2
        assert made.max() >= min(high - 0.2, 1e14)
