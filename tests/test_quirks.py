"""Each quirk is still one: its engine computes otherwise than the text, and only there it is excused."""

from typing import Any

import numpy as np
import onnx.parser
import pytest

from opshift.verification.engines import ENGINES, EngineError
from tests.conditions import never
from tests.conformance.engines import Raised
from tests.quirks import HELD, QUIRKS, excuse
from tests.quirks.entry import REFERENCE, RUNTIME, Quirk
from tests.support import model

NAMED = "{0.engine} {0.operators[0]} {0.when}".format
BY_NAME = {engine.engine: engine for engine in (*ENGINES, Raised)}


SHOWN = [quirk for quirk in QUIRKS if quirk.shows]
UNSTEADY = [quirk for quirk in QUIRKS if not quirk.shows]


@pytest.mark.newest
@pytest.mark.parametrize("quirk", SHOWN, ids=NAMED)
def test_the_engine_computes_otherwise_until_it_is_mended(quirk: Quirk):
    of, feeds = quirk.evidence.model, quirk.evidence.feeds
    try:
        outputs = BY_NAME[quirk.engine](of).run(feeds)
    except EngineError:
        assert (quirk.gives, quirk.holds) == ("refuses it", True)
        return
    assert all(alike(*pair) for pair in zip(quirk.evidence.right, outputs, strict=True)) is not quirk.holds


@pytest.mark.parametrize("quirk", UNSTEADY, ids=NAMED)
def test_what_no_run_shows_another_engine_computes(quirk: Quirk):
    assert quirk.engine == RUNTIME
    assert all(map(alike, quirk.evidence.right, BY_NAME[REFERENCE](quirk.evidence.model).run(quirk.evidence.feeds)))


