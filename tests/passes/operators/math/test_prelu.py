"""PRelu: slopes per channel and broadcast, of integers and of floats."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators import legacy
from tests.passes.operators.elements import CODE
from tests.support import check, check_refused, check_unchanged, evaluate, model, show


@pytest.mark.parametrize(("x", "slope", "after"), [
    ((2, 3), (3,), "y = PRelu(x, s)"), ((2, 3, 4), (1,), "y = PRelu(x, s)"),
    ((2, 3, 4), (3,), "t1 = Unsqueeze<axes=[1]>(s)\ny = PRelu(x, t1)"),
    ((2, 4, 4, 4), (4,), "t1 = Unsqueeze<axes=[1, 2]>(s)\ny = PRelu(x, t1)"),
])  # fmt: skip
def test_slopes_were_per_channel_below_7(x, slope, after):
    dims = ",".join(map(str, x))
    io = {"inputs": f"float[{dims}] x, float[{slope[0]}] s", "outputs": f"float[{dims}] y"}
    source = model("y = PRelu(x, s)", 6, **io)
    made = convert.attempt(source, {"": 7}).model
    assert show(made) == after
    feeds = {
        "x": np.random.default_rng(2).normal(size=x).astype(np.float32),
        "s": np.arange(1, 1 + slope[0], dtype=np.float32),
    }
    np.testing.assert_array_equal(evaluate(made, feeds)[0], legacy.run(source, feeds)[0])


def test_slopes_of_unknown_ranks_are_refused():
    check_refused("y = PRelu(x, s)", 6, 7, "rank", inputs="float[] x, float[3] s", outputs="float[] y")
    check_refused("y = PRelu(x, s)", 7, 6, "rank", inputs="float[] x, float[3] s", outputs="float[] y")
    io = {"inputs": "float[2,3] x, float[3] s, int64[P] p", "outputs": "float[2,3] y"}
    for opset, target in ((6, 7), (7, 6)):
        check_refused("t = Reshape(s, p) y = PRelu(x, t)", opset, target, 'the rank of "t" is unknown', **io)


FLAT = "t1 = Reshape(x, const)\nt2 = Reshape(s, const_1)\nt3 = PRelu(t1, t2)\ny = Reshape(t3, const_3)"


@pytest.mark.parametrize(("x", "slope", "after"), [
    ((2, 3), (3,), "y = PRelu(x, s)"), ((2, 3, 4), (1,), "y = PRelu(x, s)"), ((2, 3, 4), (), "t1 = Reshape(s, const)\ny = PRelu(x, t1)"),
    ((2, 3, 4), (3, 1), "t1 = Reshape(s, const)\ny = PRelu(x, t1)"), ((2, 3, 4), (1, 1, 1), "t1 = Reshape(s, const)\ny = PRelu(x, t1)"),
    ((2, 3, 4), (4,), FLAT), ((2, 3, 4), (3, 4), FLAT), ((3,), (3,), FLAT.replace("const_3", "const_1")), ((2, 3, 4), (1, 3, 4), FLAT),
])  # fmt: skip
def test_slopes_become_a_vector_below_7(x, slope, after):
    dims, s = (",".join(map(str, d)) for d in (x, slope))
    io = {"inputs": f"float[{dims}] x, float[{s}] s".replace("[]", ""), "outputs": f"float[{dims}] y"}
    source = model("y = PRelu(x, s)", 7, **io)
    made = convert.attempt(source, {"": 6}).model
    assert show(made) == after
    feeds = {
        "x": np.random.default_rng(2).normal(size=x).astype(np.float32),
        "s": np.arange(1, 1 + np.prod(slope, dtype=int), dtype=np.float32).reshape(slope),
    }
    np.testing.assert_array_equal(legacy.run(made, feeds)[0], evaluate(source, feeds)[0])


@pytest.mark.parametrize(("dims", "shape"), [("N,0,4", (2, 0, 4)), ("2,M,4", (2, 0, 4)), ("N,3,4", (0, 3, 4))])
def test_axes_before_the_slopes_may_be_empty_below_7(dims, shape):
    made = convert.attempt(
        model("y = PRelu(x, s)", 7, inputs=f"float[{dims}] x, float[4] s", outputs="float[A,B,C] y"), {"": 6}
    ).model
    assert made is not None
    assert legacy.run(made, {"x": np.zeros(shape, np.float32), "s": np.ones(4, np.float32)})[0].shape == shape


def test_slopes_across_channels_are_refused_below_7():
    check_refused(
        "y = PRelu(x, s)",
        7,
        6,
        "nor one value for each channel",
        inputs="float[2,3,4] x, float[2,1,1] s",
        outputs="float[2,3,4] y",
    )


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_slopes_of_integers_are_multiplied_below_9(kind):
    after = f"""t1 = Cast<to=11>(x)
        t2 = Less(t1, const_1)
        t3 = Cast<to={CODE[kind]}>(t2)
        t4 = Sub(s, const)
        t5 = Mul(t3, t4)
        t6 = Add(t5, const)
        y = Mul(x, t6)"""
    io = {"inputs": f"{kind}[2,2] x, {kind}[2] s", "outputs": f"{kind}[2,2] y"}
    x, s = np.array([[-3, 2], [0, np.iinfo(kind).min]], kind), np.array([4, -1], kind)
    check("y = PRelu(x, s)", 9, after, 8, run=False, **io)  # onnxruntime has no such kernel at 9
    made = convert.attempt(model("y = PRelu(x, s)", 9, **io), {"": 8}).model
    np.testing.assert_array_equal(evaluate(made, {"x": x, "s": s})[0], np.where(x < 0, x * s, x))


@pytest.mark.parametrize("kind", ["uint32", "uint64"])
def test_unsigned_integers_have_no_slope_below_9(kind):
    io = {"inputs": f"{kind}[2,2] x, {kind}[2] s", "outputs": f"{kind}[2,2] y"}
    check("y = PRelu(x, s)", 9, "y = Identity(x)", 8, run=False, **io)  # onnxruntime has no such kernel at 9


def test_slopes_of_floats_stay():
    check_unchanged("y = PRelu(x, s)", 16, 7, inputs="float[2,2] x, float[2] s", outputs="float[2,2] y")


@pytest.mark.parametrize(("x", "slope"), [("", "[1]"), ("[3]", "[1,3]")])
@pytest.mark.parametrize("result", ["[1]", ""])
def test_slopes_of_a_higher_rank_than_x_have_no_result_below_6(x, slope, result):
    io = {"inputs": f"float{x} x, float{slope} s", "outputs": f"float{result} y"}
    check_refused("t = PRelu(x, s) y = Neg(t)", 1, 6, "supported: ", **io)
    check_refused("y = PRelu(x, s)", 5, 16, f"rank {slope.count(',') + 1}", **io)


def test_a_slope_of_a_scalar_stays_a_scalar_below_7():
    io = {"inputs": "float x, float s", "outputs": "float y"}
    made = check_unchanged("y = PRelu(x, s)", 7, 1, **io)
    check_unchanged("y = PRelu(x, s)", 1, 7, **io)
    assert legacy.run(made, {"x": np.float32(-2), "s": np.float32(0.5)})[0].shape == ()
