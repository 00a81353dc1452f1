"""Tree ensembles of ai.onnx.ml: parameters in double came, then TreeEnsemble instead of the older operators.

Those list nodes and leaves together, found by tree and node id, and a leaf votes for any number of targets.
TreeEnsemble lists them apart, found by position, and a leaf votes for one target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.classical.classes import class_labels
from opshift.passes.operators.shared.classical.forest import ONLY_TARGET
from opshift.passes.operators.shared.classical.post_transforms import apply_transform, checked_transform
from opshift.passes.operators.shared.classical.sums import Totals
from opshift.passes.operators.shared.classical.trees import (
    OPSET,
    classify,
    classify_by_choices,
    classify_by_tables,
    evaluate_by_choices,
    evaluate_by_tables,
    numbered_transform,
    regress_by_choices,
    regress_by_tables,
)
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
ML = "ai.onnx.ml"

# What TreeEnsemble numbers, by what the older operators spell.
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
MEMBER = len(MODES)
AGGREGATES = ["AVERAGE", "SUM", "MIN", "MAX"]
# onnxruntime swaps the numbers of SOFTMAX and LOGISTIC: nodes behind TreeEnsemble compute these.
TRANSFORMS = {"NONE": 0, "SOFTMAX_ZERO": 3, "PROBIT": 4}


# --- both regressor and classifier, 1 and 3 ---------------------------------------------------------------


@says("Moved parameters of the trees from double tensors to float lists")
def doubles_to_floats(node: Node) -> None:
    for name in [name for name in node.attributes if name.endswith("_as_tensor")]:
        held = node.attributes[name]
        values = numbers(node, name)
        narrow = tensors.array(tensors.tensor(values, T.FLOAT))
        if held.data_type != T.FLOAT:
            node.close("compared and added in float32")
            if narrow is None or narrow.tolist() != values:
                raise CannotConvert(
                    node, f"{name} holds doubles that float32 does not hold exactly", supported="float32 values"
                )
        del node.attributes[name]
        node.attributes[name.removesuffix("_as_tensor")] = values


def numbers(node: Node, name: str) -> list[float]:
    """The values of an attribute that is a list or a tensor of numbers; none if it is absent."""
    held = node.attributes.get(name, [])
    if not isinstance(held, TensorProto):
        return [float(value) for value in held]
    values = tensors.array(held)
    if values is None:
        raise CannotConvert(node, f"{name} is empty")
    return [float(value) for value in values.ravel()]


@says("Replaced TreeEnsembleClassifier, which is deprecated, by TreeEnsemble and ArgMax")
def classifier_to_ensemble(node: Node) -> list[str]:
    if node.build.opset < OPSET:
        raise CannotConvert(
            node,
            "the operator is deprecated",
            supported=f"ai.onnx.ml up to opset 4, or opset {OPSET} of the default domain",
        )
    labels, transform = class_labels(node, "classlabels_int64s", "classlabels_strings"), checked_transform(node)
    trees = _read(node, "class", len(labels.values))
    targets = sorted({target for tree in trees for target in tree.targets()})
    if not targets or targets[-1] >= len(labels.values) or targets[0] < 0:
        raise CannotConvert(
            node, f"the trees vote for the classes {targets}, but there are {len(labels.values)} classes"
        )
    node.close("sums votes tree by tree")
    made = _Trees()
    for tree in trees:
        for target in sorted(tree.targets()):
            _grow(made, tree, target)
    made.targets = [targets.index(target) for target in made.targets]
    build, doubles = node.build, node.elem_type() == T.DOUBLE or any(n.endswith("_as_tensor") for n in node.attributes)
    wide = T.DOUBLE if doubles else T.FLOAT
    x = node.input(0) if node.elem_type() == wide else build.Cast(node.input(0), to=wide)
    values = build.emit("TreeEnsemble", [x], _attributes(made, wide, len(targets), "SUM", "NONE"), domain=ML)

    def find_voted(asked: list[int], told: bool = False) -> str | bool:
        always = [any(not tree.misses_target(target) for tree in trees) for target in asked]
        if all(always) or not any(target in targets for target in asked):
            return all(always)
        if told:
            return ""
        raise CannotConvert(node, "some leaves of a tree have no vote", supported="a vote in each leaf of a tree")

    found = Totals(targets, build.set_type(str(values), wide, [None, len(targets)]), find_voted)
    positive = all(weight >= 0 for tree in trees for votes in tree.votes.values() for _, weight in votes)
    return classify(node, labels, transform, found, wide, positive=positive)


@says("Reshaped a vector of features to one row")
def rows_of_features(node: Node) -> None:
    rank = node.scope.rank(node.input(0))
    if rank == 1:
        node.set_input(0, node.build.Reshape(node.input(0), [1, -1]))
    elif rank not in (None, 2):
        raise CannotConvert(
            node, f"{node.op_type} gets features of rank {rank}", supported="a matrix of rows, or one row"
        )


# --- the regressor becomes TreeEnsemble -------------------------------------------------------------------


@dataclass
class _Trees:
    """TreeEnsemble's lists: one entry a node, where a child is a position and whether that is a leaf's."""

    roots: list[int] = field(default_factory=list)
    features: list[int] = field(default_factory=list)
    modes: list[int] = field(default_factory=list)
    splits: list[float] = field(default_factory=list)
    tracks: list[int] = field(default_factory=list)
    true: list[tuple[int, int]] = field(default_factory=list)
    false: list[tuple[int, int]] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)


@says("Replaced TreeEnsembleRegressor, which is deprecated, by TreeEnsemble")
def regressor_to_ensemble(node: Node) -> str:
    given = node.attributes
    aggregate, transform = given.get("aggregate_function", "SUM"), checked_transform(node)
    count, base = given.get("n_targets", 0), _parameter(node, "base_values")
    transform = transform if count > 1 or transform == "PROBIT" else "NONE"  # of one score runtimes make nothing else
    trees = _read(node, "target", count)
    single = all(len(votes) == 1 for tree in trees for votes in tree.votes.values())
    averaged = aggregate == "AVERAGE" and not single
    if not single and aggregate not in ("SUM", "AVERAGE"):
        raise CannotConvert(
            node, f"{aggregate} is used with several votes in one leaf; supported: one vote in each leaf"
        )
    at_last = transform if any(base) or averaged or transform not in TRANSFORMS else "NONE"
    if at_last == "SOFTMAX_ZERO" and node.build.opset < OPSET:
        raise CannotConvert(
            node,
            f"post_transform=SOFTMAX_ZERO with base_values or an average needs opset {OPSET} or newer",
        )
    if any(base) and (len(base) != count or any(tree.misses(count) for tree in trees)):
        raise CannotConvert(
            node, "base_values is given for a target that no leaf votes for; supported: votes for every target"
        )
    if aggregate not in AGGREGATES or not trees or not count:
        raise CannotConvert(
            node,
            f"{aggregate} is used with {len(trees)} trees and {count} targets",
            supported="one tree and one target",
        )
    made = _Trees()
    for tree in trees:
        for target in [None] if single else sorted(tree.targets() or {0}):
            _grow(made, tree, target)
    if not single:
        node.close("sums votes tree by tree")
    build, elem_type = node.build, node.elem_type()
    doubles = elem_type == T.DOUBLE or any(name.endswith("_as_tensor") for name in given)
    wide = T.DOUBLE if doubles else T.FLOAT
    if elem_type in (T.INT64, T.INT32) or (wide == T.DOUBLE and elem_type != T.DOUBLE):
        node.close("compared and added in another type")
    x = node.input(0) if elem_type == wide else build.Cast(node.input(0), to=wide)
    chosen = "SUM" if averaged else aggregate
    inside = transform if at_last == "NONE" else "NONE"
    values = build.emit("TreeEnsemble", [x], _attributes(made, wide, count, chosen, inside), domain=ML)
    if averaged:
        values = build.Div(values, build.constant(float(len(trees)), wide))
    if any(base):
        values = build.Add(values, build.constant(base, wide))
    if at_last != "NONE":
        node.close(f"computes {at_last} by separate nodes")
        values = apply_transform(build, str(values), at_last, wide)
    return str(values if wide == T.FLOAT else build.Cast(values, to=T.FLOAT))


@dataclass
class _Tree:
    """One tree of a regressor: what its nodes hold, by node id, and the votes of its leaves."""

    root: int
    nodes: dict[int, dict[str, Any]]
    votes: dict[int, list[tuple[int, float]]]

    def targets(self) -> set[int]:
        return {target for votes in self.votes.values() for target, _ in votes}

    def misses_target(self, target: int) -> bool:
        return any(target not in {held for held, _ in votes} for votes in self.votes.values())

    def misses(self, count: int) -> bool:
        return any({target for target, _ in votes} != set(range(count)) for votes in self.votes.values())


def _parameter(node: Node, name: str) -> list[float]:
    return numbers(node, name) or numbers(node, f"{name}_as_tensor")


def _read(node: Node, side: str, count: int) -> list[_Tree]:
    given = node.attributes
    trees = given.get("nodes_treeids", [])
    columns: dict[str, Sequence[Any]] = {
        "id": given.get("nodes_nodeids", []),
        "mode": given.get("nodes_modes", []),
        "feature": given.get("nodes_featureids", []),
        "split": _parameter(node, "nodes_values"),
        "true": given.get("nodes_truenodeids", []),
        "false": given.get("nodes_falsenodeids", []),
        "tracks": given.get("nodes_missing_value_tracks_true", []) or [0] * len(trees),
    }
    if any(len(column) != len(trees) for column in columns.values()):
        raise CannotConvert(node, "the attributes nodes_* have lists of different lengths")
    found: dict[int, dict[int, dict[str, Any]]] = {}
    for position, tree in enumerate(trees):
        row = {name: column[position] for name, column in columns.items()}
        if row["mode"] not in (*MODES, "LEAF"):
            raise CannotConvert(node, f"a node of a tree has the mode {row['mode']}", supported=f"{', '.join(MODES)}")
        found.setdefault(tree, {})[row["id"]] = row
    votes = zip(
        given.get(f"{side}_treeids", []), given.get(f"{side}_nodeids", []), given.get(f"{side}_ids", []),
        _parameter(node, f"{side}_weights"), strict=True,
    )  # fmt: skip
    cast: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for tree, leaf, target, weight in votes:
        if count > 1 or (tree, leaf) not in cast:
            cast.setdefault((tree, leaf), []).append((target, weight))
        elif ONLY_TARGET not in node.remarks:
            node.remarks.append(ONLY_TARGET)
    return [_tree(node, rows, lambda leaf, tree=tree: cast.get((tree, leaf), [])) for tree, rows in found.items()]


def _tree(node: Node, rows: dict[int, dict[str, Any]], votes: Any) -> _Tree:
    children = Counter(row[side] for row in rows.values() if row["mode"] != "LEAF" for side in ("true", "false"))
    first = next(iter(rows))  # where runtimes begin
    if [name for name in rows if name not in children] != [first] or not children.keys() <= rows.keys():
        raise CannotConvert(node, "a tree has missing nodes, or a root that is not its first node")
    return _Tree(first, rows, {name: votes(name) for name, row in rows.items() if row["mode"] == "LEAF"})


def _grow(made: _Trees, tree: _Tree, target: int | None) -> None:
    """Add a tree; where `target` is given, its leaves keep their votes for that one alone."""
    inner = [name for name, row in tree.nodes.items() if row["mode"] != "LEAF"]
    places = {name: (len(made.features) + position, 0) for position, name in enumerate(inner)}
    for leaf, votes in tree.votes.items():
        chosen = votes if target is None else [(target, sum(w for t, w in votes if t == target))]
        places[leaf] = (len(made.weights), 1)
        made.targets.append(chosen[0][0])
        made.weights.append(chosen[0][1])
    made.roots.append(len(made.features))
    if not inner:  # a lone leaf hangs on both sides of a node
        lone = {"feature": 0, "mode": MODES[0], "split": 0.0, "tracks": 0}
        _add(made, lone, places[tree.root], places[tree.root])
        return
    for name in inner:
        row = tree.nodes[name]
        _add(made, row, places[row["true"]], places[row["false"]])


def _add(made: _Trees, row: dict[str, Any], true: tuple[int, int], false: tuple[int, int]) -> None:
    made.features.append(row["feature"])
    made.modes.append(MODES.index(row["mode"]))
    made.splits.append(row["split"])
    made.tracks.append(row["tracks"])
    made.true.append(true)
    made.false.append(false)


def _attributes(made: _Trees, wide: int, count: int, aggregate: str, transform: str) -> dict[str, Any]:
    return {
        "n_targets": count,
        "aggregate_function": AGGREGATES.index(aggregate),
        "post_transform": TRANSFORMS[transform],
        "tree_roots": made.roots,
        "nodes_featureids": made.features,
        "nodes_modes": tensors.tensor(made.modes, T.UINT8),
        "nodes_splits": tensors.tensor(made.splits, wide),
        "nodes_missing_value_tracks_true": made.tracks if any(made.tracks) else None,
        "nodes_truenodeids": [place for place, _ in made.true],
        "nodes_trueleafs": [leaf for _, leaf in made.true],
        "nodes_falsenodeids": [place for place, _ in made.false],
        "nodes_falseleafs": [leaf for _, leaf in made.false],
        "leaf_targetids": made.targets,
        "leaf_weights": tensors.tensor(made.weights, wide),
    }


# --- TreeEnsemble becomes the regressor -------------------------------------------------------------------


@dataclass
class _Rows:
    """The regressor's lists, one entry a node; `target_*` one entry a vote."""

    trees: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    features: list[int] = field(default_factory=list)
    splits: list[float] = field(default_factory=list)
    tracks: list[int] = field(default_factory=list)
    true: list[int] = field(default_factory=list)
    false: list[int] = field(default_factory=list)
    votes: list[tuple[int, int, int, float]] = field(default_factory=list)  # tree, node, target, weight


