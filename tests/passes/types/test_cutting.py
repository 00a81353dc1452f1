"""Minimum cuts, compared with all cuts of small graphs."""

import random
from itertools import product

import pytest
from opshift.passes.types.cutting import Network


@pytest.mark.parametrize("seed", range(12))
def test_no_cut_is_cheaper(seed):
    rng = random.Random(seed)
    network, edges = Network(), []
    vertices = [0, 1, *(network.add() for _ in range(6))]
    for _ in range(16):
        one, other = rng.sample(vertices, 2)
        edges.append((one, other, rng.randint(0, 9)))
        network.connect(*edges[-1])

    def cost(side):
        return sum(capacity for one, other, capacity in edges if one in side and other not in side)

    side = network.source_side()
    sides = (
        {0, *(vertex for vertex, chosen in zip(vertices[2:], picked, strict=True) if chosen)}
        for picked in product([False, True], repeat=6)
    )
    assert 0 in side
    assert 1 not in side
    assert cost(side) == min(map(cost, sides))
