"""The same where a function hands on what its calls leave out, to functions that it calls itself."""

import numpy as np
from opshift.passes.conversion import convert

import opshift
from opshift.verification.engines import OnnxRuntime
from tests.passes.analysis.test_formals import FEEDS, SPLIT, check, inlined, model, to, without, written


def test_what_is_handed_on_hangs_on_the_first_call():
    source = model(17, "y = f.G(x, x, s)", "x, s", "(x)", "(x, parts)", more=SPLIT)
    for target in (18, 21, 12):
        check(source, to(target))
    result = check(source, to(18))
    assert [f.name for f in result.functions] == ["F", "F_without_s", "G", "G_without_c"]
    assert written(result)["F_without_s"] == [("G_without_c", "x", "x")]
    assert written(result)["F"] == [("G", "x", "x", "s")]


def test_a_function_that_hands_nothing_on_stays_one():
    source = model(17, "y = f.G(x, x)", "x, s", "(x)", "(x, parts)", more=SPLIT)
    assert [f.name for f in check(source, to(18)).functions] == ["F", "G"]


def test_what_is_handed_on_of_attributes():
    inner = (
        '<opset_import: ["": 19], domain: "f"> G <r> (a) => (b) { t = Cast<to = 1>(a) b = Elu<alpha: float = @r>(t) }'
    )
    source = model(19, "y = f.G<r: float = @p>(x)", "x", "(x)", "<p = 0.5>(x)", attributes="<p>", more=inner)
    for verb in (
        without("Elu"),
        to(15),
        without("f::G"),
        without("f::F"),
        without("f::F", "f::G", "Elu"),
        opshift.optimize,
    ):
        check(source, verb)
    assert [f.name for f in check(source, without("Elu")).functions] == ["F", "F_without_p", "G", "G_without_r"]
    assert [f.name for f in check(source, without("f::F", "Elu")).functions] == ["G", "G_without_r"]


def test_a_default_takes_the_place_of_what_a_callers_caller_does_not_bind():
    """A reference to what is not bound binds nothing; onnx's inliner knows no defaults: here they are given."""
    inner = '<opset_import: ["": 19], domain: "f"> G <r: float = 0.25> (a) => (b) { t = Cast<to = 1>(a) b = Elu<alpha: float = @r>(t) }'
    source = model(19, "y = f.G<r: float = @p>(x)", "x", "(x)", "<p = 0.5>(x)", attributes="<p>", more=inner)
    told = model(19, "y = Elu<alpha: float = @p>(x)", "x", "<p = 0.25>(x)", "<p = 0.5>(x)", attributes="<p>")
    expected = OnnxRuntime(inlined(told)).run(FEEDS)
    for verb in (
        without("f::F", "f::G"),
        without("f::G"),
        without("f::G", "Elu"),
        lambda of: convert.attempt(of, {"": 15}, ir_version=7).model,
    ):
        for one, other in zip(expected, OnnxRuntime(inlined(verb(source))).run(FEEDS), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-6)


def test_a_default_is_bound_unless_another_value_is():
    body = "t = Cast<to = 1>(x) y = Elu<alpha: float = @p>(t)"
    source = model(19, body, "x", "(x)", "<p = 0.5>(x)", attributes="<p: float = 0.25>")
    result = opshift.inline(source, ["Elu"])
    assert len(result.functions) == 1
    told = model(19, "y = Elu<alpha: float = @p>(x)", "x", "<p = 0.25>(x)", "<p = 0.5>(x)", attributes="<p>")
    for one, other in zip(*(OnnxRuntime(m).run(FEEDS) for m in (inlined(told), result)), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)
