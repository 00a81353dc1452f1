"""The judge itself: it finds what is wrong, excuses nothing, and says by which run it judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import ModelProto
from opshift.passes import changes
from opshift.passes.conversion import convert

from opshift.verification.engines import EngineError, Reference
from tests.conformance import draws
from tests.conformance.agreement import mismatch
from tests.conformance.cases import Case
from tests.conformance.engines import AsWritten, Evaluator
from tests.conformance.judge import CRASHED, INVALID, NOT_VALID, OK, OK_BY_SOURCE, REFUSED, UNJUDGED, WRONG, judge
from tests.conformance.oracle import truth
from tests.runtime import Runtime, newest_loaded, restamped
from tests.support import model

X = np.array([-2.0, -0.5, 1.0, 3.0], np.float32)
IO = {"inputs": "float[4] x", "outputs": "float[4] y"}
ABS = Case("abs", "0", model("y = Abs(x)", 13, **IO), {"x": X}, [np.abs(X)])
OUTDATED = replace(ABS, outputs=[np.abs(X) + 1])  # what no engine computes

AT_28 = "onnxruntime" if newest_loaded() >= 28 else f"onnxruntime at {newest_loaded()}"

Broken = Callable[[ModelProto], None]


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Callable[[Broken], None]:
    """The converter does something to every model that it should not."""
    honest = convert.attempt

    def install(change: Broken) -> None:
        def attempt(*args: Any, **options: Any) -> changes.Result:
            result = honest(*args, **options)
            assert result.model is not None
            change(result.model)
            return result

        monkeypatch.setattr(convert, "attempt", attempt)

    return install


def negated(broken: ModelProto) -> None:
    broken.graph.node[0].op_type = "Neg"


@pytest.mark.parametrize(("case", "target", "status", "engine"), [
    (ABS, 7, OK, "onnxruntime"),
    (ABS, 28, OK, AT_28),
    (OUTDATED, 7, OK_BY_SOURCE, "onnxruntime, rounding as written"),
    (replace(ABS, inputs={}), 7, UNJUDGED, ""),
    (replace(ABS, model=model("y = Mish(x)", 22, **IO), outputs=[X]), 13, OK_BY_SOURCE, "onnxruntime, rounding as written"),
])  # fmt: skip
def test_a_sound_conversion_is_ok_where_an_engine_runs_it(case: Case, target: int, status: str, engine: str):
    verdict = judge(case, target)
    assert (verdict.status, verdict.engine) == (status, engine), verdict.why


@pytest.mark.parametrize("case", [ABS, OUTDATED])
@pytest.mark.parametrize("target", [7, 28])
def test_an_unsound_conversion_is_wrong_by_either_judge(case: Case, target: int, breaking: Callable[[Broken], None]):
    breaking(negated)
    assert judge(case, target).status == WRONG


def test_what_the_checker_rejects_is_invalid(breaking: Callable[[Broken], None]):
    breaking(lambda broken: broken.graph.node[0].ClearField("input"))
    assert judge(ABS, 7).status == INVALID


def test_an_error_of_the_converter_is_a_crash(breaking: Callable[[Broken], None]):
    breaking(lambda _: {}["no such key"])
    assert judge(ABS, 7).status == CRASHED


def test_a_refusal_is_reported_with_its_boundary_and_reason():
    narrow = model("y = Cast<to=1>(x)", 21, inputs="int4[4] x", outputs="float[4] y")
    found = judge(replace(ABS, model=narrow), 13)
    assert found.status == REFUSED
    assert found.why == "value opset 21 -> 20: tensor(int4) does not exist at opset 13"


def test_a_published_model_that_is_not_valid_is_neither_refused_nor_unjudged():
    wrong_type = replace(ABS, model=model("y = Abs(x)", 13, inputs="float[4] x", outputs="double[4] y"))
    assert judge(replace(wrong_type, inputs={}), 7).status == NOT_VALID
    too_early = replace(ABS, model=model("y = Mish(x)", 13, **IO))
    assert judge(too_early, 15).status == NOT_VALID


def test_onnx_reference_is_not_asked_about_versions_that_it_does_not_know():
    rows = {"inputs": "float[2,3] x, float[2] b", "outputs": "float[2,3] y"}
    for broken in (model("y = Add<axis=0, broadcast=1>(x, b)", 6, **rows), model("y = Softmax(x)", 11, **rows)):
        with pytest.raises(EngineError):
            Evaluator(broken)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(Evaluator(model("y = Softmax(x)", 13, **rows)).run({"x": x, "b": x[:, 0]})[0], x / 3)


# --- numbers drawn at random --------------------------------------------------------------------------------

P = np.array([0.0, 0.1, 0.5, 0.9, 1.0], np.float32)
DRAWN = {"inputs": "float[5] p", "outputs": "float[5] y"}
ONES = "u = RandomUniformLike<seed=1.0>(p) l = Less(u, p) y = Cast<to=1>(l)"  # 1 with the probability p
COINS = Case("coins", "0", model(ONES, 15, **DRAWN), {"p": P}, [P])


def test_draws_of_one_distribution_are_ok():
    others = model(
        "u = RandomUniformLike<low=-1.0, high=0.0>(p) n = Neg(u) l = Less(n, p) y = Cast<to=1>(l)", 15, **DRAWN
    )
    assert not draws.difference(Runtime, COINS, others)
    verdict = judge(COINS, 21)
    assert verdict.status == OK_BY_SOURCE, verdict.why


@pytest.mark.parametrize(("body", "complaint"), [
    ("u = RandomUniformLike(p) l = Less(p, u) y = Cast<to=1>(l)", "standard errors"),
    ("u = RandomUniformLike(p) l = Less(u, p) f = Cast<to=1>(l) y = Sub(f, p)", "values"),
    ("u = RandomUniformLike(p) l = Less(u, p) y = Cast<to=11>(l)", "float64"),
    ("u = RandomUniformLike(p) l = Less(u, p) f = Cast<to=1>(l) y = Concat<axis=0>(f, f)", "[10] instead of"),
])  # fmt: skip
def test_draws_of_another_distribution_are_wrong(body: str, complaint: str):
    outputs = "double[5] y" if "to=11" in body else "float[N] y"
    made = model(body, 15, inputs="float[5] p", outputs=outputs)
    assert complaint in draws.difference(Runtime, COINS, made)


@pytest.mark.long
def test_an_engine_that_draws_with_the_opposite_probability_is_no_judge():
    tossed = replace(COINS, model=model("y = Bernoulli(p)", 15, **DRAWN))
    with pytest.raises(EngineError, match="draws a 1 with the probability 1 - p"):
        draws.difference(Runtime, tossed, tossed.model)
    assert not draws.difference(Reference, tossed, COINS.model)
    verdict = judge(tossed, 14)
    assert (verdict.status, verdict.engine) == (OK_BY_SOURCE, "onnx.reference"), verdict.why


def test_a_model_that_draws_nothing_is_not_judged_by_draws():
    assert draws.is_random(COINS.model)
    assert not draws.is_random(ABS.model)
    with pytest.raises(EngineError, match="every run draws the same"):
        draws.difference(Runtime, ABS, ABS.model)


# --- the engines --------------------------------------------------------------------------------------------


def test_a_model_is_stamped_lower_only_where_its_operators_are_the_same():
    with pytest.raises(EngineError, match="Cast changed at opset 28"):
        restamped(model("y = Cast<to=1>(x)", 28, **IO), 26)
    inside = "y = If(c) <then_branch = t () => (float[4] a) { a = Cast<to=1>(x) }, else_branch = e () => (float[4] b) { b = Abs(x) }>"
    with pytest.raises(EngineError, match="Cast changed at opset 28"):
        restamped(model(inside, 28, inputs="bool c, float[4] x", outputs="float[4] y"), 26)
    source = model("y = Abs(x)", 28, **IO)
    lower = restamped(source, 26)
    assert [i.version for i in lower.opset_import] == [26]
    assert [i.version for i in source.opset_import] == [28]


def test_every_rounding_that_is_written_is_done():
    by = model(
        "a = Mul(x, s) y = Sub(a, t)", 14, inputs="float16[1] x, float16[1] s, float16[1] t", outputs="float16[1] y"
    )
    x, s, t = (np.array([value], np.float16) for value in (1.005, 1.005, 1.0))
    assert (x * s) - t != ((x.astype(np.float32) * s) - t).astype(np.float16), "the first rounding must matter"
    assert AsWritten(by).run({"x": x, "s": s, "t": t}) == [(x * s) - t]


# --- tolerances ---------------------------------------------------------------------------------------------

NOISY = np.array([4.0, 4.0, 0.0], np.float32), np.array([1.0, -1.0, 0.0], np.float32)
SUM = Case(
    "sum", "0", model("y = Add(a, b)", 14, inputs="float[3] a, float[3] b", outputs="float[3] y"),
    dict(zip("ab", NOISY, strict=True)), [np.array([5.0, 3.0, 2e-7], np.float32)],
)  # fmt: skip


@pytest.mark.parametrize(("last", "alike"), [(0.0, True), (-2e-7, True), (-2.2e-7, False), (1e-3, False)])
def test_noise_is_allowed_only_as_far_as_the_published_outputs_are_from_the_truth(last: float, alike: bool):
    actual = [np.array([5.0, 3.0, last], np.float32)]
    assert (mismatch(SUM, actual, rounded=True) == "") is alike
    assert mismatch(SUM, actual), "without a change of rounding there is no allowance"


def test_no_noise_is_allowed_where_the_published_outputs_are_wrong():
    case = replace(SUM, outputs=[np.array([5.0, 3.0, 2e-3], np.float32)])
    assert mismatch(case, [np.array([5.0, 3.0, 0.0], np.float32)], rounded=True)


def test_the_truth_is_computed_in_float64():
    third = onnx.numpy_helper.from_array(np.float32([3.0]), "three")
    case = Case("third", "0", model("y = Div(x, three)", 14, constants="float[1] three = {3}", **IO), {"x": X}, [X / 3])
    assert third.data_type == case.model.graph.initializer[0].data_type
    (exact,) = truth(case) or [None]
    assert exact is not None
    assert exact.dtype == np.float64
    np.testing.assert_array_equal(exact, X.astype(np.float64) / 3)
