"""Runs `opshift` in a process of its own, which ends after so many seconds with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ANSWERS = {0: "equal", 3: "unverified", 4: "different"}


@dataclass(frozen=True)
class Answer:
    """What a command said: `equal`, `different`, `unverified`, `exit N`, or `over N s`.

    `computed` are the seconds of all cores together: those of other cases, too, with `--jobs` above 1.
    """

    status: str
    seconds: float
    said: str
    megabytes: int = 0
    computed: float = 0.0


@dataclass(frozen=True)
class Row:
    """One case with its answer, and whether that is right; `remark` says what is known of the case."""

    corpus: str
    name: str
    answer: Answer
    right: bool
    remark: str = ""


def run(arguments: Sequence[str | Path], limit: float = 60) -> Answer:
    """Run `opshift` with these arguments."""
    command = [sys.executable, "-m", "opshift", *map(str, arguments)]
    started, before = time.perf_counter(), os.times()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        code, megabytes = _wait(process, started + limit)
        seconds, after = time.perf_counter() - started, os.times()
        output.seek(0)
        said = output.read().decode("utf-8", "replace").strip()
    status = f"over {limit:.0f} s" if code is None else ANSWERS.get(code, f"exit {code}")
    computed = after.children_user + after.children_system - before.children_user - before.children_system
    return Answer(status, seconds, said, megabytes, computed)


def verify(before: Path, after: Path, options: Sequence[str] = ("--close",), limit: float = 60) -> Answer:
    """Compare two files with `opshift verify`."""
    return run(["verify", *options, before, after], limit)


def _wait(process: subprocess.Popen[bytes], until: float) -> tuple[int | None, int]:
    """The exit code, None where it had to be killed, and the most memory that it or one of its children held."""
    most = 0
    while process.poll() is None:
        family = [process.pid, *descendants(process.pid)]
        most = max(most, *map(_resident, family))
        if time.perf_counter() > until:
            kill(family)
            process.wait()
            return None, most // 1_000_000
        time.sleep(0.02)
    return process.returncode, most // 1_000_000


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they did; Linux only, elsewhere none."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        try:
            listed = list(Path(f"/proc/{waiting.pop()}/task").glob("*/children"))
            children = [int(child) for file in listed for child in file.read_text().split()]
        except OSError:  # it has ended
            continue
        found += children
        waiting += children
    return found


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def alive(pid: int) -> bool:
    """Not a zombie, either."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _resident(pid: int) -> int:
    """Bytes in memory, pages of files that are mapped among them."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def judge_all(cases: Iterable[Callable[[], Row | list[Row]]], jobs: int, heard: Callable[[Row], None]) -> list[Row]:
    """Run each case, so many at once, and tell each row when it is there."""
    rows: list[Row] = []
    with ThreadPoolExecutor(jobs) as pool:
        for found in pool.map(lambda case: case(), cases):
            for row in found if isinstance(found, list) else [found]:
                heard(row)
                rows.append(row)
    return rows
