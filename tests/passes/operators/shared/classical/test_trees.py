"""Tree ensembles as tables of the default domain, judged by onnxruntime's kernels on the rows where trees decide."""

import numpy as np
import onnx.numpy_helper
import pytest
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel

from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.shared.classical.ensembles import (
    MODES,
    apart,
    check,
    held_bytes,
    listed,
    lowered,
    model,
    random_tree,
    remarks,
    rows_around,
    stump,
)

pytestmark = pytest.mark.newest  # older kernels of trees differ

VALUES = [0.0, -0.0, 0.5, -1.5, 2.0, 2.0**24, 0.1]


def ensemble(rng, targets=1, trees=5, depth=5, **options):
    """Random trees whose weights tell which leaves were reached."""

    def vote():
        return [(int(t), float(rng.normal())) for t in rng.choice(targets, rng.integers(1, targets + 1), replace=False)]

    return [random_tree(rng, 3, depth, options.get("vote", vote), options.get("modes", MODES)) for _ in range(trees)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("modes", [*([mode] for mode in MODES), MODES[:4], MODES[1:3], MODES])
def test_every_mode_leads_to_the_same_leaves(modes, dtype):
    rng = np.random.default_rng(0)
    for seed in range(4):
        trees = ensemble(rng, modes=modes, depth=2 + seed)
        source = model("TreeEnsembleRegressor", dtype, 3, {"n_targets": 1, **listed(trees, "target")}, 3)
        check(source, rows_around(VALUES, 3, dtype, rng))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_thresholds_are_compared_in_the_type_of_the_kernel(dtype):
    """Integers are compared in float32, so that 2^24 + 1 is 2^24; doubles with thresholds as float32 holds them."""
    rng = np.random.default_rng(1)
    trees = [stump([(0, 1.0), (1, 0.5)], [(2, 2.0)], value=value) for value in (2.0**24, 0.1, -3.0)]
    attributes = {"classlabels_int64s": [0, 1, 2], **listed(trees, "class")}
    rows = rows_around([*VALUES, 2**24 + 2, -3, -2], 2, dtype, rng)
    check(model("TreeEnsembleClassifier", dtype, 2, attributes, 3), rows)


@pytest.mark.parametrize("opset", [8, 9, 10, 11, 13, 17, 19, 21])
def test_at_every_opset(opset):
    rng = np.random.default_rng(2)
    attributes = {"n_targets": 2, **listed(ensemble(rng, 2), "target")}
    check(model("TreeEnsembleRegressor", np.float32, 3, attributes, 1), rows_around(VALUES, 3, np.float32, rng), opset)


def test_any_number_of_features():
    rng = np.random.default_rng(3)
    attributes = {"n_targets": 1, **listed(ensemble(rng), "target")}
    check(model("TreeEnsembleRegressor", np.float32, "F", attributes, 3), rows_around(VALUES, 5, np.float32, rng))


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 2, 3])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
def test_aggregates_base_values_and_transforms(aggregate, targets, transform):
    rng = np.random.default_rng(4)
    for base in (None, [0.25, -0.5, 0.125][:targets]):
        trees = ensemble(rng, targets)
        attributes = {
            "n_targets": targets, "aggregate_function": aggregate, "post_transform": transform, "base_values": base,
            **listed(trees, "target"),
        }  # fmt: skip
        check(
            model("TreeEnsembleRegressor", np.float32, 3, attributes, 3), rows_around(VALUES, 3, np.float32, rng),
            rtol=1e-4, atol=1e-4,  # as PROBIT cancels in the kernel near 0.5
        )  # fmt: skip


