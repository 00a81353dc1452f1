"""The page that is written from the verdicts of a run."""

import pytest

from tests.conformance.judge import NOT_VALID, OK, OK_BY_SOURCE, REFUSED, UNJUDGED, WRONG, Verdict
from tests.conformance.report import counts, general, markdown, reasons, renewed, share

TWO = 'Add opset 7 -> 6: "a/b" has rank 3; 2 could be expressed; Cast opset 9 -> 8: "c" is tensor(string); 12 could be'
VERDICTS = [
    Verdict("test_a", "1.2.2", 9, 13, OK, engine="onnxruntime"),
    Verdict("test_a", "1.2.2", 9, 14, OK, engine="onnxruntime"),
    Verdict("test_a", "1.2.2", 9, 15, NOT_VALID, "no such type"),
    Verdict("test_a", "1.2.2", 9, 9, OK_BY_SOURCE, "engines | differ <class>", engine="onnx.reference"),
    Verdict("test_a", "1.2.2", 9, 8, UNJUDGED, "no engine"),
    Verdict("test_b", "1.10.0", 9, 7, REFUSED, TWO),
    Verdict("test_b", "1.10.0", 9, 6, REFUSED, TWO.replace('"a/b"', '"x"')),
]


def test_a_pair_counts_for_every_reason_without_names_and_numbers():
    assert reasons(VERDICTS[5]) == reasons(VERDICTS[6])
    assert reasons(VERDICTS[5]) == [
        ("Add", "opset 7 -> 6", '"…" has rank …; supported: …'),
        ("Cast", "opset 9 -> 8", '"…" is tensor(string); … could be'),
    ]


@pytest.mark.parametrize(("why", "expected"), [
    ("tensor(int4) does not exist at opset 12", "int4 does not exist there"),
    ("the operator exists from opset 20 on", "the operator exists from opset 20 on"),
    ("mode=linear with -1.5; supported: float16", "mode=linear with …; supported: float16"),
])  # fmt: skip
def test_types_and_opsets_are_no_numbers(why: str, expected: str):
    assert general(why) == expected


def test_both_kinds_of_ok_make_the_share():
    found = counts(VERDICTS)
    assert [share(found[direction]) for direction in ("up", "same", "down")] == ["100.00", "100.00", "0.00"]


def test_the_page():
    page = markdown(VERDICTS)
    assert "of onnx 1.2.2 and 1.10.0, is converted to every opset from 6 to 15" in page
    assert "2 distinct cases, 7 pairs" in page
    assert "| up | 2 | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 3 | 100.00 |" in page
    assert "| 13 | 1 | 0 |" in page
    assert '| 2 | 0 | Add | opset 7 -> 6 | "…" has rank …; … could be expressed |' in page
    assert "| test_a | 1.2.2 | 9 | 9 | engines \\| differ &lt;class> |" in page
    assert "| test_a | 1.2.2 | 9 | 8 | no engine |" in page
    assert "## Wrong\n\nNone.\n" in page


def test_carried_types_have_a_section_that_says_what_is_refused():
    page = markdown(VERDICTS, {"carry": VERDICTS})
    assert "2 cases to every opset: 7 pairs." in page
    assert "Refused:\n\n| pairs |" in page


def test_sweeps_have_sections_of_their_own():
    page = markdown(VERDICTS, {"zero": VERDICTS[:2], "runtime": [Verdict("test_c", "1.10.0", 9, 7, WRONG, "0 | 1")]})
    assert page.startswith(markdown(VERDICTS))
    zero, runtime = page.split("## Sizes of 0 and 1")[1].split("## Parameters at run time")
    assert "1 cases that some engine runs" in zero
    assert "| up | 2 | 0 |" in zero
    assert "### Wrong" not in zero
    assert "### Wrong\n\n| case | onnx | from | to | why |\n| --- | --- | --- | --- | --- |\n| test_c" in runtime


def test_a_section_is_written_anew_alone():
    sections = {"zero": VERDICTS[:2], "runtime": VERDICTS[2:3]}
    whole = markdown(VERDICTS, sections)
    assert renewed(whole, sections) == whole
    for name in sections:
        other = {**sections, name: [*VERDICTS[3:], Verdict("test_c", "1.2.2", 9, 13, WRONG, "1 instead of 2")]}
        changed = renewed(whole, {name: other[name]})
        assert changed != whole
        assert changed == markdown(VERDICTS, other)
        assert renewed(changed, sections) == whole
