"""Which inputs and outputs of two models stand for each other, and in which precisions they are written."""

import numpy as np
import onnx
import pytest

from opshift.verification import interfaces
from opshift.verification.engines import OnnxRuntime
from opshift.verification.feeding.asked import DRAWN, read_options
from opshift.verification.side import Side
from tests.support import model


def test_what_is_cast():
    one = model(
        "y = Neg(x) z = Neg(h) i = Neg(k)",
        13,
        inputs="float[2] x, float16[2] h, int64[2] k",
        outputs="float[2] y, float16[2] z, int64[2] i",
    )
    other = model("y = Neg(x) j = Neg(k)", 13, inputs="float16[2] x, int32[2] k", outputs="float16[2] y, int32[2] j")
    types = interfaces.casts(one, other)
    assert types == {"x": (1, 10), "y": (1, 10), "k": (7, 6)}
    feeds = {"x": np.float32([1, 2049]), "k": np.array([1, 2])}
    assert [value.dtype for value in interfaces.round_inputs(feeds, types).values()] == [np.float32, np.int64]
    np.testing.assert_array_equal(interfaces.round_inputs(feeds, types)["x"], [1, 2048])
    assert [value.dtype for value in interfaces.as_second(feeds, types).values()] == [np.float16, np.int32]
    assert interfaces.casts(one, one) == {}


def test_what_carries_a_narrow_type_is_cast():
    one = model(
        "y = Identity(x) z = Identity(h)", 21, inputs="int4[2] x, bfloat16[2] h", outputs="int4[2] y, bfloat16[2] z"
    )
    other = model(
        "y = Identity(x) z = Identity(h)", 13, inputs="int8[2] x, float[2] h", outputs="int8[2] y, float[2] z"
    )
    assert interfaces.casts(one, other) == {"x": (22, 3), "h": (16, 1), "y": (22, 3), "z": (16, 1)}
    narrow = model("y = Identity(x)", 21, inputs="int4[2] x", outputs="int4[2] y")
    assert interfaces.casts(model("y = Identity(x)", 13, inputs="int8[2] x", outputs="int8[2] y"), narrow) == {}


def test_integers_are_compared_in_the_wider_type():
    one, other = np.array([1, 2**40]), np.array([1, 2], np.int32)
    a, b = interfaces.in_narrower(one, other)
    assert (a.dtype, b.dtype) == (np.int64, np.int64)
    np.testing.assert_array_equal(a, one)


IN, OUT = "float[2] x, int64[3] k", "float[2] y, int64[3] n"
ONE = model("y = Exp(x) n = Neg(k)", 17, inputs=IN, outputs=OUT)


def matched(body, inputs, outputs, wanted=DRAWN, constants=""):
    other = model(body, 17, inputs=inputs, outputs=outputs, constants=constants)
    kept = other.SerializeToString()
    before, after, why, remarks = interfaces.match(Side(ONE), Side(other), wanted)
    assert (before.model, other.SerializeToString()) == (ONE, kept)
    names = [[value.name for value in held] for held in (after.model.graph.input, after.model.graph.output)]
    return names, why, remarks, after.model


def test_the_same_names():
    names, why, remarks, _ = matched("y = Sin(x) n = Abs(k)", IN, OUT)
    assert (names, why, remarks) == ([["x", "k"], ["y", "n"]], "", [])


def test_names_in_another_order():
    names, why, remarks, _ = matched("y = Sin(x) n = Abs(k)", "int64[3] k, float[2] x", "int64[3] n, float[2] y")
    assert (names[1], why, remarks) == (["y", "n"], "", ["the outputs are in another order"])


def test_other_names_stand_for_each_other_by_position():
    names, why, remarks, made = matched("p = Sin(a) q = Abs(b)", "float[2] a, int64[3] b", "float[2] p, int64[3] q")
    assert (names, why) == ([["x", "k"], ["y", "n"]], "")
    assert remarks == [
        'outputs are compared by position: "y" with "p", "n" with "q" (--map A=B says otherwise)',
        'inputs are compared by position: "x" with "a", "k" with "b" (--map A=B says otherwise)',
    ]
    onnx.checker.check_model(made)
    x, k = np.float32([1, 2]), np.array([1, -2, 3])
    found = OnnxRuntime(made).run({"x": x, "k": k})
    np.testing.assert_allclose(found[0], np.sin(x), rtol=1e-6)


