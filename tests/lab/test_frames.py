"""The way from `main` to the first step stays short."""

import pytest

from tests.lab.frames import frames_to_first_step

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_a_newcomer_reads_twelve_functions_to_the_first_step(tmp_path):
    command = ["convert", "examples/encoder.onnx", str(tmp_path / "out.onnx"), "--opset", "13"]
    functions = frames_to_first_step(command)
    assert functions[0] == "opshift/cli/main.py: main"
    assert functions[-1].startswith("passes/operators/")
    assert len(functions) <= 12, functions
