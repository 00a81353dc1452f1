"""Tree ensembles for tests: random ones of every mode, and what onnxruntime and their lowered forms make of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx import ModelProto, TensorProto
from opshift.passes.conversion import convert

from opshift.verification.engines import OnnxRuntime

ML = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
KINDS = {
    np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE, np.int64: TensorProto.INT64,
    np.int32: TensorProto.INT32, np.float16: TensorProto.FLOAT16,
}  # fmt: skip
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 2.0**24 + 1, 1e-40, -1e-40]


@dataclass
class Tree:
    """Nodes as (mode, feature, value, true, false, tracks), leaves as lists of votes (target, weight)."""

    nodes: list[Any] = field(default_factory=list)


Votes = Sequence[tuple[int, float]]


def stump(true: Votes, false: Votes, mode: str = "BRANCH_LEQ", value: float = 0.0, tracks: int = 0) -> Tree:
    """One node and two leaves; the tree of the n-th call tests the feature that `listed` gives it."""
    return Tree([(mode, 0, value, 1, 2, tracks), list(true), list(false)])


def random_tree(
    rng: np.random.Generator, features: int, depth: int, vote: Any, modes: Sequence[str] = MODES, values: Any = None
) -> Tree:
    """A tree of uneven depth."""
    nodes: list[Any] = []
    draw = values or (lambda: float(rng.choice([0.0, -0.0, 0.5, -1.5, 2.0, 2.0**24, np.inf, -np.inf])))

    def grow(left: int) -> int:
        at = len(nodes)
        nodes.append(None)
        if left == 0 or rng.random() < 0.15:
            nodes[at] = vote()
            return at
        mode, feature = str(rng.choice(modes)), int(rng.integers(features))
        true, false = grow(left - 1), grow(left - 1)
        nodes[at] = (mode, feature, draw(), true, false, int(rng.integers(2)))
        return at

    grow(depth)
    return Tree(nodes)


def listed(trees: Sequence[Tree], side: str) -> dict[str, Any]:
    """The attributes nodes_* and `side`_* of the older operators."""
    columns = "treeids nodeids modes featureids values truenodeids falsenodeids missing_value_tracks_true"
    lists: dict[str, list[Any]] = {f"nodes_{name}": [] for name in columns.split()}
    votes: dict[str, list[Any]] = {f"{side}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree, held in enumerate(trees):
        for name, node in enumerate(held.nodes):
            leaf = isinstance(node, list)
            mode, feature, value, true, false, tracks = ("LEAF", 0, 0.0, 0, 0, 0) if leaf else node
            row = (tree, name, mode, feature, float(value), true, false, tracks)
            for column, entry in zip(lists.values(), row, strict=True):
                column.append(entry)
            for target, weight in node if leaf else ():
                for column, entry in zip(votes.values(), (tree, name, target, float(weight)), strict=True):
                    column.append(entry)
    return {**lists, **votes}


def apart(
    trees: Sequence[Tree], dtype: Any, members: Mapping[tuple[int, int], list[float]] | None = None
) -> dict[str, Any]:
    """The attributes of TreeEnsemble; nodes in `members`, by tree and place, look for members of a set."""
    inner: dict[tuple[int, int], int] = {}
    leaf: dict[tuple[int, int], int] = {}
    for t, tree in enumerate(trees):
        for n, node in enumerate(tree.nodes):
            table = leaf if isinstance(node, list) else inner
            table[t, n] = len(table)
    rows = [(key, trees[key[0]].nodes[key[1]]) for key in inner]
    sides = {"true": 3, "false": 4}
    children = {side: [(key[0], node[at]) for key, node in rows] for side, at in sides.items()}
    held = [(members or {}).get(key) for key, _ in rows]
    modes = [6 if m is not None else MODES.index(node[0]) for m, (_, node) in zip(held, rows, strict=True)]
    sets = [v for m in held if m is not None for v in (*m, np.nan)]
    votes = [trees[t].nodes[n][0] for t, n in leaf]

    def tensor(values: Any, of: Any) -> TensorProto:
        return onnx.numpy_helper.from_array(np.asarray(values, of))

    attributes = {
        "tree_roots": [inner[t, 0] for t in range(len(trees))],
        "nodes_featureids": [node[1] for _, node in rows],
        "nodes_modes": tensor(modes, np.uint8),
        "nodes_splits": tensor([node[2] for _, node in rows], dtype),
        "nodes_missing_value_tracks_true": [node[5] for _, node in rows],
        "leaf_targetids": [target for target, _ in votes],
        "leaf_weights": tensor([weight for _, weight in votes], dtype),
    }
    for side, keys in children.items():
        attributes[f"nodes_{side}nodeids"] = [inner[key] if key in inner else leaf[key] for key in keys]
        attributes[f"nodes_{side}leafs"] = [int(key in leaf) for key in keys]
    if sets:
        attributes["membership_values"] = tensor(sets, dtype)
    return attributes


def model(
    op: str, dtype: Any, features: int | str, attributes: Mapping[str, Any], opset: int, version: int = 17
) -> ModelProto:
    """A model of one node, with any number of rows."""
    names = ["y", "z"] if op.endswith("Classifier") else ["y"]
    node = onnx.helper.make_node(op, ["x"], names, name="trees", domain=ML)
    for name, value in attributes.items():
        if value is not None:
            node.attribute.append(onnx.helper.make_attribute(name, value))
    labels = TensorProto.STRING if "classlabels_strings" in attributes else TensorProto.INT64
    kinds = (
        [labels, TensorProto.FLOAT]
        if len(names) == 2
        else [KINDS[dtype] if op == "TreeEnsemble" else TensorProto.FLOAT]
    )
    shapes = [["M"], ["M", "E"]] if len(names) == 2 else [["M", "E"]]
    graph = onnx.helper.make_graph(
        [node], "g", [onnx.helper.make_tensor_value_info("x", KINDS[dtype], ["N", features])],
        [onnx.helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in zip(names, kinds, shapes, strict=True)],
    )  # fmt: skip
    imports = [onnx.helper.make_opsetid("", version), onnx.helper.make_opsetid(ML, opset)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)


def lowered(source: ModelProto, opset: int = 17) -> ModelProto:
    """The model without operators of ai.onnx.ml."""
    ops = frozenset((node.domain, node.op_type) for node in source.graph.node if node.domain == ML)
    result = convert.attempt(source, {"": opset}, ops=ops)
    assert result.model is not None, "\n".join(map(str, result.refusals))
    assert all(node.domain != ML for node in result.model.graph.node)
    assert [held.domain for held in result.model.opset_import] == [""]
    onnx.checker.check_model(result.model, full_check=True)
    return result.model


def held_bytes(lowered: ModelProto) -> int:
    """What the tables of a model take."""
    return sum(tensor.ByteSize() for tensor in lowered.graph.initializer)


def remarks(source: ModelProto) -> str:
    """What is said of the change."""
    ops = frozenset((node.domain, node.op_type) for node in source.graph.node if node.domain == ML)
    return " ".join(change.remark for change in convert.attempt(source, {"": 17}, ops=ops).changes)


def check(
    source: ModelProto, rows: np.ndarray, opset: int = 17, rtol: float = 1e-5, atol: float = 1e-6, labels: bool = True
) -> ModelProto:
    """Both forms agree on the rows, all together and one alone."""
    result = lowered(source, opset)
    before, after = OnnxRuntime(source), OnnxRuntime(result)
    for some in (rows, rows[:1], rows[:0]):
        expected = before.run({"x": some})
        actual = after.run({"x": some})
        for want, got in zip(expected, actual, strict=True):
            assert (want.dtype, want.shape) == (got.dtype, got.shape)
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
            elif labels:
                np.testing.assert_array_equal(got, want)
    return result


def rows_around(
    values: Sequence[float], features: int, dtype: Any, rng: np.random.Generator, count: int = 200
) -> np.ndarray:
    """Rows of values, of their neighbours, and of special ones."""
    known = np.asarray([*values, *SPECIAL], np.float64)
    if np.dtype(dtype).kind == "i":
        known = known[np.isfinite(known)]
        return rng.choice(np.concatenate([known, known + 1, known - 1]), (count, features)).astype(dtype)
    near = known.astype(dtype)
    with np.errstate(all="ignore"):
        near = np.concatenate([near, np.nextafter(near, dtype(np.inf)), np.nextafter(near, dtype(-np.inf))])
    return rng.choice(near, (count, features))
