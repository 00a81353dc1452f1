"""Splits by categories, as chains of BRANCH_EQ and as sets, judged by onnxruntime's kernels."""

import numpy as np
import pytest

from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.shared.classical.ensembles import (
    Tree,
    apart,
    check,
    held_bytes,
    listed,
    lowered,
    model,
    rows_around,
    stump,
)

pytestmark = pytest.mark.newest  # older kernels of trees differ


def chain(values, tracks=(), feature=0, mode="BRANCH_EQ"):
    """A tree that asks for each value in turn, as LightGBM and XGBoost write a set: all of them lead to one leaf."""
    count = len(values)
    nodes = [
        (mode, feature, value, count, count + 1 if at + 1 == count else at + 1, tracks[at] if tracks else 0)
        for at, value in enumerate(values)
    ]
    return Tree([*nodes, [(0, 1.0)], [(0, 2.0)]])


def regressor(*trees, dtype=np.float32, features=2):
    return model("TreeEnsembleRegressor", dtype, features, {"n_targets": 1, **listed(trees, "target")}, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("values", [[3], [1, 4, 7], [0, -2, 5], [90, 3, 200], [0.5, 2.0, -1.5], [1, 1e6, 9]])
def test_chains_reach_the_same_leaves(values, dtype):
    rng = np.random.default_rng(0)
    trees = [chain(values), chain(values[::-1], feature=1), chain(values[:2])]
    check(regressor(*trees, dtype=dtype), rows_around([*values, 2, 2.5, 6, -1, 1e9], 2, dtype, rng, 400))


@pytest.mark.parametrize("tracks", [(0, 0, 0), (1, 1, 1)])
def test_missing_values_in_chains(tracks):
    rows = rows_around([1, 2, 3, 4], 2, np.float32, np.random.default_rng(1), 200)
    check(regressor(chain([1, 2, 3], tracks), chain([2, 4, 1], tracks, 1)), rows)


def test_nodes_do_not_grow_with_the_length_of_chains():
    sizes = []
    for length in (4, 100):
        source = regressor(chain(list(range(length))), chain(list(range(1, 2 * length, 2)), feature=1))
        result = check(
            source, rows_around([*range(length), length, 2 * length], 2, np.float32, np.random.default_rng(2))
        )
        assert held_bytes(result) < 2 * source.ByteSize()
        sizes.append(len(result.graph.node))
    assert sizes[0] == sizes[1] < 40


def test_sets_whose_numbers_are_far_apart_are_searched_for():
    values = [3.0, 1e6, 5e6, 7.0, 2e5]
    source = regressor(chain(values), chain([1e6, 4.0]))
    result = check(source, rows_around([*values, 4, 2, 8], 2, np.float32, np.random.default_rng(3), 400))
    assert held_bytes(result) < 4 * source.ByteSize()


def test_a_chain_that_others_lead_into_is_no_set():
    nodes = [
        ("BRANCH_LEQ", 1, 0.0, 1, 2, 0),
        ("BRANCH_EQ", 0, 1.0, 4, 2, 0),  # 2 and 3 are asked for on the way from the root, too
        ("BRANCH_EQ", 0, 2.0, 4, 3, 0),
        ("BRANCH_EQ", 0, 3.0, 4, 5, 0),
        [(0, 1.0)],
        [(0, 2.0)],
    ]
    result = lowered(regressor(Tree(nodes)))  # the kernel does not load it
    (values,) = OnnxRuntime(result).run({"x": np.array([[1, 0], [1, 5], [2, 5], [3, 0], [4, 5]], np.float32)})
    np.testing.assert_array_equal(values[:, 0], [1, 2, 1, 1, 2])


@pytest.mark.parametrize(
    "link", [("BRANCH_EQ", 1, 2.0, 3, 4, 0), ("BRANCH_EQ", 0, 2.0, 4, 3, 0), ("BRANCH_NEQ", 0, 2.0, 3, 4, 0)]
)
def test_links_that_differ_are_no_set(link):
    nodes = [("BRANCH_EQ", 0, 1.0, 3, 1, 0), link, ("BRANCH_EQ", 0, 9.0, 3, 4, 0), [(0, 1.0)], [(0, 2.0)]]
    check(regressor(Tree(nodes)), rows_around([1, 2, 9, 0], 2, np.float32, np.random.default_rng(5), 300))


@pytest.mark.parametrize("opset", [8, 9, 11, 13, 21])
def test_sets_at_every_opset(opset):
    rng = np.random.default_rng(6)
    trees = [chain([1, 2, 5]), chain([0, 7], (1, 1), 1), stump([(0, 4.0)], [(0, 8.0)], "BRANCH_NEQ", 5.0, 1)]
    check(regressor(*trees), rows_around([1, 2, 5, 7, 0, 3], 2, np.float32, rng), opset)


@pytest.mark.parametrize("features", [2, "F"])
def test_any_number_of_features(features):
    rows = rows_around([1, 2, 3, 4], 2, np.float32, np.random.default_rng(7), 200)
    check(regressor(chain([1, 3], feature=1), features=features), rows)


def test_a_chain_that_starts_at_a_second_root():
    """A root inside of a chain begins another tree, which the whole chain leads through as well."""
    tree = chain([1, 2, 3])
    attributes = {"n_targets": 1, **apart([tree], np.float32), "tree_roots": [0, 1]}
    result = lowered(model("TreeEnsemble", np.float32, 1, attributes, 5))
    (values,) = OnnxRuntime(result).run({"x": np.array([[0], [1], [2], [3], [4]], np.float32)})
    np.testing.assert_array_equal(values[:, 0], [4, 3, 2, 2, 4])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_members_are_exact_where_they_are_looked_up(dtype):
    tree = stump([(0, 1.0)], [(0, 2.0)])
    attributes = {"n_targets": 1, **apart([tree], dtype, {(0, 0): [0.0, 2.0, 3.0, 2047.0]})}
    result = lowered(model("TreeEnsemble", dtype, 1, attributes, 5))
    rows = np.array([[0], [-0.0], [2], [2.0019], [1.5], [2047], [2046], [np.inf], [np.nan], [-1], [6e-8]], dtype)
    (values,) = OnnxRuntime(result).run({"x": rows})
    np.testing.assert_array_equal(values[:, 0], [1, 1, 1, 2, 2, 1, 2, 2, 2, 2, 2])


def test_places_that_half_precision_does_not_hold_are_not_looked_up():
    values = [float(value) for value in range(-2000, 2001, 4)]
    tree = chain(values)
    result = lowered(model("TreeEnsemble", np.float16, 1, {"n_targets": 1, **apart([tree], np.float16)}, 5))
    rows = np.array([[-2000], [1999], [2000], [1976], [1975], [0], [1], [24]], np.float16)
    assert "Floor" not in {node.op_type for node in result.graph.node}  # onnxruntime would compute it in float32
    (values,) = OnnxRuntime(result).run({"x": rows})
    np.testing.assert_array_equal(values[:, 0], [1, 2, 1, 1, 2, 1, 2, 1])
