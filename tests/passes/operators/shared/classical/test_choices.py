"""Tree ensembles where there is no GatherElements: comparisons of all nodes, and choices from the leaves to the roots."""

import numpy as np
import pytest
from opshift.passes.operators.shared.classical import choices

from tests.passes.operators.shared.classical.ensembles import (
    MODES,
    apart,
    check,
    held_bytes,
    listed,
    lowered,
    model,
    random_tree,
    rows_around,
    stump,
)

pytestmark = pytest.mark.newest  # older kernels of trees differ

VALUES = [0.0, -0.0, 0.5, -1.5, 2.0, 2.0**24]
LEAF = type(stump([], []))


def operators(held):
    return {node.op_type for node in held.graph.node}


def vote(rng, targets):
    return lambda: [(int(t), float(rng.normal())) for t in rng.choice(targets, rng.integers(1, targets + 1), False)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("modes", [*([mode] for mode in MODES), MODES])
@pytest.mark.parametrize("targets", [1, 3])
def test_every_mode_leads_to_the_same_leaves(modes, dtype, targets):
    """Equality tests lead to one node from two others."""
    rng = np.random.default_rng(0)
    for depth in (1, 3, 5):
        trees = [random_tree(rng, 3, depth, vote(rng, targets), modes) for _ in range(6)]
        attributes = {"n_targets": targets, **listed([*trees, LEAF([[(0, 2.5)]])], "target")}
        source = model("TreeEnsembleRegressor", dtype, 3, attributes, 3)
        result = check(source, rows_around(VALUES, 3, dtype, rng), 9)
        assert "Where" in operators(result)


def test_trees_of_one_target_stand_together():
    rng, owners = np.random.default_rng(1), [2, 0, 1, 1, 2, 0]
    trees = [random_tree(rng, 3, 4, lambda o=owner: [(o, float(rng.normal()))]) for owner in owners]
    attributes = {"n_targets": 3, **listed(trees, "target")}
    check(model("TreeEnsembleRegressor", np.float32, 3, attributes, 3), rows_around(VALUES, 3, np.float32, rng), 10)


def test_targets_without_a_vote():
    rng = np.random.default_rng(2)
    trees = [random_tree(rng, 3, 4, vote(rng, 2)) for _ in range(3)]
    attributes = {"n_targets": 2, "aggregate_function": "MIN", "base_values": [1.0, 2.0], **listed(trees, "target")}
    check(model("TreeEnsembleRegressor", np.float32, 3, attributes, 3), rows_around(VALUES, 3, np.float32, rng), 9)


def test_sets_and_any_number_of_features():
    rng = np.random.default_rng(3)
    tree = stump([(0, 1.0)], [(0, 2.0)], tracks=1)
    attributes = {"n_targets": 1, **apart([tree, tree], np.float32, {(0, 0): [1.0, 3.0, 4.0, 9.0]})}
    check(model("TreeEnsemble", np.float32, "F", attributes, 5), rows_around([1, 3, 5, 9], 2, np.float32, rng), 9)


@pytest.mark.long
def test_nodes_do_not_grow_with_trees_and_memory_stays_below_twice_the_model():
    counts = []
    for count in (100, 300):
        rng = np.random.default_rng(4)
        grown = [random_tree(rng, 3, 6, lambda r=rng: [(0, float(r.normal()))], MODES[:1]) for _ in range(count)]
        source = model("TreeEnsembleRegressor", np.float32, 3, {"n_targets": 1, **listed(grown, "target")}, 3)
        result = lowered(source, 9)
        assert held_bytes(result) < 2 * source.ByteSize()
        assert "Where" in operators(result)
        counts.append(len(result.graph.node))
    assert counts[1] <= counts[0] + 4 * 8


def test_levels_are_looked_up_where_that_is_faster():
    assert choices.is_faster(3000, 100, 12)  # 100 trees of LightGBM with 31 leaves
    assert not choices.is_faster(1023, 1, 10)  # a full tree: 1023 choices, or 10 levels
    assert not choices.is_faster(choices.MOST_NODES + 1, 1000, 60)
    assert not choices.is_faster(0, 5, 0)  # leaves alone
