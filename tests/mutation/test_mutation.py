"""The mutants of a small module, whose fate is known, from the recording to the page; copies are made by os.fork."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.mutations import mutants
from tests.mutation.recording import Recording
from tests.mutation.report import equivalents, fresh, markdown
from tests.mutation.trial import task

pytestmark = pytest.mark.posix

ROOT = Path(__file__).parents[2]
MODULE = """LIMIT = 4


def clipped(value: int) -> int:
    if value > LIMIT:
        return LIMIT
    return value
"""
TESTS = """import gc

from opshift import small

gc.freeze()


def test_within():
    assert small.clipped(3) == 3


def test_above():
    assert small.clipped(9) == 4


def test_fails():
    assert small.clipped(9) == 9
"""
RECORD = """
from pathlib import Path
from tests.mutation.record import record
from tests.mutation.tree import Tree

record(Tree(Path("tree").resolve()), Path().resolve(), "all", ["tests"])
"""
FATES = """
from pathlib import Path
from tests.mutation.areas import bodies
from tests.mutation.mutations import mutants
from tests.mutation.recording import Recording
from tests.mutation.sessions import apart, judge_bodies, judge_imports
from tests.mutation.tree import Tree
from tests.mutation.trial import task

file, tree, recording = "opshift/small.py", Tree(Path("tree").resolve()), Recording()
recording.add(Path("all.json"))
source = tree.path(file).read_text()
tasks = [task(recording, mutant, source, bodies(source), 5) for mutant in mutants(file, source)]


def report(trial):
    print(f"{trial.mutant.old} -> {trial.mutant.new}: {trial.fate} {trial.by}", flush=True)


