"""Tests of many mutants in one session of pytest: collected once, and run by copies of the process.

Bodies of functions are replaced in memory. What an import executes is judged by copies of a process that has imported
nothing of the code as yet.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy
import onnx.checker
import onnx.helper
import onnx.parser
import onnx.reference
import onnxruntime
import pytest

from tests.mutation.recording import PYTEST
from tests.mutation.tree import Tree
from tests.mutation.trial import SURVIVED, UNJUDGED, Task, Trial, attempt

LOADED = (numpy, onnx, onnxruntime)  # by each copy already, and nothing of what is mutated
Report = Callable[[Trial], None]


def judge_bodies(tree: Tree, tasks: Sequence[Task], report: Report) -> None:
    """Judge mutants of functions. Ends this process's imports of anything but the tree."""
    tree.enter()
    files = sorted({test.split("::")[0] for given in tasks for test in given.tests})
    pytest.main([*PYTEST, "-s", f"--basetemp={tree.folder}.tmp", *files], [_Session(tree, tasks, report)])


class _Session:
    """In the place of running all tests: those of one mutant after the other, each in a copy of the process."""

    def __init__(self, tree: Tree, tasks: Sequence[Task], report: Report):
        self.tree, self.tasks, self.report = tree, tasks, report
        self.failed = ""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for given in self.tasks:
            importlib.import_module(self.tree.module(given.mutant.file))
        functions, caches = defaultdict(list), []
        gc.unfreeze()  # what is frozen is not among the objects
        for held in gc.get_objects():
            if isinstance(held, types.FunctionType):
                functions[held.__code__.co_filename].append(held)
            elif isinstance(held, functools._lru_cache_wrapper) and held.__module__.startswith("opshift."):
                caches.append(held)
        gc.freeze()
        for given in self.tasks:
            path = str(self.tree.path(given.mutant.file))
            chosen = [items[test] for test in given.tests if test in items]

            def judge(text: str, given: Task = given, path: str = path, chosen: list[pytest.Item] = chosen) -> str:
                if not chosen or not replace(functions[path], given.source, text, path):
                    return UNJUDGED
                for cache in caches:  # what was found out while tests were collected
                    cache.cache_clear()
                return self._first_failure(chosen)

            self.report(attempt(self.tree, given, judge))
        return True

    def _first_failure(self, items: Sequence[pytest.Item]) -> str:
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.failed:
                return self.failed
        return SURVIVED

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


def replace(functions: Iterable[types.FunctionType], old: str, new: str, path: str) -> bool:
    """Give functions the code that they have in another text of their file; whether there were any."""
    before, after = (compile(text, path, "exec", dont_inherit=True) for text in (old, new))
    others = {a: b for a, b in _pairs(before, after) if a != b}
    replaced = False
    for function in functions:
        if function.__code__ in others:
            try:
                function.__code__ = others[function.__code__]
            except ValueError:  # it reads other names of what is around it
                return False
            replaced = True
    return replaced


def _pairs(old: types.CodeType, new: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
    before, after = ([held for held in code.co_consts if isinstance(held, types.CodeType)] for code in (old, new))
    if [code.co_name for code in before] == [code.co_name for code in after]:
        for a, b in zip(before, after, strict=True):
            yield a, b
            yield from _pairs(a, b)


def judge_imports(tree: Tree, tasks: Sequence[Task], report: Report) -> None:
    """Judge mutants of what is executed once: each copy imports the code anew."""
    for given in tasks:

        def judge(_: str, given: Task = given) -> str:
            gc.freeze()
            tree.enter()
            chosen = _Chosen(given.tests)
            files = dict.fromkeys(test.split("::")[0] for test in given.tests)
            code = pytest.main([*PYTEST, "-x", f"--basetemp={tree.folder}.tmp", *files], [chosen])
            return chosen.failed or (SURVIVED if code == pytest.ExitCode.OK else f"pytest: {code}")

        report(attempt(tree, given, judge) if given.tests else Trial(given.mutant, UNJUDGED))


class _Chosen:
    """Runs the tests that are wanted, in their order, and remembers the first that fails."""

    def __init__(self, wanted: Sequence[str]):
        self.wanted = {test: index for index, test in enumerate(wanted)}
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self.wanted]
        items[:] = sorted(chosen, key=lambda item: self.wanted[item.nodeid])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or f"{report.nodeid} (not collected)"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


def apart(work: Callable[[], None]) -> None:
    """Call it in a copy of this process, so that what it imports is not imported here."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
