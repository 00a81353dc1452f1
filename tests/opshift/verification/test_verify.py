"""A proof runs in a process of its own, within a stated time; what ends that process is not proved."""

import os
import signal
import time

import pytest

import opshift
from opshift.verification import verify
from opshift.verification.engines import OnnxRuntime
from opshift.verification.feeding.asked import DRAWN, read_options
from opshift.verification.side import Side
from opshift.verification.verdict import OutputReport, Verification
from opshift.verification.verify import compare_models, verify_apart
from tests.support import model

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}
ROUNDED = "y = Exp(x)", "a = Neg(x) b = Exp(a) y = Reciprocal(b)"


def sides(one, other=None, opset=17, **io):
    return [Side(model(text, opset, **{**IO, **io})) for text in (one, other or one)]


def test_both_ways_tell_the_same():
    from opshift.verification.combined import verify_sides

    pair = sides(*ROUNDED)
    apart, here = verify_apart(*pair, grade="close"), verify_sides(*pair, grade="close")
    assert (apart.status, apart.outputs, apart.inputs) == (here.status, here.outputs, here.inputs)


@pytest.mark.long
@pytest.mark.posix
def test_a_model_that_ends_the_process_is_not_proved(monkeypatch):
    monkeypatch.setattr(OnnxRuntime, "run", lambda *_: os.kill(os.getpid(), signal.SIGSEGV))
    found = verify_apart(*sides("y = Exp(x)"))
    assert (found.status, found.regions) == ("unverified", ())
    assert "Segmentation fault" in found.why


@pytest.mark.long
@pytest.mark.posix
def test_a_proof_ends_in_time(monkeypatch):
    monkeypatch.setattr(verify, "SECONDS", 1)
    monkeypatch.setattr(OnnxRuntime, "run", lambda *_: time.sleep(60))
    started = time.perf_counter()
    found = verify_apart(*sides("y = Exp(x)"))
    assert found.status == "unverified"
    assert time.perf_counter() - started < 30
    assert found.why == "it took more than 1 s"


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("exact", "status"), [(False, "equal"), (True, "different")])
def test_the_same_values_or_the_same_function(exact, status):
    found = compare_models(*sides(*ROUNDED), DRAWN, exact=exact)
    assert found.status == status
    if exact:
        assert (found.tensor, found.why) == ("y", "other rounding, and --exact asks for the same values")
    assert compare_models(*sides("y = Exp(x)"), DRAWN, exact=exact).status == "equal"


@pytest.mark.usefixtures("in_this_process")
def test_rounding_inside_alone_is_told_at_its_part():
    """The outputs are the same, as Sign of what is rounded otherwise is."""
    found = compare_models(
        *sides("e = Exp(x) y = Sign(e)", "a = Neg(x) b = Exp(a) e = Reciprocal(b) y = Sign(e)"), DRAWN, exact=True
    )
    assert (found.status, found.tensor) == ("different", "e")


@pytest.mark.usefixtures("in_this_process")
def test_what_differs_anyway_is_told_as_it_is():
    found = compare_models(*sides("y = Exp(x)", "y = Sin(x)"), DRAWN, exact=True)
    assert "instead of" in found.why
    assert (
        compare_models(*sides("y = my.F(x)", "y = my.G(x)", domains='"my" : 1'), DRAWN, exact=True).status
        == "unverified"
    )


def test_how_a_proof_is_asked_for(monkeypatch):
    told = []
    monkeypatch.setattr(
        verify.isolation, "call", lambda function, *sides, **named: told.append(named) or Verification("equal")
    )
    one, other = sides("y = Exp(x)")
    wanted = read_options(seed=3)
    verify_apart(one, other, grade="close", wanted=wanted, plain=False, promise=True)
    compare_models(one, other, wanted, exact=False)
    assert told == [
        {"grade": "close", "wanted": wanted, "plain": False, "promise": True, "rounded_to": 0},
        {"grade": "close", "wanted": wanted, "plain": True, "promise": False, "rounded_to": 0},
    ]


@pytest.mark.parametrize(("exact", "status"), [(False, "equal"), (True, "different")])
@pytest.mark.usefixtures("in_this_process")
def test_in_python(exact, status):
    one, other = (model(text, 17, **IO) for text in ROUNDED)
    assert opshift.verify(one, other, exact=exact).status == status
    assert opshift.verify(one, one, exact=exact).is_same


def test_of_several_outputs_the_one_nearest_to_its_bound_is_told():
    outputs = OutputReport("a"), OutputReport("b", 1, 10, is_same=False), OutputReport("c", 3, 4, is_same=False)
    assert Verification("equal", outputs=outputs).worst.output == "c"
