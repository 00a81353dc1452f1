"""The core converts, inlines and verifies without any extra, and loads no file of one."""

import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from tests import pairs

ROOT = Path(__file__).parents[2]
RUN = """
import sys
from tests import extras

if sys.argv[1] == "core":
    extras.block()
from opshift.cli.main import main

assert main(sys.argv[2:]) == 0
print("loaded", *extras.loaded())
"""


def run(how, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", RUN, how, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    "asked", pairs.some([("convert", "--opset", "9"), ("inline", "--op", "ReduceL2"), ("convert", "--opset", "13")], 2)
)
def test_the_core_alone_does_the_same_and_nobody_loads_an_extra(asked, tmp_path):
    verb, *options = asked
    for how in ("core", "whole"):
        printed = run(how, verb, ROOT / "examples" / "encoder.onnx", tmp_path / f"{how}.onnx", *options)
        assert "equal" in printed
        assert printed.splitlines()[-1].strip() == "loaded"
    assert (tmp_path / "core.onnx").read_bytes() == (tmp_path / "whole.onnx").read_bytes()


def test_an_extra_is_missed_where_it_is_asked_for(tmp_path):
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run("core", "optimize", ROOT / "examples" / "encoder.onnx", tmp_path / "out.onnx")
    assert "opshift.passes.optimization is an extra" in failed.value.stderr


@pytest.mark.long
def test_what_the_core_writes_is_a_model(tmp_path):
    run("core", "convert", ROOT / "examples" / "encoder.onnx", tmp_path / "out.onnx", "--opset", "11", "--no-verify")
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)


def test_a_call_of_a_vendor_has_no_definition_in_the_core(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]> g (float[2] x) => (float[2] y) {
        y = com.microsoft.QuickGelu(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run("core", "inline", tmp_path / "in.onnx", tmp_path / "out.onnx", "--op", "com.microsoft::QuickGelu")
    assert "Traceback" not in failed.value.stderr.replace('Traceback (most recent call last):\n  File "<string>"', "")
    assert not (tmp_path / "out.onnx").exists()