apart(lambda: judge_bodies(tree, [given for given in tasks if not given.at_import], report))
judge_imports(tree, [given for given in tasks if given.at_import], report)
assert tree.path(file).read_text() == source
"""


def changes(source: str) -> set[str]:
    return {f"{m.old} -> {m.new}" for m in mutants("a.py", source)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", {"a < b -> (a <= b)"}),
        ("x = a is b in c", {"a is b in c -> (a is not b in c)", "a is b in c -> (a is b not in c)"}),
        ("x = a and b", {"a and b -> (a or b)"}),
        ("x = not a", {"not a -> a"}),
        ("x = -a * b", {"-a -> a", "-a * b -> (-a + b)"}),
        ("x = [1, True, 2.5, 'name', '']", {"1 -> 2", "True -> False", "2.5 -> 5.0", "'name' -> 'name_'", "'' -> '_'"}),
        ("x = a if b else c", {"a if b else c -> (c if b else a)"}),
        ("f(a, b=c)", {"f(a, b=c) -> pass", "f(a, b=c) -> f(a)"}),
        ("def f():\n  if a: raise b", {"a -> not (a)", "a -> False", "raise b -> pass"}),
        ("def f():\n  return a", {"return a -> return None"}),
        ("for a in b:\n  continue", {"continue -> break"}),
    ],
)
def test_what_may_be_changed(source, expected):
    assert changes(source) == expected
    for mutant in mutants("a.py", source):
        compile(mutant.apply(source), "a.py", "exec")


@pytest.mark.parametrize(
    "source",
    [
        '"""Text."""',
        "import a",
        "def f(a: Literal['b']) -> None: pass",
        "@f(1)\ndef g(): pass",
        "x = f'{a + 1}'",
        "x = 'two words'",
        "assert 1 == 2",
        "x = zip(a, b, strict=True)",
        "X = int | str",
        "if TYPE_CHECKING:\n  x = 1",
    ],
)
def test_what_is_not_changed(source):
    assert changes(source) == set()


@pytest.fixture
def python(tmp_path):
    """Runs Python beside a tree of one module and its tests."""
    for path, text in {"opshift/small.py": MODULE, "tests/test_small.py": TESTS}.items():
        place = tmp_path / "tree" / path
        place.parent.mkdir(parents=True)
        place.parent.joinpath("__init__.py").touch()
        place.write_text(text)
    around = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(code: str) -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=tmp_path, env=around, capture_output=True, text=True, check=True).stdout

    return run


LINES = {"1": "0", "4": "0", "5": "3", "6": "2", "7": "1"}  # each binary digit is a test
TEST = "tests/test_small.py::test_"


@pytest.mark.long
def test_which_test_executes_which_line(python, tmp_path):
    assert f"all: 2 tests in 0 s; failed: ['{TEST}fails']" in python(RECORD)
    held = json.loads((tmp_path / "all.json").read_text())
    assert (held["tests"], held["lines"]["opshift/small.py"]) == ([f"{TEST}within", f"{TEST}above"], LINES)


def test_the_nearest_and_fastest_come_first_and_long_ones_last():
    recording = Recording()
    recording.tests = [
        f"tests/{test}"
        for test in ("else.py::a", "b/test_it.py::b", "b/test_it.py::c", "b/test.py::d", "b/test.py::e", "other.py::f")
    ]
    recording.seconds = [0.1, 4.0, 0.2, 0.1, 0.1, 0.1]
    recording.lines["b/it.py"][2] = 0b1111
    (mutant,) = mutants("b/it.py", "def f():\n  return 0")[:1]
    order = ["b/test_it.py::c", "b/test.py::d", "else.py::a", "b/test.py::e"]
    for budget, more in ((9, ["b/test_it.py::b"]), (3, [])):
        made = task(recording, mutant, "", {2}, budget)
        assert (made.tests, made.at_import) == ([f"tests/{test}" for test in order + more], False)


def test_what_no_test_executes_is_executed_by_the_import():
    """A function that makes a table is judged by the tests of those that read it, and by all of the room."""
    recording = Recording()
    recording.tests = ["tests/else.py::a", "tests/b/test_it.py::b", "tests/b/test.py::c", "tests/other.py::d"]
    recording.seconds = [0.1] * 4
    recording.lines["b/it.py"][4] = 0b0011
    mutant, _ = mutants("b/it.py", "def f():\n  return 0\ndef g():\n  return HELD")[:2]
    made = task(recording, mutant, "", {2, 4}, 9)
    assert (made.at_import, made.tests) == (True, ["tests/b/test_it.py::b", "tests/b/test.py::c", "tests/else.py::a"])


@pytest.mark.long
def test_who_kills_whom(python, tmp_path):
    held = {"tests": [f"{TEST}within", f"{TEST}above"], "seconds": [0.1, 0.1], "lines": {"opshift/small.py": LINES}}
    (tmp_path / "all.json").write_text(json.dumps(held))
    assert [line for line in python(FATES).splitlines() if "->" in line] == [
        "value > LIMIT -> (value >= LIMIT): survived ",
        f"value > LIMIT -> False: killed {TEST}above",
        f"return LIMIT -> return None: killed {TEST}above",
        f"return value -> return None: killed {TEST}within",
        f"4 -> 5: killed {TEST}above",
    ]


def test_the_page_lists_what_survived_and_why_not():
    def row(old: str, fate: str) -> dict[str, Any]:
        return {
            "mutant": {"file": "a.py", "line": 3, "text": "if a or b:", "old": old, "new": "False", "nth": 0},
            "fate": fate,
            "tests": 7,
        }

    rows = [row("a", "killed"), row("b", "killed"), row("a | b", "survived"), row("a or b", "survived")]
    page = markdown(
        {"engine": rows, "files": [row("a", "killed")]}, {("a.py", "if a or b:", "a or b -> False", 0): "b is a"}
    )
    assert "| engine | 4 | 2 | 1 | 1 | 66.7% |" in page
    assert "| a.py:3 | `if a or b:` | `a \\| b` | `False` | 7 |\n" in page
    assert "| a.py:3 | `if a or b:` | `a or b` | `False` | b is a |" in page
    assert "None survived." in page.split("## Files")[1]
    assert fresh() in page


def test_the_page_tells_of_fresh_samples(tmp_path):
    held = tmp_path / "fresh.toml"
    held.write_text(
        '[[sample]]\narea = "files"\nseed = 3\nat = "2026-11-22, c52de420"\nmutants = 60\nkilled = 40\nequivalent = 10\nsince = 4\n'
    )
    assert fresh(held).endswith("| files | 3 | 2026-11-22, c52de420 | 60 | 40 | 10 | 80.0% | 4 |\n")


def test_what_is_called_equivalent_is_argued():
    for (file, line, change, nth), why in equivalents().items():
        assert " -> " in change, (file, line)
        assert len(why.split()) > 3, (file, line, nth)
