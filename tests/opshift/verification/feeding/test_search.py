"""Inputs that fit are found where small sizes do not: what an engine says of a node tells what it wants."""

import math
import os
import signal

import numpy as np
import pytest

import opshift
from opshift.verification.combined import verify_sides
from opshift.verification.engines import NeverRuns, OnnxRuntime
from opshift.verification.feeding import inputs, search
from opshift.verification.feeding.asked import DRAWN, read_options
from opshift.verification.side import Side
from opshift.verification.verify import verify_apart
from tests import pairs
from tests.support import model

pytestmark = pytest.mark.posix


def weights(**shapes: tuple[int, ...]) -> str:
    """Initializers of ones."""
    held = ((name, shape, ", ".join(["1"] * math.prod(shape))) for name, shape in shapes.items())
    return ", ".join(f"float{list(shape)} {name} = {{{ones}}}" for name, shape, ones in held)


DEMANDS = {
    "a reflecting Pad": ('y = Pad<mode="reflect">(x, p)', "float[N,T] x", "int64[4] p = {0, 64, 0, 64}"),
    "a Reshape": ("y = Reshape(x, s)", "float[N,T] x", "int64[3] s = {0, -1, 80}"),
    "windows": ("y = Reshape(x, s)", "float[N,H,W,6] x", "int64[6] s = {-1, 2, 7, 2, 7, 6}"),
    "a MatMul": ("y = MatMul(x, w)", "float[N,T,C] x", weights(w=(37, 2))),
    "inputs of a MatMul": ("y = MatMul(x, z)", "float[N,5] x, float[M,4] z", ""),
    "inputs of an Add": ("a = Reshape(x, s) y = Add(a, z)", "float[N,T] x, float[M,K] z", "int64[2] s = {-1, 50}"),
    "a Concat": ("y = Concat<axis=1>(x, w)", "float[N,T] x", weights(w=(7, 2))),
    "a Split": ("y, z = Split<axis=1>(x, s)", "float[N,T] x", "int64[2] s = {33, 31}"),
    "strides": (
        "a = Conv<strides=[2,2]>(x, w) b = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a) f = Flatten(b) y = MatMul(f, v)",
        "float[N,3,H,W] x",
        weights(w=(2, 3, 3, 3), v=(2 * 6 * 6, 1)),
    ),
    "up and down again": (
        "a = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) b = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a) "
        'c = Resize<mode="nearest">(b, , s) d = Add(c, a) e = Resize<mode="nearest">(d, , s) y = Add(e, x)',
        "float[N,3,H,W] x",
        "float[4] s = {1, 1, 2, 2}",
    ),
    "frames": (
        "f = Unsqueeze(x, a) c = Conv<strides=[160], kernel_shape=[400]>(f, w) y = Add(c, v)",
        "float[N,T] x",
        f"int64[1] a = {{1}}, {weights(w=(1, 1, 400), v=(1, 98))}",
    ),
    "blocks": ("y = DepthToSpace<blocksize=2>(x)", "float[N,C,H,W] x", ""),
    "frames of no usual length": (
        "f = Unsqueeze(x, a) c = Conv<strides=[160], kernel_shape=[400]>(f, w) y = Add(c, v)",
        "float[N,T] x",
        f"int64[1] a = {{1}}, {weights(w=(1, 1, 400), v=(1, 71))}",
    ),
    "positions": (
        "s = Shape(i) t = Gather(s, one) r = Range(zero, t, one) y = Gather(w, r)",
        "int64[N,T] i",
        f"int64 one = {{1}}, int64 zero = {{0}}, {weights(w=(2, 3))}",
    ),
    "a state": (
        "_, y = GRU<hidden_size=2>(x, w, r, , , h)",
        "float[T,B,I] x, float[1,C,2] h",
        weights(w=(1, 6, 40), r=(1, 6, 2)),
    ),
    "lengths": (
        "_, y = RNN<hidden_size=1>(x, w, r, , l)",
        "float[2,5,3] x, int32[L] l",
        weights(w=(1, 1, 3), r=(1, 1, 1)),
    ),
    "a past": ("a = Concat<axis=1>(p, x) y = Add(a, m)", "float[N,P,4] p, float[N,T,4] x, float[N,S,4] m", ""),
    "a factor": ("d = Div(t, s) k = Cast<to=7>(d) y = Expand(x, k)", "float[1] s, float[1,3] x", "float[1] t = {20}"),
    "all but the first": ("y = TopK(x, k)", "float[N,T] x", "int64[1] k = {300}"),
}


