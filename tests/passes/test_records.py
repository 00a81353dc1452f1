"""`opshift.passes.records`: each test holds for standard dataclasses, too."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from functools import cached_property
from typing import Any

import pytest
from opshift.passes import records

MAKERS: list[Any] = [dataclasses, records]


@dataclasses.dataclass(frozen=True)
class Theirs:
    x: int
    names: tuple[str, ...] = ("a",)


@records.dataclass(frozen=True)
class Ours:
    x: int
    names: tuple[str, ...] = ("a",)


def _made(maker: Any, **how: Any) -> Any:
    @maker.dataclass(**how)
    class Held:
        x: int
        y: str = "b"
        z: list[int] = maker.field(default_factory=list)

        @cached_property
        def twice(self) -> int:
            return 2 * self.x

    return Held


@pytest.mark.parametrize("maker", MAKERS)
def test_values_are_given_by_place_by_name_and_by_default(maker):
    held = _made(maker)
    assert vars(held(1)) == vars(held(x=1)) == {"x": 1, "y": "b", "z": []}
    assert vars(held(1, z=[2], y="c")) == vars(held(1, "c", [2])) == {"x": 1, "y": "c", "z": [2]}
    assert held(1).z is not held(1).z
    assert not hasattr(held, "z")
    assert held.y == "b"


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(("given", "named"), [((), {}), ((1, 2, 3, 4), {}), ((1,), {"x": 1}), ((1,), {"other": 1})])
def test_values_that_do_not_fit_are_an_error(maker, given, named):
    with pytest.raises(TypeError):
        _made(maker)(*given, **named)


@pytest.mark.parametrize("maker", MAKERS)
def test_what_holds_the_same_is_equal_and_is_told_alike(maker):
    held, other = _made(maker), _made(maker)
    assert held(1) == held(1)
    assert held(1) != held(2)
    assert held(1) != other(1)
    assert held(1) != (1, "b", [])
    assert repr(held(1)) == f"{held.__qualname__}(x=1, y='b', z=[])"
    assert held.__hash__ is None
    assert _made(maker, eq=False)(1) != _made(maker, eq=False)(1)


@pytest.mark.parametrize("maker", MAKERS)
def test_what_is_frozen_does_not_change_and_has_a_hash(maker):
    one = _made(maker, frozen=True)(1, z=())
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.x
    assert one.twice == 2
    assert one.x == 1
    assert hash(one) == hash((1, "b", ()))


@pytest.mark.parametrize("maker", MAKERS)
def test_own_methods_stay_and_what_follows_is_called(maker):
    @maker.dataclass(frozen=True)
    class Held:
        x: int

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("below 0")

        def __repr__(self) -> str:
            return "held"

    assert repr(Held(1)) == "held"
    with pytest.raises(ValueError, match="below 0"):
        Held(-1)


@pytest.mark.parametrize("maker", MAKERS)
def test_nothing_to_hold(maker):
    @maker.dataclass(frozen=True)
    class Nothing:
        pass

    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert not vars(Nothing())


@pytest.mark.parametrize("maker", MAKERS)
def test_the_standard_library_knows_what_they_are(maker):
    held = _made(maker)
    assert dataclasses.is_dataclass(held)
    assert dataclasses.is_dataclass(held(1))
    assert [field.name for field in dataclasses.fields(held)] == ["x", "y", "z"]
    assert dataclasses.asdict(held(1, z=[2])) == {"x": 1, "y": "b", "z": [2]}
    assert dataclasses.replace(held(1), x=3) == held(3)
    assert list(inspect.signature(held).parameters) == ["x", "y", "z"]
    assert inspect.signature(held).parameters["y"].default == "b"


@pytest.mark.parametrize("maker", MAKERS)
def test_a_standard_one_can_be_made_of_one(maker):
    base = _made(maker, frozen=True)

    @dataclasses.dataclass(frozen=True)
    class More(base):
        w: int = 7

    assert vars(More(1)) == {"x": 1, "y": "b", "z": [], "w": 7}
    assert list(inspect.signature(More).parameters) == ["x", "y", "z", "w"]


@pytest.mark.parametrize("kind", [Theirs, Ours])
def test_they_are_copied_and_sent_to_other_processes(kind):
    one = kind(1, ("b",))
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    match one:
        case kind(x, names):
            assert (x, names) == (1, ("b",))


def test_both_kinds_are_replaced_and_told():
    for one in (Theirs(1), Ours(1)):
        assert records.replace(one, x=2) == type(one)(2)
        assert records.asdict(one) == {"x": 1, "names": ("a",)}


_USERS = """
import sys, opshift.cli.commands
held = [m for name, m in sys.modules.items() if name.startswith("opshift.")]
sys.exit(str([m for m in held if any(getattr(v, "__module__", "") == "dataclasses" for v in vars(m).values())] or ""))
"""


def test_what_every_command_imports_does_without_the_standard_ones():
    done = subprocess.run([sys.executable, "-c", _USERS], capture_output=True, text=True, check=False)
    assert not done.stderr.strip()
