"""The mutants of a small module, whose fate is known, from the recording to the page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.mutations import mutants
from tests.mutation.report import markdown

ROOT = Path(__file__).parents[2]
MODULE = '''"""A module."""

LIMIT = 4


def clipped(value: int, *, low: int = 0) -> int:
    """At most the limit."""
    if value > LIMIT:
        return LIMIT
    return value if value >= low else low
'''
TESTS = """from opshift import small


def test_within():
    assert small.clipped(3) == 3


def test_above():
    assert small.clipped(9) == 4
"""
FATES = """
import sys
from pathlib import Path
from tests.mutation import recording, trial
from tests.mutation.mutations import mutants
from tests.mutation.tree import Tree

tree, folder = Tree(Path("tree").absolute()), Path("records").absolute()
folder.mkdir()
if sys.argv[1:] == ["record"]:
    recording.record(tree, folder, "all", ["tests"])
else:
    found = recording.Recording()
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
        "X = int | str",
        "if TYPE_CHECKING:\n  x = 1",
    ],
)
def test_what_is_not_changed(source):
    assert changes(source) == set()