@says("Replaced TreeEnsemble by TreeEnsembleRegressor")
def ensemble_to_regressor(node: Node) -> str:
    elem_type, given = node.elem_type(), node.attributes
    if elem_type == T.DOUBLE:  # which the regressor makes float
        if node.build.opset < OPSET:
            raise CannotConvert(
                node,
                f"the output is double; supported: float and float16, or opset {OPSET} of the default domain",
            )
        return evaluate_by_tables(node)
    count = given.get("n_targets", 0)
    if not count:
        raise CannotConvert(node, "attribute n_targets is missing")
    transform = numbered_transform(node, count)
    rows, sets = _Rows(), _members(node)
    for tree, root in enumerate(given["tree_roots"]):
        _walk(node, rows, tree, root, sets)
    build, x = node.build, node.input(0)
    if elem_type == T.FLOAT16:
        node.close("added in float32")
        x = build.Cast(x, to=T.FLOAT)
    attributes = {
        "n_targets": count,
        "aggregate_function": AGGREGATES[given.get("aggregate_function", 1)],
        "post_transform": transform,
        "nodes_treeids": rows.trees,
        "nodes_nodeids": rows.ids,
        "nodes_modes": rows.modes,
        "nodes_featureids": rows.features,
        "nodes_values": rows.splits,
        "nodes_missing_value_tracks_true": rows.tracks if any(rows.tracks) else None,
        "nodes_truenodeids": rows.true,
        "nodes_falsenodeids": rows.false,
        "target_treeids": [tree for tree, _, _, _ in rows.votes],
        "target_nodeids": [leaf for _, leaf, _, _ in rows.votes],
        "target_ids": [target for _, _, target, _ in rows.votes],
        "target_weights": [weight for _, _, _, weight in rows.votes],
    }
    values = str(build.emit("TreeEnsembleRegressor", [x], attributes, domain=ML))
    return values if elem_type == T.FLOAT else str(build.Cast(values, to=elem_type))


