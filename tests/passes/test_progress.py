"""What is being done is told to a callback, to the logger, or to another process."""

import logging

import pytest
from opshift.passes import progress


def test_a_callback_hears_what_is_told_meanwhile_and_the_inner_one_alone():
    outer, inner = [], []
    with progress.listen(lambda *told: outer.append(told)):
        progress.tell("read")
        with progress.listen(lambda *told: inner.append(told)):
            progress.tell("run", 1, 3)
        with progress.listen(None):
            progress.tell("compare")
    progress.tell("nobody hears this")
    assert outer == [("read", 0, 0), ("compare", 0, 0)]
    assert inner == [("run", 1, 3)]


def test_a_callback_that_raises_is_heard_no_more():
    def fails(*_):
        raise KeyError("heard")

    with pytest.raises(KeyError), progress.listen(fails):
        progress.tell("run")
    progress.tell("run")


def test_the_logger_says_the_same(caplog):
    caplog.set_level(logging.INFO, "opshift")
    progress.tell("run", 2, 3)
    progress.tell("write")
    assert caplog.messages == ["run (2 of 3)", "write"]


def test_what_is_relayed_is_told_there_alone(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "opshift")
    monkeypatch.setattr(progress, "_relay", [])
    there, here = [], []
    progress.relay(lambda *told: there.append(told))
    with progress.listen(lambda *told: here.append(told)):
        progress.tell("run", 1, 2)
    assert (there, here, caplog.messages) == ([("run", 1, 2)], [], [])
