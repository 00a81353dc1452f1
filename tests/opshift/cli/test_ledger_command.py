"""The support table: current, complete, and telling grades and refusals apart."""

from pathlib import Path

import onnx.defs
import pytest
from opshift.passes.model import schemas

from opshift.catalog import ledger
from opshift.cli import main as cli

TABLE = Path(__file__).parents[3] / "docs" / "support.md"


def test_the_committed_table_is_current():
    assert TABLE.read_text(encoding="utf-8") == ledger.as_markdown(), "run: opshift ledger --markdown > docs/support.md"


def test_every_version_of_every_operator_has_a_row():
    found = {(row.domain, row.op, row.newer) for row in ledger.rows()}
    expected = {
        (d, op, v) for d in ledger.DOMAINS for op in schemas.operators(d) for v in schemas.versions(d, op) if v > 1
    }
    assert found == expected


def row(op, version):
    return next(r for r in ledger.rows(version) if r.op == op)


def test_what_a_row_tells():
    moved = row("ReduceMax", 18)
    assert str(moved.up).startswith("exact: Moved axes from attribute to input")
    assert "the rank is unknown" in moved.down.refused
    assert moved.down.close, "run-time axes may be rounded otherwise"
    assert "bfloat16 added" in row("ReduceL1", 13).up.what
    assert any("bfloat16" in why for why in row("ReduceL1", 13).down.refused)
    assert str(row("StringConcat", 20).down).startswith("refused: no operator below opset 20 joins strings")
    assert row("StringConcat", 20).up is None
    assert row("DepthToSpace", 28).up.what == "no change"


@pytest.mark.parametrize(
    ("opset", "expected"), [(28, "ReduceLogSum 18 -> 28: up"), (29, "no operator changes at opset 29")]
)
def test_what_an_opset_needs(opset, expected, capsys):
    assert cli.main(["ledger", "--opset", str(opset)]) == 0
    printed = capsys.readouterr().out
    assert expected in printed
    assert "UNDECIDED" not in printed


def test_a_transition_that_nobody_decided_is_named(capsys, monkeypatch):
    monkeypatch.setattr(ledger.registry, "step", lambda *_: None)
    cli.main(["ledger", "--opset", "18"])
    assert "ReduceMax 13 -> 18: UNDECIDED" in capsys.readouterr().out


@pytest.mark.newest
def test_an_operator_newer_than_the_table_is_named(monkeypatch):
    monkeypatch.setattr(schemas, "versions", lambda *_: ())
    assert any(
        line.startswith("SwiGLU new -> 28: UNDECIDED") for line in ledger.list_changes(onnx.defs.onnx_opset_version())
    )


def test_the_history_of_an_operator_and_the_files_that_tell_it(capsys):
    assert cli.main(["ledger", "--op", "Celu", "--op", "ai.onnx::Exp", "--op", "opshift.openvino::ReduceL1"]) == 0
    celu, exp, reduced = capsys.readouterr().out.split("\n\n")
    assert celu.splitlines()[:4] == [
        "Celu",
        "  written in passes/operators/math/activations.py",
        "  defined in functions/math.py",
        "from 12",
    ]
    assert "  down  exact or close: replaced by its definition" in celu
    assert "12 -> 28\n  up    exact: no change\n  down  exact or close: Replaced Celu by" in celu
    assert exp.startswith(
        "Exp\n  written in passes/operators/math/exponentials.py\n1 -> 6\n  up    exact: Dropped the attribute consumed_inputs"
    )
    assert reduced == "opshift.openvino::ReduceL1\n  defined in functions/openvino.py\n"


def test_the_history_of_an_operator_at_one_opset(capsys):
    assert cli.main(["ledger", "--op", "Exp", "--opset", "13"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "6 -> 13",
        "  up    exact: no change",
        "  down  exact: no change",
        "        refused: types that it does not accept there, unless cast: bfloat16",
    ]


@pytest.mark.parametrize(("name", "said"), [("Rezise", "; did you mean Resize?"), ("Zzz", "unknown operator 'Zzz'\n")])
def test_the_history_of_an_unknown_operator(name, said, capsys):
    assert cli.main(["ledger", "--op", name]) == 2
    assert said in capsys.readouterr().err


def test_the_files_that_histories_name_exist():
    for domain in ledger.definable.DOMAINS:
        for op in ledger.definable.operators(domain):
            told = ledger.history(f"{domain}::{op}")
            assert all((TABLE.parents[1] / file).is_file() for file in (told.file, told.definition) if file), op


def test_the_plain_list(capsys):
    assert cli.main(["ledger"]) == 0
    assert "CastLike new -> 15: down exact: Replaced CastLike by Cast" in capsys.readouterr().out
