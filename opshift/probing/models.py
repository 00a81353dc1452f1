"""Calls as models have them: each kind of call in a folder of models, as a case of one node with its values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from opshift.files import external, model_file
from opshift.passes.analysis.scope import open_main_graph
from opshift.passes.errors import InvalidModel
from opshift.passes.model.messages import ModelProto, NodeProto, TypeProto, normalize_domain
from opshift.passes.model.pieces import Pieces
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import tensor_type
from opshift.probing.samples import Sample
from opshift.verification import isolation
from opshift.verification.engines import EngineError, OnnxRuntime
from opshift.verification.feeding import inputs as feeding
from opshift.verification.feeding.asked import DRAWN
from opshift.verification.side import Side


def calls(folder: Path) -> Iterator[Sample]:
    """Those of the models that onnxruntime runs, a process for each model."""
    paths = sorted(folder.rglob("*.onnx"))
    if not paths:
        raise ValueError(f"{folder} holds no models")
    for path in paths:
        with suppress(EngineError, InvalidModel, isolation.Ended):
            yield from isolation.call(_of_model, path)


def _of_model(path: Path) -> list[Sample]:
    source = model_file.read(path)
    side = Side(source, str(path.resolve().parent))
    given = next(feeding.running(side, side.open().run, DRAWN)).given
    return cases(external.runnable(source, str(path.resolve().parent), embedded=True), given)


def cases(model: ModelProto, given: dict[str, Any]) -> list[Sample]:
    """Each kind of call in the main graph of a model that runs on some inputs: operator, type and rank of the first."""
    pieces = Pieces(model)
    scope = open_main_graph(model)
    kinds: dict[tuple[object, ...], NodeProto] = {}
    for node in model.graph.node:
        if node.input and next(subgraphs(node), None) is None:
            shape = scope.shape(node.input[0])
            rank = None if shape is None else len(shape)
            key = (normalize_domain(node.domain), node.op_type, rank, scope.elem_type(node.input[0]))
            kinds.setdefault(key, node)
    names = {name for node in kinds.values() for name in (*node.input, *node.output) if name in pieces.makers}
    wanted = sorted(names)
    values = {**given, **dict(zip(wanted, OnnxRuntime(pieces.cut(wanted)).run(given), strict=True))}
    found = []
    for node in kinds.values():
        made = [name for name in node.output if name]
        ends = {name: _type(values[name]) for name in node.input if name in values and hasattr(values[name], "dtype")}
        if not made or any(not hasattr(values[name], "dtype") for name in made):
            continue
        piece = pieces.cut(made, ends)
        for output in piece.graph.output:
            output.type.CopyFrom(_type(values[output.name]))
        feeds = {value.name: values[value.name] for value in piece.graph.input}
        expected = [values[name] for name in made]
        found.append(
            Sample(node.name, (normalize_domain(node.domain), node.op_type), piece, feeds, expected, 1e-3, 1e-6)
        )
    return [case for case in found if len(case.model.graph.node) == 1]


def _type(value: Any) -> TypeProto:
    from onnx import helper

    return tensor_type(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