def alike(right: Any, actual: Any) -> bool:
    if right.dtype != np.float32:
        return np.array_equal(actual, right)
    return np.shape(actual) == right.shape and np.allclose(actual, right, rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.parametrize("quirk", HELD, ids=NAMED)
def test_it_is_excused_there(quirk: Quirk):
    if quirk.applies is never:  # it hangs on more than one call
        assert not excuse(quirk.engine, quirk.evidence.model, quirk.evidence.feeds)
        return
    assert quirk.when in excuse(quirk.engine, quirk.evidence.model, quirk.evidence.feeds, quirk.only)


UNIQUE = {"inputs": "float[3] x", "outputs": "float[N] y"}
ROOTS = "r = Sqrt(x) y = Unique(r)"
FED = {"x": np.array([4, -1, 1], np.float32)}
RIGHT = {"x": np.abs(FED["x"])}


def test_what_is_computed_on_the_way_counts():
    of = model(ROOTS, 13, **UNIQUE)
    assert "NaN" in excuse("onnxruntime", of, FED)
    assert not excuse("onnxruntime", of, RIGHT)


@pytest.mark.parametrize(("size", "refused"), [(0, True), (3, False)])
def test_what_comes_before_a_node_that_no_engine_runs_counts(size, refused):
    """Its sizes are not told by inference."""
    body = "a = Relu(x) b = Reshape<allowzero=1>(a, n) c = GroupNormalization<num_groups=1>(b, s, t) y = Neg(c)"
    io = {"inputs": "float[N,M] x, int64[4] n, float[2] s, float[2] t", "outputs": "float[A,B,C,D] y"}
    of = model(body, 21, **io)
    sizes, ones = np.array([1, 2, 1, size]), np.ones(2, np.float32)
    feeds = {"x": np.ones((2, size), np.float32), "n": sizes, "s": ones, "t": ones}
    assert ("there is no element" in excuse("onnxruntime", of, feeds)) is refused


def test_without_inputs_the_model_alone_counts():
    assert not excuse("onnxruntime", model(ROOTS, 13, **UNIQUE))
    held = model("y = Unique(k)", 13, constants="float[1] k = {nan}", **UNIQUE)
    assert excuse("onnxruntime", held)
    assert excuse("onnx.reference", model("y = Softmax(x)", 12, **UNIQUE))


def test_types_differ_where_both_are_known():
    io = {"inputs": "float[3] x", "outputs": "uint8[3] y"}
    of = model("y = QuantizeLinear(x, s)", 23, constants="float s = {1}", **io)
    assert not excuse("onnx.reference", of)
    assert not excuse("onnx.reference", of, RIGHT)
    other = model("y = QuantizeLinear(x, s)", 23, constants="bfloat16 s = {1}", **io)
    assert excuse("onnx.reference", other, RIGHT)


def test_another_engine_and_another_opset_are_not_excused():
    old, new = (model("y = Softmax(x)", opset, **UNIQUE) for opset in (12, 13))
    assert excuse("onnx.reference", old, FED)
    assert not excuse("onnxruntime", old, FED)
    assert not excuse("onnx.reference", new, FED)


@pytest.mark.parametrize(("axes", "excused"), [("-2, -1", True), ("0, 2, 1", True), ("0, 2", False), ("-1", False)])
def test_several_axes_from_the_end_are_told_from_one(axes: str, excused: bool):
    of = model(f"y = Unsqueeze<axes=[{axes}]>(x)", 11, inputs="float[2] x", outputs="float[N] y")
    assert bool(excuse("onnx.reference", of, {"x": np.ones(2, np.float32)})) is excused


@pytest.mark.parametrize(
    ("kind", "bias", "excused"),
    [("int32", "1e-5", True), ("int32", "1.0", False), ("uint16", "1e-5", False), ("int32", "-1e-5", True)],
)
def test_a_bias_beside_a_large_number_is_told(kind: str, bias: str, excused: bool):
    of = model(f"y = Shrink<bias={bias}>(x)", 9, inputs=f"{kind}[1] x", outputs=f"{kind}[1] y")
    x = np.array([2**24 - 1 if kind == "int32" else 2**16 - 1], kind)
    assert bool(excuse("onnxruntime", of, {"x": x}, "elements differ")) is excused


def test_numbers_that_a_scan_reads_one_by_one_count():
    of = model(
        "y = Scan<num_scan_inputs=1, body = b (float h) => (float[2] r) { r = Clip(x, h) }>(m)", 11,
        inputs="float[2] x, float[3] m", outputs="float[3,2] y",
    )  # fmt: skip
    fed = {"x": np.ones(2, np.float32), "m": np.float32([1, np.inf, 2])}
    assert "no bound" in excuse("onnx.reference", of, fed, "elements differ")
    assert not excuse("onnx.reference", of, fed | {"m": np.ones(3, np.float32)}, "elements differ")


def test_an_axis_that_is_named_twice_is_one():
    of = model("y = ReduceLogSumExp(x, a)", 28, inputs="float[1,2] x, int64[2] a", outputs="float[A,B] y")
    feeds = {"x": np.float32([[720, 0]]), "a": np.array([1, -1])}
    assert "beyond 64 bits" in excuse("onnxruntime", of, feeds, "elements differ")


@pytest.mark.parametrize(("each", "excused"), [(1, True), (0, False)])
def test_where_no_axis_is_reduced_each_number_is_a_sum(each: int, excused: bool):
    body = f"y = ReduceLogSumExp<noop_with_empty_axes={each}>(x)"
    of = model(body, 28, inputs="float[2] x", outputs="float[A] y")
    fed = {"x": np.float32([np.inf, 720])}
    assert ("beyond 64 bits" in excuse("onnxruntime", of, fed, "elements differ")) is excused


@pytest.mark.newest
@pytest.mark.parametrize(
    ("carried", "excused"), [("Identity(s)", True), ("Identity(x)", True), ("Where(q, s, x)", False)]
)
def test_strings_that_a_loop_carries_as_they_are_count(carried: str, excused: bool):
    of = model(
        "_, y = Loop(n, , x) <body = b (int64 i, bool t, string[1] s) => (bool u, string[1] w, string[1] v) "
        f"{{ u = Identity(t) v = Identity(s) w = {carried} }}>",
        16, inputs="int64 n, string[1] x, bool[1] q", outputs="string[A,B] y",
    )  # fmt: skip
    assert bool(excuse("onnxruntime", of)) is excused
    fed = {"n": np.array(3), "x": np.array(["a"], object), "q": np.array([True])}
    (stacked,) = BY_NAME[RUNTIME](of).run(fed)
    assert (stacked.reshape(-1).tolist() == ["a"] * 3) is not excused


def test_a_call_that_is_none_has_no_quirk():
    of = model("y = MaxPool<kernel_shape=[1]>(x)", 12, inputs="float[2] x", outputs="float[N] y")
    assert not excuse("onnxruntime", of, {"x": np.ones(2, np.float32)})


def test_an_engine_by_a_longer_name_is_the_same_engine():
    assert excuse("onnxruntime, rounding as written", model(ROOTS, 13, **UNIQUE), FED)


def test_subgraphs_and_functions_count_with_their_own_opset():
    inside = "y = If(c) <then_branch = t () => (float[M] a) { a = Softmax(x) }, else_branch = e () => (float[M] b) { b = Abs(x) }>"
    io = {"inputs": "bool c, float[3] x", "outputs": "float[N] y"}
    assert excuse("onnx.reference", model(inside, 11, **io))
    for inner, excused in ((12, True), (13, False)):
        text = f'<ir_version: 8, opset_import: ["" : 11, "f" : 1]> g (float[3] x) => (float[3] y) {{ y = f.F(x) }} <domain: "f", opset_import: ["" : {inner}]> F (x) => (y) {{ y = Softmax(x) }}'
        assert bool(excuse("onnx.reference", onnx.parser.parse_model(text))) is excused
