"""Each worker begins with long tests, and no test is lost."""

from pathlib import Path
from types import SimpleNamespace

from tests.order import LONG, long_first

ROOT = Path(__file__).parent


def test_long_modules_are_there():
    assert [name for name in LONG if not (ROOT / name).exists()] == []


def test_each_part_begins_with_long_tests_of_whole_modules():
    names = [*(f"{letter}.py" for letter in "abcdefgh" for _ in range(9)), LONG[2], LONG[0], LONG[0], LONG[1]]
    items = [SimpleNamespace(path=ROOT / name, number=number) for number, name in enumerate(names)]
    found = long_first(items, 2)
    assert sorted(item.number for item in found) == list(range(len(items)))
    half = len(items) // 2
    assert [item.path for item in found[:3]] == [ROOT / LONG[2], ROOT / LONG[0], ROOT / LONG[0]]
    assert found[half].path == ROOT / LONG[1]
    assert long_first(items[:2], 3) == items[:2]