@pytest.mark.parametrize("classes", [3, 4, 7])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
def test_classifiers(classes, transform):
    rng = np.random.default_rng(classes)
    labels = [int(label) for label in rng.permutation(20)[:classes]]

    def everyone():
        return [(c, float(rng.random())) for c in range(classes)]

    for base in (None, [float(v) for v in rng.normal(size=classes)]):
        trees = ensemble(rng, classes, vote=everyone)
        attributes = {
            "classlabels_int64s": labels, "post_transform": transform, "base_values": base, **listed(trees, "class"),
        }  # fmt: skip
        rows = rows_around(VALUES, 3, np.float32, rng)
        check(model("TreeEnsembleClassifier", np.float32, 3, attributes, 3), rows, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("trees", [[3, 3], [5, 1], [1]])
def test_a_target_for_each_tree(trees):
    """Boosted trees vote for one class each; as many for each, or more for some."""
    rng, owners = np.random.default_rng(5), [target for target, count in enumerate(trees) for _ in range(count)]
    rng.shuffle(owners)
    grown = [random_tree(rng, 3, 4, lambda o=owner: [(o, float(rng.normal()))]) for owner in owners]
    for aggregate in ("SUM", "MIN"):
        attributes = {"n_targets": 3, "aggregate_function": aggregate, **listed(grown, "target")}
        check(model("TreeEnsembleRegressor", np.float32, 3, attributes, 3), rows_around(VALUES, 3, np.float32, rng))


def test_labels_that_are_strings():
    rng = np.random.default_rng(6)
    attributes = {"classlabels_strings": ["a", "b"], **listed([stump([(0, 0.3)], [(0, 0.6)])], "class")}
    check(model("TreeEnsembleClassifier", np.float32, 2, attributes, 3), rows_around(VALUES, 2, np.float32, rng))


def test_a_lone_leaf_is_a_tree():
    attributes = {"n_targets": 1, **listed([type(stump([], []))([[(0, 2.5)]])], "target")}
    check(model("TreeEnsembleRegressor", np.float32, 2, attributes, 3), np.zeros((4, 2), np.float32))


def test_deep_trees_end_in_a_loop():
    """A chain of 90 nodes: what lies below 32 levels is a loop, and the number of nodes is bounded."""
    rng = np.random.default_rng(7)
    nodes = []
    for at in range(90):
        nodes += [("BRANCH_LEQ", at % 3, -1.0 - at / 100, 2 * at + 1, 2 * at + 2, 0), [(0, float(at))]]
    nodes.append([(0, 1000.0)])
    attributes = {"n_targets": 1, **listed([type(stump([], []))(nodes)], "target")}
    rows = rng.normal(size=(50, 3)).astype(np.float32) - 1
    result = check(model("TreeEnsembleRegressor", np.float32, 3, attributes, 3), rows)
    assert "Loop" in {node.op_type for node in result.graph.node}


def test_nodes_do_not_grow_with_trees_and_memory_stays_below_twice_the_model():
    sizes = []
    for trees in (10, 100):
        rng = np.random.default_rng(8)
        grown = [random_tree(rng, 3, 6, lambda r=rng: [(0, float(r.normal()))], MODES[:1]) for _ in range(trees)]
        source = model("TreeEnsembleRegressor", np.float32, 3, {"n_targets": 1, **listed(grown, "target")}, 3)
        result = lowered(source)
        assert held_bytes(result) < 2 * source.ByteSize()
        sizes.append(len(result.graph.node))
    assert sizes[1] <= sizes[0] + 4 * 8  # another number of levels is compared at once


def test_many_targets_of_which_each_leaf_has_one():
    rng = np.random.default_rng(9)
    grown = [random_tree(rng, 3, 5, lambda: [(int(rng.integers(200)), float(rng.normal()))]) for _ in range(6)]
    source = model("TreeEnsembleRegressor", np.float32, 3, {"n_targets": 200, **listed(grown, "target")}, 3)
    result = check(source, rows_around(VALUES, 3, np.float32, rng))
    assert "ScatterElements" in {node.op_type for node in result.graph.node}
    assert held_bytes(result) < 2 * source.ByteSize()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", range(4))
def test_tree_ensemble(kind, aggregate):
    rng = np.random.default_rng(10)
    for targets in (1, 3):
        grown = [
            random_tree(rng, 3, 4, lambda t=targets: [(int(rng.integers(t)), float(rng.normal()))]) for _ in range(5)
        ]
        grown = [tree for tree in grown if not isinstance(tree.nodes[0], list)]
        attributes = {"n_targets": targets, "aggregate_function": aggregate, **apart(grown, kind)}
        check(model("TreeEnsemble", kind, 3, attributes, 5), rows_around(VALUES, 3, kind, rng))


@pytest.mark.parametrize("members", [[1.0], [1.0, 2.0], [1.0, 2.0, 3.0, 5.0, 8.0], [0.0], [1.5]])
@pytest.mark.parametrize("tracks", [0, 1])
def test_set_membership(members, tracks):
    rng = np.random.default_rng(11)
    tree = stump([(0, 1.0)], [(0, 2.0)], tracks=tracks)
    attributes = {"n_targets": 1, **apart([tree, tree], np.float32, {(0, 0): members})}
    rows = rows_around([*members, 3.0, 4.0], 2, np.float32, rng)
    check(model("TreeEnsemble", np.float32, 2, attributes, 5), rows)


@pytest.mark.parametrize("tracks", [0, 1])
@pytest.mark.parametrize("members", [[1.5, 40.0, 7.0], [40.0], [-1.0, 2.0], [-np.inf, np.inf, 0.5], list(range(100))])
def test_sets_that_the_kernel_does_not_load_or_reads_without_fractions(members, tracks):
    tree = stump([(0, 1.0)], [(0, 2.0)], tracks=tracks)
    source = model("TreeEnsemble", np.float32, 1, {"n_targets": 1, **apart([tree], np.float32, {(0, 0): members})}, 5)
    rows = rows_around([*members, 1.25], 1, np.float32, np.random.default_rng(12), 400)
    (values,) = OnnxRuntime(lowered(source)).run({"x": rows})
    member = np.isin(rows, np.array(members, np.float32)) | (np.isnan(rows) & bool(tracks))
    np.testing.assert_array_equal(values, np.where(member, 1, 2))
    assert "fraction" in remarks(source)


def test_half_precision_compares_in_float16():
    tree = stump([(0, 1.0)], [(0, 2.0)], value=0.1)
    attributes = {"n_targets": 1, **apart([tree], np.float16)}
    result = lowered(model("TreeEnsemble", np.float16, 2, attributes, 5))
    at = np.float16(0.1)
    rows = np.array([[at, 0], [np.nextafter(at, np.float16(1)), 0], [np.nan, 0]], np.float16)
    (values,) = OnnxRuntime(result).run({"x": rows})
    assert values.dtype == np.float16
    assert values.ravel().tolist() == [1, 2, 2]


# --- models that are none ------------------------------------------------------------------------------------


def refused(attributes, why, op="TreeEnsembleRegressor", opset=3):
    source = model(op, np.float32, 2, attributes, opset)
    with pytest.raises(InvalidModel, match=why):
        convert.attempt(source, {"": 17}, ops=[("ai.onnx.ml", op)])


STUMP = {"n_targets": 1, **listed([stump([(0, 1.0)], [(0, 2.0)])], "target")}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "has a cycle"),
        ({"nodes_truenodeids": [7, 0, 0]}, "node 7 of tree 0 is missing; a child refers to it"),
        ({"target_nodeids": [1, 5]}, "node 5 of tree 0 is missing; a vote refers to it"),
        ({"target_ids": [0, 3]}, "target_ids name target 3, but there are 1"),
        ({"nodes_featureids": [2, 0, 0]}, "a node tests feature 2 of 2"),
        ({"nodes_modes": ["BRANCH_XOR", "LEAF", "LEAF"]}, "a node has mode 'BRANCH_XOR'"),
        ({"nodes_nodeids": [0, 1, 1]}, "tree 0 has two nodes 1"),
        ({"nodes_values": [0.0]}, "nodes_values has 1 entries, nodes_treeids 3"),
        ({"target_weights": [1.0]}, "target_weights has 1 entries, target_treeids 2"),
        ({"base_values": [1.0, 2.0]}, "base_values has 2 entries for 1 targets"),
        ({"n_targets": 0}, "n_targets is 0"),
        ({"aggregate_function": "MEDIAN"}, "aggregate_function is 'MEDIAN'"),
        ({"post_transform": "TANH"}, "post_transform is 'TANH'"),
    ],
)
def test_a_bad_regressor_is_no_model(changes, why):
    refused({**STUMP, **changes}, why)


