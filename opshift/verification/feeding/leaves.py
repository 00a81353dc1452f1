"""Many rows for a classical model: those that reach the leaves of its trees where these read inputs as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opshift.passes.inputs.interface import tensor
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, TypeProto, default_domain
from opshift.passes.model.traversal import integer

ML = "ai.onnx.ml"
OTHER_ROWS = 64
"""Rows for models whose trees read something else, or that have none: labels are to differ among them."""
_DTYPES: dict[int, str] = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}


def is_classical(model: ModelProto) -> bool:
    return any(default_domain(node.domain) == ML for node in model.graph.node)


def draw_rows(model: ModelProto, taken: Mapping[str, TypeProto], seed: int) -> dict[str, Any]:
    """Draw rows for each input of a tree ensemble, as many for each; none if its trees read other values than inputs.

    Used for classical models.
    """
    import numpy as np

    from opshift.verification import trees

    rng, drawn = np.random.default_rng(seed), list[tuple[list[tuple[str, int]], Any]]()
    columns, elem_types = (
        dict(_columns(model, taken)),
        {name: tensor(value_type).elem_type for name, value_type in taken.items()},
    )
    for node in model.graph.node:
        read = columns.get(node.input[0], []) if trees.is_tree_ensemble(node) else []
        types = {_DTYPES.get(elem_types[name], "") for name, _ in read}
        if len(types) == 1 and (dtype := types.pop()):
            drawn.append((read, trees.draw_rows(node, len(read), dtype, rng)[0]))
    count = min(sum(len(rows) for _, rows in drawn), trees.MOST_ROWS)
    if not count:
        return {}
    widths = {name: len(sources) for name, sources in columns.items() if name in taken}
    made: dict[str, Any] = {}
    place = 0
    for read, rows in drawn:
        rows = rows[: max(1, count * len(rows) // sum(len(value) for _, value in drawn))][: count - place]
        for column, (name, axis) in enumerate(read):
            value = made.setdefault(name, rng.normal(size=(count, widths[name])).astype(_DTYPES[elem_types[name]]))
            value[place : place + len(rows), axis] = rows[:, column]
        place += len(rows)
    return made


def _columns(model: ModelProto, taken: Mapping[str, TypeProto]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Find for each column of a value the input and column that it comes from, where inputs are put side by side.

    Used to feed each column with thresholds of its own feature.
    """
    columns: dict[str, list[tuple[str, int]]] = {}
    for name, value_type in taken.items():
        dims = tensor(value_type).shape.dim
        if len(dims) == 2 and dims[1].dim_value > 0:
            columns[name] = [(name, axis) for axis in range(dims[1].dim_value)]
    for node in model.graph.node:
        if _passes_on(node) and all(name in columns for name in node.input):
            columns[node.output[0]] = [column for name in node.input for column in columns[name]]
    yield from columns.items()


def _passes_on(node: NodeProto) -> bool:
    """Whether a node yields the columns of its inputs, one input after the other."""
    if default_domain(node.domain) == ML:
        return node.op_type == "FeatureVectorizer"
    if node.op_type == "Concat":
        return integer(node, "axis", 0) in (1, -1)
    return node.op_type == "Identity" and not default_domain(node.domain)
