"""What many tests need is made once: modules are compiled for all processes, and engines are there where they fork."""

import gc
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import huge_pages, order, pairs

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as `engines.runtime` does, before tests import it
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # as `adapters.openvino` does
gc.disable()  # while tests are collected, none of which is garbage


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="every combination of parameters, and what is long")
    parser.addoption("--passed", type=Path, help="a log of `pytest -rp`: leave out what passed there")


def pytest_configure(config: pytest.Config) -> None:
    pairs.whole = config.getoption("--whole")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Modules for POSIX alone import what no other system has."""
    if os.name == "posix" or collection_path.suffix != ".py":
        return None
    return bool(re.search(r"^pytestmark = .*pytest\.mark\.posix", collection_path.read_text("utf-8"), re.M)) or None


def pytest_itemcollected(item: pytest.Function) -> None:
    """Tests of OpenVINO need its newest release: older ones differ, and the lowest dependencies come without it."""
    code = item.function.__code__
    if _needs_openvino(item.path) or ("importorskip" in code.co_names and "openvino" in code.co_consts):
        item.add_marker("newest")


@cache
def _needs_openvino(module: Path) -> bool:
    return bool(re.search(r'^(openvino = )?pytest\.importorskip\("openvino"', module.read_text("utf-8"), re.M))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Leave out what is long, unless it is asked for by name, and what shows no pair of values that others do not."""
    yield  # what is asked for by name or mark is known then
    if not pairs.whole:
        is_named = config.option.keyword or any("::" in place for place in config.args)
        long = [item for item in items if not is_named and item.get_closest_marker("long")]
        items[:], left_out = pairs.split([item for item in items if item not in long])
        left_out += long
        config.hook.pytest_deselected(items=left_out)
    if log := config.option.passed:
        passed = {line.removeprefix("PASSED ") for line in log.read_text("utf-8").splitlines()}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]
    if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
        items[:] = order.long_first(items, int(workers))


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call here what is called in copies of this process: a copy of one that holds all tests takes longer than most work."""
    from opshift.verification import isolation

    monkeypatch.setattr(isolation, "call", lambda function, *arguments, **named: function(*arguments, **named))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Load the engines and what compares what they yield, but not where tests are only handed out."""
    import onnx.parser

    import opshift
    from opshift.verification import engines

    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) { y = Neg(x) }')
    for engine in engines.ENGINES:
        engine(model)
    assert opshift.verify(model, model)
    gc.enable()
    gc.freeze()
    huge_pages.collapse()


def pytest_sessionfinish() -> None:
    """Look for garbage, whose end may be an error, until there is none: pytest looks five times, and Python as it ends."""
    any(not gc.collect() for _ in range(5))
    gc.freeze()
