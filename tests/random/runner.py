"""Judges seed after seed in a process of its own, started again behind the seed at which it ended: onnx's own inference
ends the process that it runs in for some models."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from tests.random.calls import Corpus
from tests.random.coverage import Coverage
from tests.random.engines import Engines
from tests.random.models import drawn_source
from tests.random.shrink import Finding, shrunk
from tests.random.verbs import drawn_verbs
from tests.random.verdict import DIED, FINDINGS, UNJUDGED, Judge

Row = tuple[str, str, str]  # place, verb, status


@dataclass
class Judged:
    """What was said about the model of a seed; `unjudged` holds the reasons."""

    seed: int
    rows: list[Row] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    findings: list[Finding] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Wanted:
    """What is judged: so many verbs a model, those of a kind; by so many processes; models of so many nodes."""

    verbs: int = 6
    kind: str = ""
    jobs: int = 1
    longest: int = 40


@dataclass
class _Lane:
    """A process that judges every so many-th seed, and what it does just now."""

    seed: int
    child: ForkProcess
    doing: Row | None = None


def run(corpus: Corpus, first: int, seconds: float, wanted: Wanted) -> Iterator[Judged]:
    """What is said of the models of the seeds from the first on."""
    end = time.monotonic() + seconds
    lanes = dict(_started(corpus, first + at, end, wanted) for at in range(wanted.jobs))
    try:
        while lanes:
            for mine in wait(list(lanes)):
                assert isinstance(mine, Connection)
                lane = lanes[mine]
                try:
                    said = mine.recv()
                except EOFError:
                    yield from _ended(lane)
                    del lanes[mine]
                    if time.monotonic() < end:
                        lanes |= [_started(corpus, lane.seed + wanted.jobs, end, wanted)]
                    continue
                if isinstance(said, Judged):
                    lane.seed, lane.doing = said.seed + wanted.jobs, None
                    yield said
                else:
                    lane.doing = said
    finally:
        for lane in lanes.values():
            lane.child.kill()
            lane.child.join()


def again(corpus: Corpus, seeds: list[int], wanted: Wanted) -> Iterator[Judged]:
    """What is said of the models of these seeds, in this process."""
    unread, told = multiprocessing.Pipe(duplex=False)
    with Engines() as engines:
        for seed in seeds:
            yield _judged(told, engines, corpus, seed, wanted, {})
            while unread.poll():
                unread.recv()


def _started(corpus: Corpus, seed: int, end: float, wanted: Wanted) -> tuple[Connection, _Lane]:
    fork = multiprocessing.get_context("fork")
    mine, theirs = fork.Pipe(duplex=False)
    child = fork.Process(target=_judge, args=(theirs, corpus, seed, end, wanted), daemon=True)
    child.start()
    theirs.close()
    return mine, _Lane(seed, child)


def _ended(lane: _Lane) -> Iterator[Judged]:
    """What to say of a process that came to an end."""
    lane.child.join()
    if lane.child.exitcode and lane.child.exitcode > 0:  # its error was printed
        yield Judged(lane.seed, [("the judge itself", "none", DIED)])
    elif lane.child.exitcode:
        yield Judged(lane.seed, [lane.doing or ("-", "-", "not drawn")])


def _judge(told: Connection, corpus: Corpus, seed: int, end: float, wanted: Wanted) -> None:
    seen: dict[tuple[str, ...], int] = {}
    with Engines() as engines:
        while time.monotonic() < end:
            told.send(_judged(told, engines, corpus, seed, wanted, seen))
            seed += wanted.jobs


def _judged(
    told: Connection, engines: Engines, corpus: Corpus, seed: int, wanted: Wanted, seen: dict[tuple[str, ...], int]
) -> Judged:
    made = Judged(seed)
    source = drawn_source(seed, engines, corpus, longest=wanted.longest)
    judge = Judge(engines, source) if source is not None else None
    if source is None or judge is None or not judge.sound:
        made.rows.append(("-", "-", "not drawn"))
        return made
    for verb in drawn_verbs(random.Random(seed), source.model, wanted.verbs):
        if wanted.kind not in verb.kind:
            continue
        told.send((source.place, verb.kind, DIED))
        verdict = judge.judge(verb)
        made.rows.append((source.place, verb.kind, verdict.status))
        made.coverage.add(source.model, verdict.status)
        if verdict.status == UNJUDGED:
            made.unjudged.append(verdict.why)
        if verdict.status in FINDINGS:
            finding = Finding(source, verb, verdict)
            seen[finding.raw] = seen.get(finding.raw, 0) + 1
            if seen[finding.raw] <= 2:
                made.findings.append(shrunk(finding, engines))
    return made