def test_a_name_that_means_something_else_inside_makes_way():
    """The second model has an inner value that is called as an output of the first one."""
    names, why, _, made = matched(
        "y = Neg(a) p = Sin(y) n = Abs(b)", "float[2] a, int64[3] b", "float[2] p, int64[3] n"
    )
    assert (names, why) == ([["x", "k"], ["y", "n"]], "")
    onnx.checker.check_model(made)
    x, k = np.float32([1, 2]), np.array([1, -2, 3])
    np.testing.assert_allclose(OnnxRuntime(made).run({"x": x, "k": k})[0], np.sin(-x), rtol=1e-6)


def test_names_in_branches_make_way_too():
    body = """c = Constant<value = bool {1}>() p = If(c) <then_branch = t () => (float[2] y) { y = Sin(a) },
        else_branch = e () => (float[2] w) { w = Neg(a) }> n = Abs(b)"""
    _, why, _, made = matched(body, "float[2] a, int64[3] b", "float[2] p, int64[3] n")
    assert why == ""
    x = np.float32([1, 2])
    np.testing.assert_allclose(OnnxRuntime(made).run({"x": x, "k": np.array([1, 2, 3])})[0], np.sin(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "outputs", "why"),
    [
        ("int64[3] b, float[2] a", "float[2] p, int64[3] q", "the inputs are ['b', 'a'] instead of ['x', 'k']"),
        ("float[2] a, int64[3] b", "int64[3] q, float[2] p", "the outputs are ['q', 'p'] instead of ['y', 'n']"),
        ("float[2] a, int64[3] b", "float[2] p", "the outputs are ['p'] instead of ['y', 'n']"),
        (
            "float[2] a, int64[3] b, float c",
            "float[2] p, int64[3] q",
            "the inputs are ['a', 'b', 'c'] instead of ['x', 'k']",
        ),
    ],
)
def test_what_does_not_stand_for_each_other(inputs, outputs, why):
    _, said, _, _ = matched("p = Sin(a) q = Abs(b)", inputs, outputs)
    more = "; --map A=B says which stand for each other"
    assert said in (f"{why}{more}", why)
    assert said.endswith(more) == (why.count("'") == 8), "where there are as many"


def test_a_user_says_which_stand_for_each_other():
    wanted = read_options(map_=["y=p", "n=q", "x=a", "k=b"])
    names, why, remarks, _ = matched(
        "p = Sin(a) q = Abs(b)", "int64[3] b, float[2] a", "int64[3] q, float[2] p", wanted
    )
    assert (names[1], why) == (["y", "n"], "")
    assert "outputs are compared by position" not in " ".join(remarks)


def test_what_has_a_default_or_is_set_need_not_be_given():
    body, io = "y = Exp(x) n = Neg(k)", ("float[2] x, int64[3] k, float s", OUT)
    assert matched(body, *io)[1].startswith("the inputs are ")
    assert matched(body, *io, constants="float s = {1}")[1] == ""
    assert matched(body, *io, wanted=read_options(set_={"s": 1.0}))[1] == ""


@pytest.mark.parametrize(
    ("ir", "other", "is_remarked"),
    [
        (8, "float[4] x, float[1] k = {2}) => (float[4] y) { y = Mul(x, k) }", False),
        (8, "float[4] x) => (float[4] y) <float[1] k = {2}> { y = Mul(x, k) }", True),
        (8, "float[4] x, float[1] k = {2}) => (float[4] y) { y = Add(x, x) }", True),
        (3, "float[4] x) => (float[4] y) <float[1] k = {2}> { y = Mul(x, k) }", False),
    ],
)
def test_a_default_that_the_second_model_has_baked_in_is_a_remark(ir, other, is_remarked):
    head = f'<ir_version: {ir}, opset_import: ["" : 8]> g ('
    texts = ("float[4] x, float[1] k = {2}) => (float[4] y) { y = Mul(x, k) }", other)
    one, two = (Side(onnx.parser.parse_model(head + text)) for text in texts)
    _, _, why, remarks = interfaces.match(one, two, DRAWN)
    said = 'tested at the default of "k" only: the second model takes no other value there'
    assert (why, remarks) == ("", [said] if is_remarked else [])
