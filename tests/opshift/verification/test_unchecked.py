"""Where an older onnxruntime reflects more than there is, or overflows, a run fails, whatever lies in memory."""

import numpy as np
import onnx.parser
import pytest

from opshift.verification.engines import EngineError, OnnxRuntime, Reference
from opshift.verification.unchecked import add_checks
from tests.support import model

PADS = "int64[4] p = {0, 4, 0, 2}, int64[2] q = {4, 2}, int64[1] a = {-1}"
FORMS = {
    "an attribute": ('y = Pad<mode="reflect", pads=[0, 4, 0, 2]>(x)', 10),
    "a constant": ('y = Pad<mode="reflect">(x, p)', 13),
    "axes": ('y = Pad<mode="reflect">(x, q, , a)', 18),
    "lengths at run time": ('r = Identity(p) y = Pad<mode="reflect">(x, r)', 18),
    "a branch": (
        'y = If(c) <then_branch = t () => (float[N,M] u) { u = Pad<mode="reflect">(x, p) }, '
        "else_branch = e () => (float[N,M] v) { v = Identity(x) }>",
        18,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [3, 4, 5])
def test_a_run_fails_where_the_reflection_is_longer_than_the_axis(form, size):
    body, opset = FORMS[form]
    source = model(body, opset, inputs="float[N,T] x, bool c", outputs="float[N,U] y", constants=PADS)
    given = {"x": np.arange(2.0 * size, dtype=np.float32).reshape(2, size), "c": np.array(True)}
    (expected,) = Reference(source).run(given)
    assert np.array_equal(expected, np.pad(given["x"], ((0, 0), (4, 2)), "reflect"))
    for engine, made in ((Reference, add_checks(source, "1.24.4")), (OnnxRuntime, source)):
        if size > 4:
            assert np.array_equal(engine(made).run(given)[0], expected)
        else:
            with pytest.raises(EngineError):
                engine(made).run(given)


def test_an_empty_axis_that_is_not_padded_is_as_good_as_any():
    source = model('y = Pad<mode="reflect">(x, p)', 13, inputs="float[N,T] x", outputs="float[N,U] y", constants=PADS)
    (made,) = OnnxRuntime(source).run({"x": np.zeros((0, 5), np.float32)})
    assert made.shape == (0, 11)


def test_a_function_reflects():
    source = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18, "my": 1]> g (float[N,T] x) => (float[N,U] y) { y = my.Padded(x) } '
        '<domain: "my", opset_import: ["": 18]> Padded (x) => (y) '
        '{ p = Constant<value_ints=[0, 4, 0, 2]>() y = Pad<mode="reflect">(x, p) }'
    )
    assert Reference(source).run({"x": np.zeros((2, 4), np.float32)})[0].shape == (2, 10)
    with pytest.raises(EngineError):
        Reference(add_checks(source, "1.17.3")).run({"x": np.zeros((2, 4), np.float32)})


@pytest.mark.parametrize(
    ("body", "version"), [('y = Pad<mode="reflect">(x, p)', "1.25.0"), ('y = Pad<mode="edge">(x, p)', "1.24.4")]
)
def test_what_is_checked_or_cannot_fail_stays_as_it_is(body, version):
    source = model(body, 18, inputs="float[N,T] x", outputs="float[N,U] y", constants=PADS)
    assert add_checks(source, version) is source


@pytest.mark.parametrize(
    ("rule", "shape", "axis", "scale", "runs"),
    [
        ("opset=13", (2, 1), -1, 1 / 256, False),
        ("opset=13", (2, 1), 0, 1 / 256, True),
        ("opset=13", (2, 1, 3), 1, 1 / 256, False),
        ("opset=13", (2, 1), 1, 1 / 100, True),
        ("opset=13", (3, 2), 1, 1 / 400, False),
        ("opset=12", (3, 1, 1), 1, 1 / 256, False),
        ("opset=12", (3, 1, 2), -2, 1 / 256, True),
    ],
)
def test_a_softmax_whose_exponentials_overflow_fails(rule, shape, axis, scale, runs):
    source = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]> '
        f"g (uint8[{','.join('NTU'[: len(shape)])}] x, float s) => (uint8[{','.join('ABC'[: len(shape)])}] y) "
        f"<float xs = {{0.1}}, uint8 z = {{0}}> {{ y = com.microsoft.QLinearSoftmax<{rule}, axis={axis}>(x, xs, z, s, z) }}"
    )
    given = {"x": np.zeros(shape, np.uint8), "s": np.array(scale, np.float32)}
    assert add_checks(source, "1.32.0") is source
    session = OnnxRuntime(add_checks(source, "1.31.1").SerializeToString())  # bytes are run as they are
    if runs:
        assert session.run(given)[0].any()
    else:
        with pytest.raises(EngineError, match="indices element out of data bounds"):
            session.run(given)