def _members(node: Node) -> dict[int, list[float]]:
    """The members that each node of mode BRANCH_MEMBER looks for; NaN ends each set."""
    modes = [int(mode) for mode in numbers(node, "nodes_modes")]
    sets: list[list[float]] = [[]]
    for value in numbers(node, "membership_values"):
        if value == value:
            sets[-1].append(value)
        else:
            sets.append([])
    holders = [position for position, mode in enumerate(modes) if mode == MEMBER]
    sets = sets if sets[-1] else sets[:-1]
    if len(sets) != len(holders) or not all(sets):
        raise CannotConvert(
            node,
            f"there are {len(sets)} sets of members for {len(holders)} nodes",
            supported="one filled set for each node",
        )
    return dict(zip(holders, sets, strict=True))


def _walk(node: Node, rows: _Rows, tree: int, root: int, sets: dict[int, list[float]]) -> None:
    """Number a tree from its root on, which must come first; leaves are nodes, too."""
    given = node.attributes
    features, modes, splits = (
        given["nodes_featureids"],
        numbers(node, "nodes_modes"),
        numbers(node, "nodes_splits"),
    )
    tracks = given.get("nodes_missing_value_tracks_true", []) or [0] * len(features)
    sides = {
        "true": (given["nodes_truenodeids"], given["nodes_trueleafs"]),
        "false": (given["nodes_falsenodeids"], given["nodes_falseleafs"]),
    }
    targets, weights = given["leaf_targetids"], numbers(node, "leaf_weights")
    start = len(rows.ids)

    def add(mode: str, feature: int, split: float, track: int) -> int:
        rows.trees.append(tree)
        rows.ids.append(len(rows.ids) - start)
        rows.modes.append(mode)
        rows.features.append(feature)
        rows.splits.append(split)
        rows.tracks.append(track)
        rows.true.append(0)
        rows.false.append(0)
        return rows.ids[-1]

    def place(position: int, leaf: int) -> int:
        if leaf:
            name = add("LEAF", 0, 0.0, 0)
            rows.votes.append((tree, name, targets[position], weights[position]))
            return name
        mode = int(modes[position])
        values = sets[position] if mode == MEMBER else [splits[position]]
        chain = [add(MODES[4 if mode == MEMBER else mode], features[position], v, tracks[position]) for v in values]
        pending.append((position, chain))
        return chain[0]

    pending: list[tuple[int, list[int]]] = []
    place(root, 0)
    while pending:
        position, chain = pending.pop()
        true, false = (place(nodes[position], leafs[position]) for nodes, leafs in (sides["true"], sides["false"]))
        for link, following in zip(chain, [*chain[1:], false], strict=True):
            rows.true[start + link] = true
            rows.false[start + link] = following


ENSEMBLES = ["TreeEnsembleClassifier", "TreeEnsembleRegressor"]
changed(ENSEMBLES, 3, Pair(up=rows_of_features, down=doubles_to_floats), domain=ML)
changed("TreeEnsembleClassifier", 5, Pair(up=classifier_to_ensemble), domain=ML)
changed("TreeEnsembleRegressor", 5, Pair(up=regressor_to_ensemble), domain=ML)
changed("TreeEnsemble", 5, Pair(down=ensemble_to_regressor), domain=ML)
DEFINITIONS = {
    "TreeEnsembleClassifier": (classify_by_tables, classify_by_choices),
    "TreeEnsembleRegressor": (regress_by_tables, regress_by_choices),
    "TreeEnsemble": (evaluate_by_tables, evaluate_by_choices),
}
for _op, (_tables, _choices) in DEFINITIONS.items():
    defined(_op, _tables, opset=OPSET, domain=ML, needs="GatherElements", otherwise=_choices)
