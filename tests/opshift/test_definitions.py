"""The table of definitions: current, complete, and telling where each comes from."""

from pathlib import Path

import pytest
from opshift.passes import registry, schemas

from opshift import cli, definitions, functions

ROOT = Path(__file__).parents[2]


def test_the_committed_table_is_current():
    table = (ROOT / "docs" / "definitions.md").read_text(encoding="utf-8")
    assert table == definitions.as_markdown(), "run: opshift ledger --definitions > docs/definitions.md"


def test_every_definition_is_a_row():
    found = {(d.domain, d.op) for d in definitions.definitions()}
    firsts = {
        (domain, op)
        for (domain, op, v), pair in registry.registered().items()
        if v == schemas.versions(domain, op)[0] and not pair.why
    }
    assert firsts <= found
    assert set(registry._on_request) <= found
    assert {("", "Gelu"), ("", "ReduceL2"), (functions.OPENVINO, "NormalizeL2")} <= found


@pytest.mark.parametrize("row", list(definitions.definitions()), ids=lambda row: f"{row.domain}.{row.op}")
def test_a_row_has_a_formula_and_a_source(row):
    path, _, name = row.source.partition(": ")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
    assert row.formula
    assert row.formula != name.replace("_", " ")
    assert row.grade in ("exact", "close", "exact or close")


def test_operators_without_one():
    assert "Sin" in definitions.without()
    assert "LayerNormalization" not in definitions.without()


def test_on_the_command_line(capsys):
    assert cli.main(["ledger", "--definitions"]) == cli.DONE
    assert "| Softmax | exp(x - m) / sum(exp(x - m)) along axis, with m = max(x) | 13 | " in capsys.readouterr().out
