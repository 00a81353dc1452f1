"""One mutant: the tests that reach it run in a copy of this process, nearest first, until one of them fails."""

from __future__ import annotations

import gc
import os
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy
import onnx.checker
import onnx.helper
import onnx.parser
import onnx.reference
import onnxruntime
import pytest

from tests.mutation.mutations import Mutant
from tests.mutation.recording import PYTEST, Recording
from tests.mutation.tree import Tree

LOADED = (numpy, onnx, onnxruntime)  # by each copy already, and nothing of what is mutated
SURVIVED, KILLED, UNJUDGED = "survived", "killed", "unjudged"
FIRST = 3.0  # seconds of tests that run before others are collected
EACH_TEST, EACH_FILE = 0.005, 0.15  # seconds that pytest takes beside
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


def judges(recording: Recording, mutant: Mutant, bodies: set[int], budget: float) -> list[str]:
    """The tests that reach a mutant, the nearest and fastest first, as many as take `budget` seconds.

    What an import executes is judged by the tests that execute a function of the file, which lie in `bodies`, and by
    those of the room.
    """
    found = recording.reaching(mutant.file, {mutant.line} if mutant.inside else bodies | {mutant.line})
    room, stem = f"tests/{os.path.dirname(mutant.file)}/", Path(mutant.file).stem
    if not mutant.inside:
        found = sorted({*found, *(k for k, test in enumerate(recording.tests) if test.startswith(room))})
    turns: dict[str, int] = {}
    ranked = []
    for index in sorted(found, key=lambda k: recording.seconds[k]):
        file = recording.tests[index].split("::")[0]
        turn = turns[file] = turns.get(file, 0) + 1
        ranked.append((_distance(file, room, stem), turn, index))
    chosen, spent, files = list[str](), 0.0, set[str]()
    for _, _, index in sorted(ranked):
        file = recording.tests[index].split("::")[0]
        seconds = recording.seconds[index] + EACH_TEST + (0 if file in files else EACH_FILE)
        if spent + seconds <= budget or not chosen:
            chosen.append(recording.tests[index])
            files.add(file)
            spent += seconds
    return chosen


def _distance(test: str, room: str, stem: str) -> int:
    """Of a test's file: beside the code and of its name, in the same room, in a room around it, elsewhere."""
    if test.startswith(room):
        return 0 if stem in Path(test).stem else 1
    return 2 if test.startswith(room.rsplit("/", 2)[0] + "/") else 3


def run(tree: Tree, recording: Recording, mutant: Mutant, source: str, tests: Sequence[str]) -> Trial:
    """Judge one mutant."""
    if not tests:
        return Trial(mutant, UNJUDGED)
    seconds = dict(zip(recording.tests, recording.seconds, strict=True))
    most = sum(seconds[test] for test in tests)
    began = time.monotonic()
    with tree.holding(mutant.file, mutant.apply(source)):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            _judge(tree, list(_portions(tests, seconds)), writing, int(20 + 4 * most))
        os.close(writing)
        with open(reading, encoding="utf-8", errors="replace") as stream:
            said = _read(stream.fileno(), 120 + 10 * most)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    spent = time.monotonic() - began
    if said is None:
        return Trial(mutant, KILLED, "the time is over", len(tests), spent)
    if said == SURVIVED:
        return Trial(mutant, SURVIVED, "", len(tests), spent)
    code = os.waitstatus_to_exitcode(status)
    return Trial(mutant, KILLED, said or f"the process ended: {code}", len(tests), spent)


def _read(descriptor: int, seconds: float) -> str | None:
    """All that comes, or None where no end comes in time."""
    import select

    said, end = b"", time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0]:
            more = os.read(descriptor, 65536)
            if not more:
                return said.decode("utf-8", "replace")
            said += more
            if said.endswith(b"\n"):
                return said.decode("utf-8", "replace").strip()
    return None


def _portions(tests: Sequence[str], seconds: dict[str, float]) -> Iterator[list[str]]:
    """A little, to begin with: to collect tests takes longer than to run them."""
    size, portion, spent, files = FIRST, [], 0.0, set[str]()
    for test in tests:
        portion.append(test)
        files.add(test.split("::")[0])
        spent += seconds[test]
        if spent > size or len(files) > 4 * size:
            yield portion
            size, portion, spent, files = 3 * size, [], 0.0, set()
    if portion:
        yield portion


class _Chosen:
    """Runs the tests that are wanted, in their order, and remembers the first that fails."""

    def __init__(self, wanted: Sequence[str]):
        self.wanted = {test: index for index, test in enumerate(wanted)}
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.wanted), key=lambda item: self.wanted[item.nodeid]
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or f"{report.nodeid} (not collected)"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


def _judge(tree: Tree, portions: list[list[str]], answer: int, seconds: int) -> NoReturn:
    """The whole life of the copy."""
    try:
        os.setpgid(0, 0)
        gc.freeze()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        tree.enter()
        said = SURVIVED
        for portion in portions:
            chosen = _Chosen(portion)
            code = pytest.main([*PYTEST, "-x", *dict.fromkeys(test.split("::")[0] for test in portion)], [chosen])
            if chosen.failed or code != pytest.ExitCode.OK:
                said = chosen.failed or f"{portion[0]} (exit code {code})"
                break
        os.write(answer, f"{said}\n".encode())
    finally:
        os._exit(0)
