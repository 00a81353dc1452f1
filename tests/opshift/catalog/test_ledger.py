"""How steps may end: the table is that of their sources, and what is read of these is what they do."""

import pytest
from opshift.passes.errors import CannotConvert
from opshift.passes.rewrite import registry

from tests.opshift.catalog import tabulate

RUN = "python -m tests.lab endings, then opshift ledger --markdown > docs/support.md"


@pytest.mark.long
def test_the_committed_table_is_current():
    assert tabulate.TABLE.read_text(encoding="utf-8") == tabulate.render(), f"run: {RUN}"


def test_a_step_that_ends_otherwise_is_another_line(monkeypatch):
    def refuse(node):
        raise CannotConvert(node, "it holds nothing")

    pair = registry.Pair(up=refuse, down=registry.step("", "Celu", 28).down)
    monkeypatch.setitem(registry._steps, ("", "Celu", 28), pair)
    assert tabulate.render().replace("\tCelu\t28\tup\trefused: it holds nothing\n", "") == tabulate.TABLE.read_text(
        "utf-8"
    )
    assert "it holds nothing" in tabulate.render()


@pytest.mark.parametrize(
    ("op", "version", "why"),
    [
        ("Attention", 24, "the mask holds integers"),  # said by a helper that is imported by its name
        ("ReverseSequence", 10, "the rank of"),  # by one that is called by the name of its file
    ],
)
def test_what_helpers_refuse_is_refused(op, version, why):
    found = tabulate.endings(registry.step("", op, version).down)
    assert any(ending.startswith(f"refused: {why}") for ending in found), found


def test_what_grades_itself_is_close_and_what_asks_may_not_be_answered():
    def step(node):
        if node.rank() > 1 or node.elem_type() == 1:
            node.close("sums are rounded otherwise")
            node.close("twice")

    assert tabulate.endings(step) == ["close", "refused: the rank is unknown", "refused: the type is unknown"]