def test_weights_for_a_class_that_is_not_there():
    attributes = {"classlabels_int64s": [0, 1], **listed([stump([(0, 1.0)], [(4, 2.0)])], "class")}
    refused(attributes, "class_ids name class 4, but there are 2", "TreeEnsembleClassifier")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"nodes_trueleafs": [0]}, "has a cycle"),
        ({"nodes_truenodeids": [9]}, "nodes_truenodeids name leaf 9, but there are 2"),
        ({"tree_roots": [3]}, "tree_roots name node 3, but there are 1"),
        ({"leaf_targetids": [0, 2]}, "leaf_targetids name target 2, but there are 1"),
        ({"membership_values": onnx.numpy_helper.from_array(np.array([1, np.nan], np.float32))}, "hold 1 sets for 0"),
    ],
)
def test_a_bad_ensemble_is_no_model(changes, why):
    attributes = {"n_targets": 1, **apart([stump([(0, 1.0)], [(0, 2.0)])], np.float32), **changes}
    refused(attributes, why, "TreeEnsemble", 5)


def test_special_values_are_part_of_what_is_drawn():
    drawn = rows_around([], 2, np.float32, np.random.default_rng(0), 400)
    assert all(kind(drawn).any() for kind in (np.isnan, np.isposinf, np.isneginf))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parameters_in_tensors(dtype):
    """Of doubles where the features are, with thresholds that float32 does not hold."""
    rng = np.random.default_rng(13)
    held = listed(ensemble(rng, 2), "target")
    for name in ("nodes_values", "target_weights"):
        values = np.array(held.pop(name), dtype)
        values = values if name == "target_weights" else values + dtype(0.1)
        held[f"{name}_as_tensor"] = onnx.numpy_helper.from_array(values)
    base = onnx.numpy_helper.from_array(np.array([0.1, -0.3], dtype))
    attributes = {"n_targets": 2, "base_values_as_tensor": base, **held}
    rows = rows_around([value + 0.1 for value in VALUES], 3, dtype, rng)
    check(model("TreeEnsembleRegressor", dtype, 3, attributes, 3), rows)


def test_nodes_and_trees_in_any_order():
    """Ids need not be counted from 0, nor trees stand together."""
    rng = np.random.default_rng(14)
    held = listed(ensemble(rng), "target")
    for name in ("nodes_treeids", "target_treeids"):
        held[name] = [7 * tree + 3 for tree in held[name]]
    attributes = {"n_targets": 1, **held}
    check(model("TreeEnsembleRegressor", np.float32, 3, attributes, 3), rows_around(VALUES, 3, np.float32, rng))
