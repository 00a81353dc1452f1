"""The table of vendors' operators says what the installed onnxruntime says, and each has a definition or a reason."""

import subprocess
import sys

import onnxruntime
import pytest
from opshift.passes.inlining import definable
from opshift.passes.model import schemas
from opshift.passes.model.schemas import MICROSOFT, ONNXRUNTIME
from opshift.passes.rewrite import registry

from opshift.catalog import vendors


@pytest.mark.long
def test_the_table_is_what_the_onnxruntime_yields_that_it_names():
    """An older one than that has nothing that the table has not, but for texts that were written anew since."""
    source = schemas.vendor_table()["source"]
    if source == f"onnxruntime {onnxruntime.__version__}":
        assert vendors.TABLE.read_text(encoding="utf-8") == vendors.render()
        assert vendors.new() == []
    assert [line for line in vendors.new() if line.endswith(": new")] == []


def test_what_a_new_wheel_brings_is_listed(monkeypatch):
    held = vendors.tabulate()
    held["schemas"][MICROSOFT]["Zork"] = {"1": {"text": "0"}}
    held["schemas"][MICROSOFT]["Gelu"]["1"]["text"] = "0"
    monkeypatch.setattr(vendors, "tabulate", lambda: held)
    assert {"com.microsoft::Zork 1: new", "com.microsoft::Gelu 1: its text changed"} <= set(vendors.new())


def test_no_conversion_imports_onnxruntime():
    code = "import sys, opshift.passes.conversion.convert, opshift.passes.model.schemas as s; s.vendor_table(); assert 'onnxruntime' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_defaults_arity_and_kernels():
    found = schemas.schema(MICROSOFT, "SkipLayerNormalization", 1)
    assert found is not None
    assert found.attributes["epsilon"].default.f == pytest.approx(1e-12)
    assert (found.min_input, found.max_input, found.max_output) == (3, 5, 4)
    assert {text for row in schemas.kernels(MICROSOFT, "Gelu") for text in row["T"]} == {"tensor(float)"}
    assert not schemas.kernels(MICROSOFT, "GroupNorm")
    assert schemas.operators(ONNXRUNTIME)
    assert schemas.versions("", "SimplifiedLayerNormalization") == ()
    assert not schemas.is_onnx_domain(MICROSOFT)


def test_a_second_definition_is_an_error():
    registry.definition(MICROSOFT, "FastGelu")
    with pytest.raises(ValueError, match="FastGelu is already defined"):
        registry.refused("FastGelu", "", domain=MICROSOFT)
    with pytest.raises(ValueError, match="Zork does not exist"):
        registry.refused("Zork", "", domain=MICROSOFT)


def test_each_operator_has_a_definition_or_a_reason_for_none():
    silent = {
        (domain, op)
        for domain in schemas.VENDORS
        for op in schemas.operators(domain)
        if not definable.is_defined(domain, op) and registry.definition(domain, op) is None
    }
    assert not silent


def test_what_the_cpu_runs_is_defined():
    run = [op for op in schemas.operators(MICROSOFT) if schemas.kernels(MICROSOFT, op)]
    assert (len(run), sum(definable.is_defined(MICROSOFT, op) for op in run)) == (86, 73)
