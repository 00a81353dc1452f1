"""Tree ensembles of ai.onnx.ml: parameters in double, and TreeEnsemble beside the older regressor."""

import numpy as np
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import TensorProto as T
from opshift.passes.conversion import convert

from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.shared.classical import ensembles
from tests.support import check_refused, check_unchanged, check_values, evaluate, model

ML = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
ROWS = np.array([[0, 0.5], [1, 0.25], [2, 3], [0, np.inf], [np.nan, 1], [1, np.nan], [-0.0, 2]])
DTYPES = {T.FLOAT: np.float32, T.DOUBLE: np.float64, T.INT64: np.int64, T.FLOAT16: np.float16}


def build(op, kind, out, targets, opset=3, **attributes):
    node = onnx.helper.make_node(op, ["x"], ["y"], domain=ML, n_targets=targets, **attributes)
    io = [
        onnx.helper.make_tensor_value_info("x", kind, ["N", 2]),
        onnx.helper.make_tensor_value_info("y", out, ["N", targets]),
    ]
    graph = onnx.helper.make_graph([node], "g", io[:1], io[1:])
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(ML, opset)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)


def regressor(trees, kind=T.FLOAT, targets=1, **attributes):
    """Trees are lists of nodes: (mode, feature, value, true, false, tracks) or a dict of votes by target."""
    columns = "treeids nodeids modes featureids values truenodeids falsenodeids missing_value_tracks_true"
    lists = {name: [] for name in columns.split()}
    votes = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree, nodes in enumerate(trees):
        for name, node in enumerate(nodes):
            leaf = isinstance(node, dict)
            mode, feature, value, true, false, tracks = ("LEAF", 0, 0, 0, 0, 0) if leaf else node
            row = (tree, name, mode, feature, float(value), true, false, tracks)
            for column, entry in zip(lists.values(), row, strict=True):
                column.append(entry)
            for target, weight in node.items() if leaf else ():
                for column, entry in zip(votes.values(), (tree, name, target, float(weight)), strict=True):
                    column.append(entry)
    given = {f"nodes_{name}": values for name, values in lists.items()}
    given |= {f"target_{name}": values for name, values in votes.items()}
    return build("TreeEnsembleRegressor", kind, T.FLOAT, targets, **{**given, **attributes})


def stump(mode="BRANCH_LEQ", tracks=0, true=None, false=None, feature=1, value=0.5):
    return [(mode, feature, value, 1, 2, tracks), true or {0: 1.5}, false or {0: -2.0}]


DEEP = [
    ("BRANCH_LT", 0, 1, 3, 1, 1), ("BRANCH_GT", 1, 0.25, 2, 4, 0), {0: 8.0}, ("BRANCH_EQ", 1, 2, 5, 6, 0),
    {0: 0.5}, {0: 16.0}, {0: -4.0},
]  # fmt: skip


def convert_both(source, target, x, rtol=0.0):
    result = convert.attempt(source, {ML: target})
    assert not result.refusals, result.refusals
    onnx.checker.check_model(result.model)
    check_values(source, result.model, {"x": x}, rtol=rtol, atol=0)
    return result


def rows(kind):
    return ROWS.astype(DTYPES[kind]) if kind != T.INT64 else np.array([[0, 1], [3, 2], [-1, 0]])


# --- parameters in double ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "grade"), [(T.FLOAT, "exact"), (T.DOUBLE, "close")])
def test_tensors_of_parameters_become_lists(kind, grade):
    source = regressor([stump()], kind)
    node = source.graph.node[0]
    for name in ("nodes_values", "target_weights"):
        held = next(a for a in node.attribute if a.name == name)
        tensor = onnx.numpy_helper.from_array(np.array(held.floats, DTYPES[kind]))
        held.CopyFrom(onnx.helper.make_attribute(f"{name}_as_tensor", tensor))
    result = convert_both(source, 1, rows(kind))
    held = {a.name: list(a.floats) for a in result.model.graph.node[0].attribute if a.floats}
    assert held == {"nodes_values": [0.5, 0, 0], "target_weights": [1.5, -2]}
    assert result.grade == grade


