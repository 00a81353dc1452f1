"""What many tests need is made once: modules are compiled for all processes, and engines are there where they fork."""

import os
import sys

import pytest

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Load the engines and what compares what they yield, but not where tests are only handed out."""
    import onnx.parser

    import opshift
    from opshift.verification import engines

    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) { y = Neg(x) }')
    for engine in engines.ENGINES:
        engine(model)
    assert opshift.verify(model, model)
