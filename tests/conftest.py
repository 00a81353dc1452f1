"""What many tests need is made once: modules are compiled for all processes, and engines are there where they fork."""

import os
import re
import sys
from functools import cache

import pytest

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


POSIX = re.compile(
    r"symlink_to|os\.symlink|mkfifo|import resource|/proc/|os\.fork|SIGKILL|SIGALRM|os\.kill|chmod\(|\"bash\""
)
"""What only POSIX has: `-m "not posix"` leaves out the modules that name it."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what cannot run everywhere."""
    needs = cache(lambda path: path.name != "test_without_posix.py" and bool(POSIX.search(path.read_text("utf-8"))))
    for item in items:
        if needs(item.path):
            item.add_marker(pytest.mark.posix)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Load the engines and what compares what they yield, but not where tests are only handed out."""
    import onnx.parser

    import opshift
    from opshift.verification import engines

    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) { y = Neg(x) }')
    for engine in engines.ENGINES:
        engine(model)
    assert opshift.verify(model, model)
