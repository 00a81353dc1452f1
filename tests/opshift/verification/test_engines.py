"""What engines are given of a model, and how long they may take."""

import signal
import time

import numpy as np
import onnx.parser
import pytest

import opshift
from opshift.verification.engines import EngineError, OnnxRuntime, Reference, call_within
from tests.support import model


def test_an_output_without_a_name_is_no_value_of_inputs_that_are_left_out():
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 14, "f" : 1]> g (float[1,1,1] x, float[2] q, float c) => (float[2] y, float[1,1,1] h)
        { "", h = RNN<hidden_size=1>(x, x, x) y = f.F(q, c) }
        <domain: "f", opset_import: ["" : 14]> F (q, c) => (y) { y = Clip(q, "", c) }"""
    )
    given = {"x": np.ones((1, 1, 1), np.float32), "q": np.float32([-2, 9]), "c": np.array(5, np.float32)}
    kept = model.SerializeToString()
    for engine in (OnnxRuntime, Reference):
        np.testing.assert_array_equal(engine(model).run(given)[0], np.float32([-2, 5]))
    assert model.SerializeToString() == kept


def test_no_memory_is_planned_for_what_a_name_calls_as_large():
    """onnxruntime takes A and B to be what they were before the Slice of opset 10, and ends where it uses their memory again."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 10]> g (float[A,B] x) => (float[C,D] y, float[E,F] w)
        <int64[1] k = {0}, int64[1] a = {1}> { c = Exp(x) w = Neg(c) s = Slice(x, k, k, a) y = Exp(s) }"""
    )
    y, w = OnnxRuntime(model).run({"x": np.zeros((1, 2), np.float32)})
    assert y.shape == (1, 0)
    np.testing.assert_array_equal(w, np.float32([[-1, -1]]))


@pytest.mark.parametrize("body", ["y = GlobalAveragePool(x)", "y = ReduceMean(x)"])
def test_a_mean_of_nothing_is_no_number_and_no_warning(body):
    mean = model(body, 17, inputs="float[1,2,A,B] x", outputs="float[C,D,E,F] y")
    assert np.isnan(Reference(mean).run({"x": np.zeros((1, 2, 0, 3), np.float32)})[0]).all()


def test_a_graph_without_outputs_runs_and_yields_none():
    """onnxruntime takes no names for all of them."""
    source = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => () { y = Relu(x) }')
    session = OnnxRuntime(source, [])
    assert session.run({"x": np.zeros(2, np.float32)}) == []
    assert opshift.verify(source, opshift.convert_version(source, 13)).equal


@pytest.mark.posix
def test_a_call_ends_in_time():
    assert call_within(9, int, "7", base=8) == 7
    with pytest.raises(EngineError, match=r"it takes longer than 0\.01 s"):
        call_within(0.01, time.sleep, 9)


@pytest.mark.posix
def test_time_that_is_up_as_a_call_ends_is_no_crash(monkeypatch):
    handler, set_timer, rung = signal.getsignal(signal.SIGALRM), signal.setitimer, []

    def ring_at_the_end(which, seconds):
        if not seconds and not rung:
            rung.append(True)
            signal.raise_signal(signal.SIGALRM)
        return set_timer(which, seconds)

    monkeypatch.setattr(signal, "setitimer", ring_at_the_end)
    with pytest.raises(EngineError, match="it takes longer than 9 s"):
        call_within(9, list)
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (handler, (0, 0))


@pytest.mark.posix
def test_a_limit_within_a_limit():
    with pytest.raises(EngineError, match=r"it takes longer than 0\.05 s"):
        call_within(0.05, lambda: time.sleep(call_within(9, int, "9")))