def test_doubles_that_are_no_floats_are_refused():
    held = onnx.numpy_helper.from_array(np.array([0.1, 0, 0]))
    source = regressor([stump()], T.DOUBLE, nodes_values=None, nodes_values_as_tensor=held)
    (refusal,) = convert.attempt(source, {ML: 1}).refusals
    assert (
        refusal.why
        == "nodes_values_as_tensor holds doubles that float32 does not hold exactly; supported: float32 values"
    )


@pytest.mark.parametrize("target", [1, 2, 3, 4])
def test_lists_of_parameters_stay(target):
    source = regressor([stump()])
    result = convert.attempt(source, {ML: target})
    assert not result.changes
    assert result.model.graph.node[0] == source.graph.node[0]


# --- the regressor becomes TreeEnsemble -------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tracks", [0, 1])
def test_one_tree(mode, tracks):
    result = convert_both(regressor([stump(mode, tracks)]), 5, rows(T.FLOAT))
    assert [n.op_type for n in result.model.graph.node] == ["TreeEnsemble"]
    assert result.grade == "exact"


@pytest.mark.newest
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_several_trees_one_of_them_a_leaf(aggregate):
    trees = [stump(), DEEP, [{0: 3.0}]]
    assert convert_both(regressor(trees, aggregate_function=aggregate), 5, rows(T.FLOAT)).grade == "exact"


@pytest.mark.parametrize("transform", ["SOFTMAX_ZERO", "NONE"])
def test_transforms(transform):
    trees = [stump(true={0: 1.0}, false={1: 2.0}), stump(true={1: 0.5}, false={0: -1.0}, feature=0)]
    convert_both(regressor(trees, targets=2, post_transform=transform), 5, rows(T.FLOAT))


@pytest.mark.newest
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
def test_leaves_with_several_votes(aggregate):
    trees = [stump(true={0: 1.0, 1: 4.0}, false={1: 2.0}), DEEP, [{2: 3.0, 0: 1.0}], [{}]]
    source = regressor(trees, targets=3, aggregate_function=aggregate)
    result = convert_both(source, 5, rows(T.FLOAT), rtol=1e-6)
    assert result.grade == "close"


