"""One mutant: the tests that reach it run in a copy of this process, nearest first, until one of them fails."""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.mutations import Mutant
from tests.mutation.recording import Recording
from tests.mutation.tree import Tree

SURVIVED, KILLED, UNJUDGED = "survived", "killed", "unjudged"
EACH_TEST, EACH_FILE = 0.005, 0.1  # seconds that pytest takes beside
MEMORY = 16 << 30


@dataclass(frozen=True)
class Trial:
    """What became of a mutant."""

    mutant: Mutant
    fate: str
    by: str = ""
    """The test that failed, or how the process ended."""
    tests: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Task:
    """A mutant of a source, the tests that are to judge it, and the seconds that these take."""

    mutant: Mutant
    source: str
    tests: Sequence[str]
    seconds: float
    at_import: bool = False
    """Whether only the import of its file executes it, as what makes a table does, so that each copy has to import it."""


def task(recording: Recording, mutant: Mutant, source: str, bodies: set[int], budget: float) -> Task:
    """The tests that reach a mutant, the nearest and fastest first, as many as take `budget` seconds; long ones last.

    What an import executes is judged by the tests that execute a function of the file, which lie in `bodies`, and by
    those of the room. Behind those that reach it come others of their files: what one of them has made may be kept for
    all that follow, so that they did not execute what makes it.
    """
    found = recording.reaching(mutant.file, {mutant.line}) if mutant.inside else []
    if at_import := not found:
        found = recording.reaching(mutant.file, bodies | {mutant.line})
    room, stem = f"tests/{os.path.dirname(mutant.file)}/", Path(mutant.file).stem
    if at_import:
        beside = [k for k, test in enumerate(recording.tests) if test.startswith(room)]
        found = sorted({*found, *beside}) or list(range(len(recording.tests)))
    reaching, files = set(found), {recording.tests[index].split("::")[0] for index in found}
    turns: dict[str, int] = {}
    ranked = []
    for index in sorted(recording.within(files), key=lambda k: recording.seconds[k]):
        file = recording.tests[index].split("::")[0]
        turn = turns[file] = turns.get(file, 0) + 1
        place = recording.seconds[index] > budget / 4, index not in reaching, _distance(file, room, stem), turn
        ranked.append((*place, index))
    chosen, spent, begun = list[str](), 0.0, set[str]()
    for *_, index in sorted(ranked):
        file = recording.tests[index].split("::")[0]
        seconds = recording.seconds[index] + EACH_TEST + (0 if file in begun else EACH_FILE)
        if spent + seconds <= budget:
            chosen.append(recording.tests[index])
            begun.add(file)
            spent += seconds
    if found and not chosen:
        index = min(found, key=recording.seconds.__getitem__)
        chosen, spent = [recording.tests[index]], recording.seconds[index]
    return Task(mutant, source, list(dict.fromkeys(chosen)), spent, at_import)


def _distance(test: str, room: str, stem: str) -> int:
    """Of a test's file: beside the code and of its name, in the same room, in a room around it, elsewhere."""
    if test.startswith(room):
        return 0 if stem in Path(test).stem else 1
    return 2 if test.startswith(room.rsplit("/", 2)[0] + "/") else 3


def attempt(tree: Tree, given: Task, judge: Callable[[str], str]) -> Trial:
    """Call `judge` with the mutant's text in a copy of this process: it returns the test that fails, or SURVIVED.

    A mutant on which it does not come back, or comes to an end otherwise, is killed.
    """
    mutant, began = given.mutant, time.monotonic()
    text = mutant.apply(given.source)
    with tree.holding(mutant.file, text):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(reading)
                _confine(int(5 + 3 * given.seconds))
                os.write(writing, f"{judge(text)}\n".encode())
            finally:
                os._exit(0)
        os.close(writing)
        said = _read(reading, 60 + 30 * given.seconds)
        os.close(reading)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if said is None:
        said = "the time is over"
    elif not said:
        said = f"the process ended: {os.waitstatus_to_exitcode(status)}"
    fate = said if said in (SURVIVED, UNJUDGED) else KILLED
    return Trial(mutant, fate, said if fate == KILLED else "", len(given.tests), time.monotonic() - began)


def _confine(seconds: int) -> None:
    """Let this process print nothing, and take neither all memory nor all time."""
    os.setpgid(0, 0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def _read(descriptor: int, seconds: float) -> str | None:
    """The line that comes, what there is of it at the end, or None where none comes in time."""
    said, end = b"", time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0]:
            more = os.read(descriptor, 65536)
            said += more
            if not more or said.endswith(b"\n"):
                return said.decode("utf-8", "replace").strip()
    return None
