"""The smallest piece of a model that a backend fails on, found by halves: delta debugging on what is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opshift.files import external, stripping
from opshift.files.writing import scratch, writing
from opshift.passes import progress
from opshift.passes.analysis.scope import open_main_graph
from opshift.passes.model.messages import ModelProto, NodeProto, TypeProto, normalize_domain
from opshift.passes.model.pieces import Pieces
from opshift.passes.model.traversal import Body, subgraphs
from opshift.passes.model.types import tensor_type
from opshift.trying.search import AGREES, DIED, IMPOSSIBLE, REFUSED, Answer
from opshift.verification import isolation
from opshift.verification.engines import EngineError, OnnxRuntime
from opshift.verification.repro import write_tensors

Feeds = Mapping[str, Any]
Fails = Callable[[ModelProto, Feeds], Answer]
"""What a backend answers for a piece on some inputs; `impossible` where no engine tells what it should yield."""
INPUTS = "inputs"
FILL = "opshift fill model.onnx model-filled.onnx"
_FARTHEST = 64
"""Nodes above the one at fault that are looked at."""


@dataclass(frozen=True)
class Piece:
    """A piece that a backend fails on: one of its nodes is at fault, alone or after the others, or the inputs are."""

    model: ModelProto
    feeds: Feeds
    node: NodeProto | None
    answer: Answer

    @property
    def operator(self) -> str:
        """What is at fault, `Name` or `domain::Name`; `INPUTS` where no operator is."""
        if self.node is None:
            return INPUTS
        return operator_of(self.node)

    @property
    def operators(self) -> list[str]:
        """What is at fault, what its graphs and functions call, and what stands before it, the nearest first."""
        if self.node is None:
            return [INPUTS]
        inside = (operator_of(node) for node in self._inside())
        beside = (operator_of(node) for node in reversed(self.model.graph.node))
        return list(dict.fromkeys([self.operator, *inside, *beside]))

    def _inside(self) -> Iterator[NodeProto]:
        """The nodes of the graphs that the node at fault holds, and of the functions that these, or it, call."""
        if self.node is None:
            return
        functions = {(normalize_domain(function.domain), function.name): function for function in self.model.functions}
        pending = [self.node]
        while pending:
            node = pending.pop()
            called = functions.pop((normalize_domain(node.domain), node.op_type), None)
            inner: list[Body] = [graph for _, _, graph in subgraphs(node)]
            for body in [*inner, called] if called is not None else inner:
                yield from body.node
                pending += body.node

    @property
    def node_name(self) -> str:
        """The node at fault, by its name or its first output."""
        return "" if self.node is None else self.node.name or next(iter(self.node.output), "")


def operator_of(node: NodeProto) -> str:
    """The operator that a node calls, as `Name` or `domain::Name`."""
    domain = normalize_domain(node.domain)
    return f"{domain}::{node.op_type}" if domain else node.op_type


def smallest(model: ModelProto, folder: str | None, feeds: Feeds, fails: Fails) -> Piece | None:
    """The first node up to which the backend fails, with as few nodes before it as show it.

    None where no part that fails can be cut out.
    """
    search = _PieceSearch(model, folder, feeds, fails)
    found = search.first()
    if found is None:
        return None
    given = search.ask_for_inputs()
    if (given.status, given.why) == (found[1].status, found[1].why) and given.status in (REFUSED, DIED):
        return Piece(_passing(model), feeds, None, given)
    return _with_types(search.shrink(*found))


def _with_types(piece: Piece) -> Piece:
    """The piece as a model that is valid by itself, if it can be run."""
    try:
        return replace(piece, model=declare_outputs(piece.model, isolation.call(values_of, piece.model, piece.feeds)))
    except (EngineError, isolation.Ended):
        return piece


def _passing(model: ModelProto) -> ModelProto:
    """A model with the same inputs that yields them as they are."""
    from onnx import helper

    made = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    made.graph.name = "inputs"
    held = {tensor.name for tensor in model.graph.initializer}
    made.graph.input.extend(value for value in model.graph.input if value.name not in held)
    for value in made.graph.input:
        made.graph.node.append(helper.make_node("Identity", [value.name], [f"{value.name}/same"]))
        made.graph.output.add(name=f"{value.name}/same")
    return made


class _PieceSearch:
    def __init__(self, model: ModelProto, folder: str | None, feeds: Feeds, fails: Fails):
        whole = external.runnable(model, folder, embedded=True) if folder is not None else model
        self._pieces = Pieces(whole)
        self._feeds = feeds
        self._fails = fails
        self._outputs = {value.name for value in whole.graph.output}
        self._varying = set(self._pieces.given)
        """The values that hang on inputs: of the others alone, importers make no model that runs."""
        for index, node in enumerate(self._pieces.nodes):
            if not self._varying.isdisjoint(self._pieces.reads(index)):
                self._varying.update(filter(None, node.output))
        self._scope = open_main_graph(whole)

    def ask_for_inputs(self) -> Answer:
        """What the backend says of a model that yields its inputs as they are."""
        return self._fails(_passing(self._pieces.model), self._feeds)

    def first(self) -> tuple[int, Answer] | None:
        """The first node up to which the backend fails, and what it says."""
        fine, failing, words = -1, len(self._pieces.nodes) - 1, None
        while failing - fine > 1:
            middle = (fine + failing) // 2
            progress.tell("look for the first node that fails", len(self._pieces.nodes) - failing + fine)
            piece = self._up_to(middle)
            found = self._fails(piece, self._feeds) if piece.graph.output else Answer(AGREES)
            if found.agrees:
                fine = middle
            elif found.status == IMPOSSIBLE:
                return None
            else:
                failing, words = middle, found
        if words is None:
            words = self._fails(self._up_to(failing), self._feeds)
        return None if words.agrees or words.status == IMPOSSIBLE else (failing, words)

    def _up_to(self, last: int) -> ModelProto:
        """The nodes up to one, with all that the others, or callers, read of what they make."""
        told = self._varying | self._outputs
        made = [name for index in range(last + 1) for name in self._pieces.nodes[index].output if name in told]
        later = {name for index in range(last + 1, len(self._pieces.nodes)) for name in self._pieces.reads(index)}
        return self._pieces.cut([name for name in made if name in later or name in self._outputs] or made[-1:], {})

    def shrink(self, index: int, answer: Answer) -> Piece:
        """The node alone if that fails, too, else with ever more of those before it."""
        node = self._pieces.nodes[index]
        wanted = [name for name in node.output if name and (name in self._outputs or self._pieces.readers(name))]
        inside, distance = {index}, 1
        while distance <= _FARTHEST:
            ends = self._ends(inside)
            found = self._cut_out(wanted, ends)
            if found is None:
                break
            piece, feeds = found
            said = self._fails(piece, feeds)
            if not said.agrees and said.status != IMPOSSIBLE:
                return Piece(piece, feeds, node, said)
            if not ends:
                break
            for _ in range(distance):
                inside |= {
                    self._pieces.makers[n] for i in inside for n in self._pieces.reads(i) if n in self._pieces.makers
                }
            distance *= 2
        return Piece(self._up_to(index), self._feeds, node, answer)

    def _ends(self, inside: Iterable[int]) -> list[str]:
        """What nodes read of those that are not among them."""
        made = {name for index in inside for name in self._pieces.nodes[index].output}
        read = dict.fromkeys(name for index in sorted(inside) for name in self._pieces.reads(index))
        return [name for name in read if name in self._pieces.makers and name not in made]

    def _cut_out(self, wanted: Sequence[str], ends: Sequence[str]) -> tuple[ModelProto, Feeds] | None:
        """What makes some values of others, and what these are."""
        try:
            values = isolation.call(values_of, self._pieces.cut(ends), self._feeds) if ends else []
        except (EngineError, isolation.Ended):
            return None
        held = dict(zip(ends, values, strict=True))
        if not wanted or any(not hasattr(value, "dtype") for value in values):
            return None
        types = {name: self._type(name, value) for name, value in held.items()}
        piece = self._pieces.cut(wanted, types)
        return piece, {value.name: held.get(value.name, self._feeds.get(value.name)) for value in piece.graph.input}

    def _type(self, name: str, value: Any) -> TypeProto:
        """Of a value that is given to a piece; what is symbolic in the model, or unknown, is so there."""
        from onnx import helper

        dims = self._scope.shape(name) or [None] * value.ndim
        known = dims if len(dims) == value.ndim else [None] * value.ndim
        return tensor_type(helper.np_dtype_to_tensor_dtype(value.dtype), known)


def values_of(model: ModelProto, feeds: Feeds) -> list[Any]:
    """What onnxruntime makes of a piece; raises `EngineError`."""
    return OnnxRuntime(model).run(feeds)


def declare_outputs(model: ModelProto, outputs: Sequence[Any]) -> ModelProto:
    """The piece with the types and ranks of what it yields declared: without them, importers refuse, or crash."""
    from onnx import helper

    made = ModelProto()
    made.CopyFrom(model)
    for value, held in zip(made.graph.output, outputs, strict=True):
        if hasattr(held, "dtype") and not value.type.ByteSize():
            value.type.CopyFrom(tensor_type(helper.np_dtype_to_tensor_dtype(held.dtype), [None] * held.ndim))
    return made


def with_drawn_weights(piece: Piece, fails: Fails) -> tuple[Piece, ModelProto | None]:
    """The piece with drawn weights, and its model without any, if it fails in the same way then; else None."""
    stripped = stripping.strip_alike([piece.model])
    if not stripped:
        return piece, None
    with scratch() as folder:
        filled, _ = stripping.fill(stripped[0], Path(folder))
        whole = external.runnable(filled, folder, embedded=True)
    answer = fails(whole, piece.feeds)
    if answer.status != piece.answer.status:
        return piece, None
    return replace(piece, model=whole, answer=answer), stripped[0]


def write(folder: Path, piece: Piece, command: str, words: str, stripped: ModelProto | None = None) -> None:
    """Write `model.onnx`, `inputs/`, what onnxruntime makes of them as `outputs/`, `command.txt` and `words.txt`.

    `stripped` is written as the model, for `opshift fill`, where it is given.

    Raises:
        CannotWrite: the folder cannot be written.
    """
    model, outputs = piece.model, isolation.call(values_of, piece.model, piece.feeds)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes((model if stripped is None else stripped).SerializeToString())
        write_tensors(folder / "inputs", "input", piece.feeds)
        write_tensors(
            folder / "outputs", "output", dict(zip([v.name for v in model.graph.output], outputs, strict=True))
        )
        if stripped is not None:
            command = f"{FILL}\n{command.replace('model.onnx', 'model-filled.onnx')}"
        (folder / "command.txt").write_text(f"{command}\n", encoding="utf-8", newline="\n")
        (folder / "words.txt").write_text(f"{words}\n", encoding="utf-8", newline="\n")
