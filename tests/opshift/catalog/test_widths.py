"""The table of element types: current, and as the schemas of onnx say."""

from pathlib import Path

import onnx.defs
import pytest

from opshift.catalog import widths
from opshift.cli.main import main

ROOT = Path(__file__).parents[3]
TABLE = (ROOT / "docs" / "wide.md").read_text(encoding="utf-8")
ROWS = {
    row[0]: row[1:] for row in ([cell.strip() for cell in line.split("|")[1:-1]] for line in TABLE.splitlines()) if row
}


@pytest.mark.newest
def test_the_committed_table_is_current(capsys: pytest.CaptureFixture[str]):
    assert main(["ledger", "--types"]) == 0
    assert capsys.readouterr().out == TABLE, "run: opshift ledger --types > docs/wide.md"


@pytest.mark.newest
@pytest.mark.parametrize("op", ["Conv", "Resize", "NonMaxSuppression", "TopK", "MatMul", "Celu"])
def test_it_says_what_the_schemas_say(op: str):
    for at, kind in enumerate(["float16", "bfloat16"]):
        takes = [
            schema.since_version
            for schema in onnx.defs.get_all_schemas_with_history()
            if (schema.name, schema.domain) == (op, "")
            and any(f"tensor({kind})" in each.types for each in schema.inputs if "tensor(float)" in each.types)
        ]
        assert ROWS[op][at] == str(min(takes, default="no"))


def test_operands_that_stay_are_named():
    assert widths.as_markdown().count("\n| ") > 150
    assert ROWS["Resize"][3] == "scales, roi (in bfloat16)"
    assert ROWS["TopK"][4] == "K, Indices"
    assert ROWS["Reshape"][4] == "shape"
    assert ROWS["NonMaxSuppression"][:3] == ["no", "no", "no"]
