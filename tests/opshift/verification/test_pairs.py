"""Pairs of models get the verdict that is right: what differs is told, and what is the same is never told different."""

from collections.abc import Iterator
from typing import Any

import pytest

from opshift.verification.combined import verify_sides
from opshift.verification.side import Side
from tests import pairs
from tests.lab.proof.pairs import Case, cases
from tests.opshift.verification.known import CONVERT, ROWS, VERIFY, WRONG, Row


def known() -> Iterator[Any]:
    for row in ROWS:
        for way in row.ways:
            marks = [pytest.mark.xfail(strict=True, reason=WRONG[row.name, way])] if (row.name, way) in WRONG else []
            yield pytest.param(row, way, id=f"{row.name}, {way}", marks=marks)


def test_no_pair_is_named_twice():
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("row", "way"), pairs.some([*known()], 9))
def test_known_pairs(row: Row, way: str):
    before, after = (Side(model) for model in row.models())
    grade = row.grade if way == CONVERT else "close"
    found = verify_sides(before, after, grade=grade, promise=way == CONVERT)
    expected = (way == VERIFY and row.of_any_origin) or row.expected
    assert found.status == expected, (found.tensor, found.why, found.remarks, found.regions)


@pytest.mark.parametrize("case", pairs.some([*cases()], 6), ids=lambda case: case.pair.name)
def test_pairs_of_the_lab(case: Case):
    before, after = (Side(model) for model in case.pair.models())
    found = verify_sides(before, after, grade="close")
    assert found.status == (case.pair.answer or case.expected), (found.tensor, found.why, found.remarks, found.regions)
