"""The table of definitions: current, complete, and telling where each comes from."""

from pathlib import Path

import pytest
from opshift.passes.conversion import convert
from opshift.passes.model import schemas
from opshift.passes.rewrite import registry

from opshift import functions
from opshift.catalog import definitions, lowest
from opshift.cli import main as cli
from opshift.jobs import exit_codes
from tests import pairs

ROOT = Path(__file__).parents[3]


TABLE = (ROOT / "docs" / "definitions.md").read_text(encoding="utf-8")


@pytest.fixture
def converted(monkeypatch):
    """The operators that are converted anew: one in eight, or all with `--whole`; of others, what the table says."""
    names = sorted({(d.domain, d.op) for d in definitions.definitions()})
    some = {("", "Softmax"), *pairs.some(names, 8)}
    rows = (row.split(" | ") for row in TABLE.splitlines() if row.startswith("| "))
    told = {row[0].removeprefix("| "): row[3] for row in rows if len(row) == 8}

    def found(domain, op):
        return measured(domain, op) if (domain, op) in some else told.get(f"{domain}::{op}" if domain else op)

    measured = lowest.lowest_opset
    monkeypatch.setattr(lowest, "lowest_opset", found)


@pytest.mark.long
@pytest.mark.newest
@pytest.mark.usefixtures("converted")
def test_the_committed_table_is_current():
    assert definitions.as_markdown() == TABLE, "run: opshift ledger --definitions > docs/definitions.md"


def test_every_definition_is_a_row():
    found = {(d.domain, d.op) for d in definitions.definitions()}
    firsts = {
        (domain, op)
        for (domain, op, v), pair in registry.all_registrations().items()
        if v == schemas.versions(domain, op)[0] and not pair.why
    }
    assert firsts <= found
    vendors = {(d.domain, d.op) for d in definitions.of_vendors()} | definitions.refused_operators().keys()
    assert set(registry._on_request) <= found | vendors
    assert {("", "Gelu"), ("", "ReduceL2"), (functions.OPENVINO, "NormalizeL2")} <= found


@pytest.mark.parametrize(
    "row", [*definitions.definitions(), *definitions.of_vendors()], ids=lambda row: f"{row.domain}.{row.op}"
)
def test_a_row_has_a_formula_and_a_source(row):
    path, _, name = row.code.partition(": ")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
    assert row.formula
    assert row.formula != name.replace("_", " ")
    assert row.grade in ("exact", "close", "exact or close")
    assert row.op in row.source or row.op == "Erf" or row.source in ("its kernel", "its text alone")


def test_operators_of_vendors_are_judged_by_kernels_where_there_are_any():
    sources = {f"{d.domain}::{d.op}": d.source for d in definitions.of_vendors()}
    assert sources["com.microsoft::Gelu"] == "its kernel"
    assert sources["com.microsoft::GroupNorm"] == "its text alone"
    assert sources.keys().isdisjoint(f"{domain}::{op}" for domain, op in definitions.refused_operators())
    assert "regular expressions" in definitions.refused_operators()["com.microsoft", "Tokenizer"]


@pytest.mark.parametrize(
    ("op", "source"),
    [
        ("Erf", '"Rational Chebyshev Approximations for the Error Function", 1969'),
        ("GridSample", "onnx/docs/Operators.md#GridSample"),
        ("Celu", "onnx/docs/Operators.md#Celu, with a body"),
        ("TreeEnsemble", "onnx/docs/Operators-ml.md#ai.onnx.ml.TreeEnsemble"),
        ("NormalizeL2", "the specification of OpenVINO's NormalizeL2"),
    ],
)
def test_a_source_is_the_text_that_is_followed(op, source):
    assert {d.source for d in definitions.definitions() if d.op == op} == {source}


@pytest.mark.long
@pytest.mark.newest
@pytest.mark.parametrize("op", [("", "Mish"), ("", "Celu"), ("", "Unique"), (functions.OPENVINO, "ReduceL1")])
def test_a_call_is_converted_to_the_lowest_opset_and_to_none_below(op):
    found = lowest.lowest_opset(*op)
    call = lowest._calls(*op)[0]
    reached = [o for o in range(1, 21) if convert.attempt(call, {"": o}, ops=[op]).model is not None]
    assert reached
    assert min(reached) == found


def test_an_operator_that_no_call_loses_has_no_lowest_opset():
    assert lowest.lowest_opset("", "Sin") is None


def test_operators_without_one():
    assert "Sin" in definitions.without()
    assert "LayerNormalization" not in definitions.without()


@pytest.mark.usefixtures("converted")
def test_on_the_command_line(capsys):
    assert cli.main(["ledger", "--definitions"]) == exit_codes.DONE
    assert (
        "| Softmax | Replaced Softmax by exp(x - m) / sum(exp(x - m)) along axis, m = max(x) | 13 | 1 | "
        in capsys.readouterr().out
    )
