"""Limits hold where nobody else works in the process, and no longer than they are asked for."""

import gc
import threading

import pytest
from opshift.passes import process

from opshift.verification import isolation

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
    ("asking", "expected"), [(ask, (True, True)), (ask_as_owner, (False, True)), (ask_in_a_thread, (True, True))]
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