@pytest.mark.newest
@pytest.mark.parametrize("transform", ["SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("given", [{}, {"base_values": [0.25, 0.125]}])
def test_transforms_are_computed_behind_it(transform, given):
    """SOFTMAX and LOGISTIC always, as runtimes read their numbers differently; others after base values."""
    trees = [stump(true={0: 0.25, 1: 0.5}, false={0: 0.5, 1: 0.25})]
    source = regressor(trees, targets=2, post_transform=transform, **given)
    source.opset_import[0].version = 18
    result = convert_both(source, 5, rows(T.FLOAT), rtol=1e-4)
    (held,) = [node for node in result.model.graph.node if node.op_type == "TreeEnsemble"]
    written = {a.name: onnx.helper.get_attribute_value(a) for a in held.attribute}
    assert written["post_transform"] in (0, 3, 4)


@pytest.mark.newest
@pytest.mark.parametrize("transform", ["SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_of_one_score_no_transform_makes_anything_else(transform):
    convert_both(regressor([stump()], post_transform=transform, base_values=[0.25]), 5, rows(T.FLOAT))


def test_base_values_are_added():
    result = convert_both(regressor([stump(), DEEP], base_values=[0.25]), 5, rows(T.FLOAT))
    assert [n.op_type for n in result.model.graph.node] == ["TreeEnsemble", "Add"]


def test_doubles_stay_doubles():
    result = convert_both(regressor([stump(), DEEP], T.DOUBLE), 5, rows(T.DOUBLE))
    assert [n.op_type for n in result.model.graph.node] == ["TreeEnsemble", "Cast"]
    assert result.grade == "exact"


def test_integers_are_compared_as_floats():
    # onnxruntime has no regressor of integers; the same trees over floats are the oracle.
    result = convert.attempt(regressor([stump(), DEEP], T.INT64), {ML: 5})
    assert result.grade == "close"
    (expected,) = evaluate(regressor([stump(), DEEP]), {"x": rows(T.INT64).astype(np.float32)})
    (actual,) = evaluate(result.model, {"x": rows(T.INT64)})
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("trees", "attributes", "why"),
    [
        ([stump(true={0: 1, 1: 2})], {"aggregate_function": "MAX"}, "MAX is used with several votes in one leaf"),
        (
            [stump(true={1: 1, 0: 2}, false={1: 1, 0: 2})],
            {"base_values": [1.0, 2.0], "post_transform": "SOFTMAX_ZERO"},
            "post_transform=SOFTMAX_ZERO with base_values or an average needs opset 18 or newer",
        ),
        ([stump()], {"base_values": [1.0, 2.0]}, "base_values is given for a target that no leaf votes for"),
        ([stump()], {"aggregate_function": "MEDIAN"}, "MEDIAN is used with 1 trees and 2 targets"),
        ([stump("BRANCH_ODD")], {}, "a node of a tree has the mode BRANCH_ODD"),
        ([[*stump(), {0: 1.0}]], {}, "a root that is not its first node"),
        ([[{0: 1.0}, {0: 2.0}, ("BRANCH_LEQ", 1, 0.5, 0, 1, 0)]], {}, "a root that is not its first node"),
        ([stump()], {"base_values": [1.0, 2.0], "targets": 1}, "base_values is given for a target"),
        ([stump()], {"nodes_modes": ["LEAF"]}, "have lists of different lengths"),
    ],
)
def test_what_no_ensemble_expresses_is_refused(trees, attributes, why):
    source = regressor(trees, **{"targets": 2, **attributes})
    (refusal,) = convert.attempt(source, {ML: 5}).refusals
    assert why in refusal.why


def test_the_classifier_needs_room_for_its_scores_at_5():
    text = """y, z = ai.onnx.ml.TreeEnsembleClassifier<
    classlabels_int64s=[0, 1], nodes_treeids=[0], nodes_nodeids=[0], nodes_modes=["LEAF"],
    class_treeids=[0], class_nodeids=[0], class_ids=[0], class_weights=[1.0]>(x)"""
    io = {"inputs": "float[4,2] x", "outputs": "int64[4] y, float[4,2] z", "domain": ML}
    check_refused(text, 3, 5, "or opset 18 of the default domain", **io)
    check_unchanged(text, 1, 4, **io)


def classifier(trees, classes, **attributes):
    held = ensembles.listed(trees, "class")
    labels = {"classlabels_int64s": list(range(7, 7 + classes))}
    return ensembles.model("TreeEnsembleClassifier", np.float32, 2, {**labels, **held, **attributes}, 3, version=18)


@pytest.mark.newest
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_the_classifier_becomes_an_ensemble_and_what_chooses(classes, transform):
    rng = np.random.default_rng(classes)
    for base in (None, [0.25] * classes if classes != 2 else [0.25]):
        voters = [0] if classes == 2 else list(range(classes))
        trees = [
            ensembles.random_tree(rng, 2, 3, lambda v=voters: [(c, float(rng.normal())) for c in v]) for _ in range(4)
        ]
        source = classifier(trees, classes, post_transform=transform, base_values=base)
        result = convert.attempt(source, {"": 18, ML: 5})
        assert result.model is not None, "\n".join(map(str, result.refusals))
        assert [node.op_type for node in result.model.graph.node if node.domain == ML] == ["TreeEnsemble"]
        rows = ensembles.rows_around([0.0, 0.5, 2.0], 2, np.float32, rng)
        for place, (want, got) in enumerate(
            zip(OnnxRuntime(source).run({"x": rows}), OnnxRuntime(result.model).run({"x": rows}), strict=True)
        ):
            assert (want.dtype, want.shape) == (got.dtype, got.shape)
            if place or classes > 1:  # of a single class the kernel chooses 1 or 0
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_classifier_whose_rows_may_have_no_vote_is_refused():
    trees = [ensembles.stump([(0, 0.5)], [(1, 0.75)])]
    result = convert.attempt(classifier(trees, 2), {"": 18, ML: 5})
    assert "some leaves of a tree have no vote" in str(result.refusals[0])


# --- TreeEnsemble becomes the regressor -------------------------------------------------------------------


@pytest.mark.newest
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_there_and_back(aggregate):
    source = regressor([stump(tracks=1), DEEP, [{0: 3.0}]], aggregate_function=aggregate)
    newer = convert.attempt(source, {ML: 5}).model
    result = convert_both(newer, 1, rows(T.FLOAT))
    assert [n.op_type for n in result.model.graph.node] == ["TreeEnsembleRegressor"]
    assert result.grade == "exact"
    (before,), (after,) = (evaluate(m, {"x": rows(T.FLOAT)}) for m in (source, result.model))
    np.testing.assert_array_equal(after, before)


def ensemble(kind=T.FLOAT, **attributes):
    """Feature 0 in {1, 2, 4}: leaf 0; else feature 1 in {0.5}: leaf 1; else leaf 2."""
    dtype = DTYPES[kind]
    given = {
        "tree_roots": [0], "nodes_featureids": [0, 1], "nodes_truenodeids": [0, 1], "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 2], "nodes_falseleafs": [0, 1], "leaf_targetids": [0, 1, 0],
        "nodes_modes": np.array([6, 6], np.uint8), "nodes_splits": np.zeros(2, dtype),
        "leaf_weights": np.array([1.5, -2, 4], dtype),
        "membership_values": np.array([1, 2, 4, np.nan, 0.5, np.nan], dtype), **attributes,
    }  # fmt: skip
    given = {n: onnx.numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for n, v in given.items()}
    return build("TreeEnsemble", kind, kind, 2, 5, **given)


def test_members_of_a_set_become_a_chain_of_nodes():
    result = convert_both(ensemble(), 4, rows(T.FLOAT))
    held = {a.name: a for a in result.model.graph.node[0].attribute}
    assert list(held["nodes_modes"].strings) == [b"BRANCH_EQ"] * 3 + [b"LEAF", b"BRANCH_EQ", b"LEAF", b"LEAF"]
    assert list(held["nodes_truenodeids"].ints)[:5] == [3, 3, 3, 0, 5]
    assert list(held["nodes_falsenodeids"].ints)[:5] == [1, 2, 4, 0, 6]


def test_members_may_lack_the_last_mark():
    members = np.array([1, 2, 4, np.nan, 0.5], np.float32)
    result = convert.attempt(ensemble(membership_values=members), {ML: 4})
    (before,), (after,) = (evaluate(m, {"x": rows(T.FLOAT)}) for m in (ensemble(), result.model))
    np.testing.assert_array_equal(after, before)


def test_half_precision_is_carried_in_float():
    # onnxruntime has no TreeEnsemble of float16; the same trees in float32 are the oracle.
    result = convert.attempt(ensemble(T.FLOAT16), {ML: 4})
    assert [n.op_type for n in result.model.graph.node] == ["Cast", "TreeEnsembleRegressor", "Cast"]
    assert result.grade == "close"
    (expected,) = evaluate(ensemble(), {"x": rows(T.FLOAT)})
    (actual,) = evaluate(result.model, {"x": rows(T.FLOAT16)})
    np.testing.assert_array_equal(actual, expected.astype(np.float16))


@pytest.mark.parametrize(
    ("kind", "attributes", "why"),
    [
        (T.DOUBLE, {}, "or opset 18 of the default domain"),
        (T.FLOAT, {"membership_values": np.array([1, np.nan], np.float32)}, "1 sets of members for 2 nodes"),
        (T.FLOAT, {"membership_values": np.array([1, np.nan, np.nan], np.float32)}, "one filled set for each node"),
        (T.FLOAT, {"n_targets": 0}, "n_targets is missing"),
    ],
)
def test_what_no_regressor_expresses_is_refused(kind, attributes, why):
    source = ensemble(kind, **{k: v for k, v in attributes.items() if k != "n_targets"})
    if "n_targets" in attributes:
        kept = [a for a in source.graph.node[0].attribute if a.name != "n_targets"]
        del source.graph.node[0].attribute[:]
        source.graph.node[0].attribute.extend(kept)
    (refusal,) = convert.attempt(source, {ML: 4}).refusals
    assert why in refusal.why


@pytest.mark.newest
@pytest.mark.parametrize("transform", range(5))
@pytest.mark.parametrize("targets", [1, 2])
def test_transforms_by_number(transform, targets):
    """1 is LOGISTIC and 2 SOFTMAX, as onnxruntime reads them."""
    source = ensemble(post_transform=transform, leaf_weights=np.array([0.5, 0.25, 0.75], np.float32))
    if targets == 1:
        kept = [a for a in source.graph.node[0].attribute if a.name not in ("n_targets", "leaf_targetids")]
        del source.graph.node[0].attribute[:]
        source.graph.node[0].attribute.extend(kept)
        source.graph.node[0].attribute.append(onnx.helper.make_attribute("n_targets", 1))
        source.graph.node[0].attribute.append(onnx.helper.make_attribute("leaf_targetids", [0, 0, 0]))
        source.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1
    result = convert_both(source, 4, rows(T.FLOAT))
    assert [node.op_type for node in result.model.graph.node] == ["TreeEnsembleRegressor"]
    said = " ".join(change.remark for change in result.changes)
    assert ("used onnxruntime's" in said) == (transform in (1, 2) and targets == 2)


@pytest.mark.newest
def test_doubles_become_tables_as_no_regressor_returns_them():
    source = ensemble(T.DOUBLE, leaf_weights=np.array([0.1, 1e-17, -1e300]))
    source.opset_import[0].version = 18
    result = convert_both(source, 4, rows(T.DOUBLE), rtol=1e-15)
    assert {node.domain for node in result.model.graph.node} == {""}


def test_an_ensemble_stays_from_5_on():
    source = ensemble()
    assert not convert.attempt(source, {ML: 5}).changes


def test_one_row_of_features_becomes_a_matrix_from_3_on():
    attributes = regressor([stump()]).graph.node[0].attribute
    text = "y = ai.onnx.ml.TreeEnsembleRegressor<n_targets=1>(x)"
    io = {"outputs": "float[A,B] y", "domains": '"ai.onnx.ml" : 1'}

    def source(inputs: str):
        made = model(text, 13, inputs=inputs, **io)
        made.graph.node[0].attribute.extend(a for a in attributes if a.name != "n_targets")
        return made

    for inputs, ops in [("float[N,2] x", []), ("float[2] x", ["Reshape"])]:
        made = convert.attempt(source(inputs), {ML: 3}).model
        onnx.checker.check_model(made, full_check=True)
        assert [node.op_type for node in made.graph.node[:-1]] == ops
        check_values(source(inputs), made, rtol=0, atol=0)
    assert [node.op_type for node in convert.attempt(source("float[N,2] x"), {ML: 5}).model.graph.node] == [
        "TreeEnsemble"
    ]
    for inputs in ("float x", "float[2,2,2] x"):
        (refusal,) = convert.attempt(source(inputs), {ML: 3}).refusals
        assert "supported: a matrix of rows, or one row" in refusal.why
