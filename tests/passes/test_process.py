"""Limits hold where nobody else works in the process, and no longer than they are asked for."""

import gc
import threading

import pytest
from opshift.passes import process

import opshift
from opshift.verification import isolation
from tests.support import model

ROOM, MORE = 1 << 26, 1 << 28


def ask():
    """Whether there was room for more than the limit, within it and afterwards."""

    def fits():
        try:
            return bool(bytearray(MORE))
        except MemoryError:
            return False

    with process.at_most(ROOM):
        within = fits()
    return within, fits()


def ask_as_owner():
    with process.ours():
        return ask()


def ask_in_a_thread():
    found = []
    with process.ours():
        asking = threading.Thread(target=lambda: found.append(ask()))
        asking.start()
        asking.join()
    return found[0]


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        (ask, (True, True)),
        (ask_as_owner, (False, True)),
        pytest.param(ask_in_a_thread, (True, True), marks=pytest.mark.long),
    ],
)
def test_what_asks_for_more_gets_none(asking, expected):
    assert isolation.call(asking) == expected


def test_what_was_frozen_stays_frozen_and_is_counted_once(monkeypatch):
    counts = []
    monkeypatch.setattr(process, "_frozen", False)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counts.append(len(counts)) or 1)
    monkeypatch.setattr(gc, "unfreeze", lambda: pytest.fail("it is not ours"))
    for _ in range(3):
        with process.collector_paused():
            assert not gc.isenabled()
    assert gc.isenabled()
    assert counts == [0]


VERBS = {
    "up": lambda of: opshift.convert_version(of, 24),
    "down": lambda of: opshift.convert_version(of, 7),
    "inline": lambda of: opshift.inline(of, ["Sigmoid"]),
    "fold": opshift.fold,
    "fold by name": lambda of: opshift.fold(of, ["Gelu", "QLinearMatMul"]),
    "optimize": lambda of: opshift.convert_version(of, 21, optimize=True, modernize=True),
    "quantization": lambda of: opshift.convert_version(of, quantization="qoperator"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_left_that_holds_itself(verb):
    """What is made old at the end of a call would lie in memory for ever."""
    body = """i = Identity(x) d = Div(i, r) e = Erf(d) a = Add(e, one) m = Mul(i, a) g = Mul(m, half) s = Sigmoid(g)
              y = If(k) <then_branch = t () => (float[2,3] u) { j = Identity(r) u0 = Div(s, j) u = Sigmoid(u0) },
                         else_branch = e () => (float[2,3] v) { q = QuantizeLinear(s, one) v = DequantizeLinear(q, one) }>"""
    constants = "float r = {1.4142135}, float one = {1}, float half = {0.5}"
    source = model(body, 20, inputs="float[2,3] x, bool k", outputs="float[2,3] y", constants=constants)
    VERBS[verb](source)  # and what is loaded and remembered
    gc.collect()
    gc.freeze()  # what all tests before left alive need not be looked through again
    gc.disable()
    try:
        VERBS[verb](source)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_nobody_counts_the_room_of_a_process_that_is_shared():
    asked = []
    with process.at_most(lambda: asked.append("shared") or ROOM):
        pass
    with process.ours(), process.at_most(lambda: asked.append("ours") or ROOM):
        pass
    assert asked == ["ours"]
