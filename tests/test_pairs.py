"""The tests that are left out show nothing that others do not."""

from itertools import combinations, product

import numpy as np
import pytest

from tests import pairs
from tests.pairs import cover, is_product, numbered


@pytest.mark.parametrize("sizes", [(2, 2, 2), (4, 3, 3, 2, 2), (7, 4, 3, 3)])
def test_every_pair_of_values_is_there_and_few_are_there_twice(sizes):
    rows = list(product(*map(range, sizes)))
    chosen = [rows[index] for index in cover(rows, 2)]
    for (a, first), (b, second) in combinations(enumerate(sizes), 2):
        assert {(row[a], row[b]) for row in chosen} == set(product(range(first), range(second)))
    assert len(chosen) <= 1.5 * max(first * second for first, second in combinations(sizes, 2))


def test_of_two_parameters_each_value_is_there_where_every_combination_was_asked_for():
    rows = list(product(range(4), range(3)))
    chosen = [rows[index] for index in cover(rows, 1)]
    assert len(chosen) == 4
    assert {a for a, _ in chosen} == {0, 1, 2, 3}
    assert {b for _, b in chosen} == {0, 1, 2}
    assert is_product(rows)
    assert not is_product(rows[1:])


def test_values_take_turns_unless_the_whole_is_asked_for(monkeypatch):
    monkeypatch.setattr(pairs, "whole", False)
    assert pairs.some("abcd", 3) == "ad"
    assert pairs.in_turn("abc", [1, 2]) == [("a", 1), ("b", 2), ("c", 1)]
    monkeypatch.setattr(pairs, "whole", True)
    assert pairs.some("abcd", 3) == "abcd"
    assert pairs.in_turn("ab", [1, 2]) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_what_is_asked_for_alone_is_needed():
    assert cover([(1, 0, 1)], 2) == [0]


def test_parameters_that_vary_together_count_once():
    kinds = [("A", np.zeros(9)), ("B", np.zeros(9))]
    calls = [{"op": op, "held": held, "same": 1, "size": size} for op, held in kinds for size in (1, 2)]
    assert numbered(calls) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert numbered([{}]) == [()]