UNTOLD = {("a MatMul", 27), ("strides", 27), ("a reflecting Pad", 17)}
"""Demands that errors of onnx.reference do not show, which runs opset 27 for an old onnxruntime, and a Pad by more than
there is to reflect, for which onnxruntime before 1.25 returns what lies behind its input in memory."""
MARKS = dict.fromkeys(UNTOLD, pytest.mark.newest) | {("windows", 17): pytest.mark.long}


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("demand", "opset"),
    [
        pytest.param(*row, marks=MARKS.get(row, ()))
        for row in pairs.in_turn(DEMANDS, [17, 27])  # onnxruntime runs it, or the reference
    ],
)
def test_what_a_graph_demands_is_found(demand, opset):
    body, taken, constants = DEMANDS[demand]
    outputs = "float y, float z" if " z = " in body else "float y, int64 j" if "TopK" in body else "float y"
    source = model(body.replace("y = TopK", "y, j = TopK"), opset, inputs=taken, outputs=outputs, constants=constants)
    found = opshift.verify(source, source)
    assert (found.status, found.why) == ("equal", "")


@pytest.mark.usefixtures("in_this_process")
def test_what_fits_at_once_is_not_looked_for(monkeypatch):
    monkeypatch.setattr(search.Search, "find", lambda *_: pytest.fail("it fits"))
    source = model("y = Gather(w, i)", 17, inputs="int64[N] i", outputs="float[N,3] y", constants=weights(w=(2, 3)))
    assert opshift.verify(source, source).runs == 3


RATES = (
    "b = Equal(rate, r) y = If(b) <then_branch = t () => (float[A,B] u) { u = Reshape(x, s) }, "
    "else_branch = e () => (float[A,B] v) { v = Reshape(x, t) }>"
)
HELD = "int64 r = {16000}, int64[2] s = {-1, 512}, int64[2] t = {-1, 320}"


@pytest.mark.usefixtures("in_this_process")
def test_each_constant_that_an_input_is_compared_with_has_its_turn():
    """Both branches run, each on a size that it takes."""
    source = model(RATES, 17, inputs="float[N,T] x, int64 rate", outputs="float[A,B] y", constants=HELD)
    first, second, third = opshift.verify(source, source).inputs
    assert (first["rate"], second["rate"] != 16000, third["rate"]) == (16000, True, 16000)
    assert [held["x"][0] for held in (first, second, third)] == [1, 2, 3]
    assert [held["x"][1] % size for held, size in ((first, 512), (second, 320), (third, 512))] == [0, 0, 0]


def test_sizes_are_looked_for_before_other_numbers():
    """The other branch takes any size, and the number 1."""
    source = model(RATES.replace("Reshape(x, t)", "Exp(x)"), 17, inputs="float[N,T] x, int64 rate", outputs="float[A,B] y", constants=HELD)  # fmt: skip
    first = opshift.verify(source, source).inputs[0]
    assert (first["rate"], first["x"][1] % 512) == (16000, 0)


@pytest.mark.usefixtures("in_this_process")
def test_what_differs_behind_a_constant_is_seen():
    """No random number would be 16000."""
    body = "c = Equal(rate, r) f = Cast<to=1>(c) {} y = Add(x, g)"
    io = {"inputs": "float[N] x, int64 rate", "outputs": "float[N] y", "constants": "int64 r = {16000}"}
    before, after = (model(body.format(text), 17, **io) for text in ("g = Neg(f)", "g = Abs(f)"))
    assert opshift.verify(before, after).status == "different"


@pytest.mark.usefixtures("in_this_process")
def test_sums_of_sizes_are_computed():
    source = model(
        "a = Concat<axis=1>(p, x) y = Add(a, m)",
        17,
        inputs="float[N,P] p, float[N,T] x, float[N,S] m",
        outputs="float y",
    )
    source.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "P + T"
    assert opshift.verify(source, source).inputs[1] == {"p": [2, 24], "x": [2, 32], "m": [2, 56]}


@pytest.mark.usefixtures("in_this_process")
def test_indices_cover_the_table():
    """Of 50 entries the last differs."""
    io = {"inputs": "int32[200] i", "outputs": "float[200] y"}
    tables = (f"float[50] w = {{{', '.join(map(str, (*range(49), last)))}}}" for last in (49, 50))
    before, after = (model("c = Cast<to=7>(i) y = Gather(w, c)", 17, constants=table, **io) for table in tables)
    assert opshift.verify(before, after).status == "different"


@pytest.mark.long
def test_what_nothing_fits_is_unverified_in_reasonable_time(monkeypatch):
    monkeypatch.setattr(search, "_TRIES", 50)
    held = "int64[2] s = {-1, 7}, int64[2] t = {11, 13}"
    source = model("a = Reshape(x, s) y = Reshape(a, t)", 17, inputs="float[N,3] x", outputs="float y", constants=held)
    found = opshift.verify(source, source)
    assert (found.status, found.engine) == ("equal", ""), "nothing differs, and nothing was run"
    assert "onnxruntime: found no inputs that the first model accepts" in found.why


