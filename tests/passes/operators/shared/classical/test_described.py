"""What is told of tree ensembles without lowering them."""

import numpy as np
import pytest
from opshift.passes.operators.shared.classical.described import Trees, trees_of

from opshift.jobs.contents import contents
from tests.classical import store
from tests.passes.operators.shared.classical.ensembles import apart, listed, model, random_tree, stump

pytestmark = pytest.mark.newest  # older kernels of classical models differ


def grown(count, depth):
    rng = np.random.default_rng(0)
    return [random_tree(rng, 5, depth, lambda: [(0, 1.0)]) for _ in range(count)]


def counted(trees):
    """By hand: inner nodes, leaves, features and the longest way."""

    def height(tree, at):
        node = tree.nodes[at]
        return 0 if isinstance(node, list) else 1 + max(height(tree, node[3]), height(tree, node[4]))

    nodes = [node for tree in trees for node in tree.nodes]
    inner = [node for node in nodes if not isinstance(node, list)]
    depth = max(height(tree, 0) for tree in trees)
    return Trees(len(trees), depth, len(inner), len(nodes) - len(inner), len({node[1] for node in inner}))


@pytest.mark.parametrize(("count", "depth"), [(1, 1), (7, 5), (20, 3)])
def test_both_kinds_are_counted(count, depth):
    trees = [tree for tree in grown(count * 2, depth) if not isinstance(tree.nodes[0], list)][:count]
    old = model("TreeEnsembleRegressor", np.float32, 5, {"n_targets": 1, **listed(trees, "target")}, 3)
    new = model("TreeEnsemble", np.float32, 5, {"n_targets": 1, **apart(trees, np.float32)}, 5)
    assert trees_of(old.graph.node[0]) == trees_of(new.graph.node[0]) == counted(trees)


def test_a_circle_has_no_depth():
    attributes = {"n_targets": 1, **listed([stump([(0, 1.0)], [(0, 2.0)])], "target"), "nodes_truenodeids": [0, 0, 0]}
    assert trees_of(model("TreeEnsembleRegressor", np.float32, 2, attributes, 3).graph.node[0]).depth is None
    attributes["nodes_truenodeids"] = [9, 0, 0]
    assert trees_of(model("TreeEnsembleRegressor", np.float32, 2, attributes, 3).graph.node[0]).depth is None


def test_what_is_no_ensemble_or_does_not_fit_is_not_told():
    source = model("TreeEnsembleRegressor", np.float32, 2, {"n_targets": 1}, 3)
    assert trees_of(source.graph.node[0]) is None
    source.graph.node[0].op_type = "Binarizer"
    assert trees_of(source.graph.node[0]) is None


def test_a_file_tells_its_trees(tmp_path):
    held, _ = store.read("forest_many")
    (found,) = contents(held, 0, str(tmp_path)).trees.values()
    assert (found.trees, found.depth, found.features) == (12, 6, 6)