@pytest.mark.usefixtures("in_this_process")
def test_sizes_are_not_looked_for_where_they_cannot_help():
    """The kernel has 5 channels, whatever size the image has."""
    body, constants = "a = Abs(x) y = Conv(a, w)", weights(w=(2, 5, 3, 3))
    source = model(body, 17, inputs="float[N,3,H,W] x", outputs="float y", constants=constants)
    session, runs = OnnxRuntime(search.name_nodes_by_number(source)), []
    problem = inputs.problem_of(source, DRAWN)
    with pytest.raises(NeverRuns, match=r"Conv node.* C: 3 kernel channels: 5 group: 1$"):
        search.Search(problem, lambda given: runs.append(0) or session.run(given)).find(search.Choice())
    assert len(runs) < 20
    found = opshift.verify(source, source)
    assert (found.status, found.engine) == ("equal", "")
    assert "found no inputs that the first model accepts, at any size" in found.why


def test_a_try_that_ends_the_process_is_no_fit(monkeypatch):
    monkeypatch.setattr(search.Search, "find", lambda *_: os.kill(os.getpid(), signal.SIGSEGV))
    source = model("y = Reshape(x, s)", 17, inputs="float[N] x", outputs="float y", constants="int64[2] s = {-1, 7}")
    assert verify_apart(Side(source), Side(source)).engine == ""


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_indices_of_another_axis_cover_it(axis):
    """All of a small table, and nothing beyond."""
    of = model(f"y = Gather<axis = {axis}>(w, i)", 17, constants="float[2,3] w = {1, 2, 3, 4, 5, 6}",
               inputs="int64[40] i", outputs="float[A,B] y")  # fmt: skip
    drawn = next(inputs.running(Side(of), Side(of).open().run, DRAWN)).given["i"]
    assert set(drawn.tolist()) == set(range(2 if axis == 0 else 3))


@pytest.mark.parametrize("shape", ["", "1", "2", "3", "1,1", "2,2"])
@pytest.mark.parametrize("seed", range(6))
def test_few_numbers_are_of_both_signs(shape, seed):
    """Otherwise a Relu, an Abs or a Clip that is gone may go unnoticed."""
    kind = f"float[{shape}]" if shape else "float"
    before = model("y = Relu(x)", 18, inputs=f"{kind} x, float[4] z", outputs=f"{kind} y")
    after = model("y = Identity(x)", 18, inputs=f"{kind} x, float[4] z", outputs=f"{kind} y")
    sides = Side(before), Side(after)
    assert verify_sides(*sides, grade="close", wanted=read_options(seed=seed)).status == "different"


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("kind", ["float", "float16"])
@pytest.mark.parametrize("shape", ["N,3", "64", "1,3,4,4"])
@pytest.mark.parametrize("grade", ["exact", "close"])
def test_numbers_lie_beyond_the_bounds_that_networks_have(kind, shape, grade):
    """A Relu6 is no Relu, and what is cut at 6 is not what it was."""
    io = {"inputs": f"{kind}[{shape}] x", "outputs": f"{kind}[{shape}] y"}
    held = f"{kind} z = {{0}}, {kind} s = {{6}}, {kind} m = {{-6}}"
    few = shape == "N,3"  # of which no number may be below -6
    for before, after in (("Relu(x)", "Clip(x, z, s)"), ("Identity(x)", "Max(x, m)"))[: 1 if few else 2]:
        one, other = (model(f"y = {text}", 18, constants=held, **io) for text in (before, after))
        assert opshift.verify(one, other).status == "different"


@pytest.mark.usefixtures("in_this_process")
def test_numbers_lie_near_a_threshold():
    io = {"inputs": "float[4,64] x", "outputs": "float[4,64] y"}
    one, other = (model(f"y = {text}(x)", 18, **io) for text in ("Relu", "ThresholdedRelu<alpha=0.001>"))
    assert opshift.verify(one, other).status == "different"


def test_numbers_that_are_too_large_for_a_model_are_not_taken():
    """Where the run would show nothing but infinities."""
    source = model("a = Mul(x, x) b = Mul(a, a) y = Mul(b, b)", 18, inputs="float16[64] x", outputs="float16[64] y")
    side = Side(source)
    found = list(inputs.running(side, side.open().run, read_options()))
    assert len(found) == 2
    assert all(np.isfinite(fed.outputs[0]).all() for fed in found)
    assert all(np.abs(fed.given["x"]).max() < 6 for fed in found)
