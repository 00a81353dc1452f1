"""Loops and Scans written out turn by turn, where it is known how many there are, for backends that have neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.fusion.door import DRAWING
from opshift.passes.inputs.wanted import NOTHING
from opshift.passes.model import schemas, tensors
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.editing import branches, dead_code
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.specialization.door import followed
from opshift.trying.ways.rewriting import Rewriting
from opshift.verification import isolation
from opshift.verification.engines import EngineError, OnnxRuntime

TURNED = frozenset({"Loop", "Scan"})
_MOST_TURNS, _MOST_NODES = 1024, 20_000
_FARTHEST = 200
"""Nodes of which a number of turns is computed."""
_MEASURING = frozenset({"Shape", "Size"})
_AXES_ARE_INPUTS, _WITHOUT_A_BATCH, _ANYTHING_IS_REPEATED = 13, 9, 14
_HOW = "Unrolled"

Fresh = Callable[[str], str]


def unroll(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model whose main graph has no `op` with a known number of turns; itself where it has none."""
    work = Rewriting(model, op, _HOW)
    writer = _Writer(work.scope, work.fresh)
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        parts = writer.parts(node) if work.calls(node) else None
        nodes += [node] if parts is None else parts
        if parts is not None:
            work.did(node)
    made, changes = work.written(nodes)
    if not changes:
        return model, changes
    kept = [NodeProto.FromString(node.SerializeToString()) for node in made.graph.node]
    del made.graph.node[:]
    for node in kept:
        tensor = tensors.of_constant(node) if node.op_type == "Constant" and not node.domain else None
        if tensor is None:
            made.graph.node.append(node)
        else:  # importers that read a parameter from a tensor alone do not find it in a node
            made.graph.initializer.add().CopyFrom(tensor)
            made.graph.initializer[-1].name = node.output[0]
    dead_code.drop_unused(made, {name for node in kept for name in node.output})
    changes += followed(made, NOTHING)
    if len(made.graph.node) > _MOST_NODES:
        return made, changes
    again, more = unroll(made, op)  # turns that hang on what is written out now, and those inside of it
    return again, [*changes, *more]


@dataclass
class _Writer:
    scope: Scope
    fresh: Fresh

    def parts(self, node: NodeProto) -> list[NodeProto] | None:
        """What takes the place of a node; None where nobody knows how often its body runs."""
        body = next((graph for _, _, graph in subgraphs(node)), None)
        if body is None or body.sparse_initializer or self.scope.opset < _WITHOUT_A_BATCH:
            return None
        carries_sequences = any(value.type.HasField("sequence_type") for value in (*body.input, *body.output))
        if carries_sequences and self.scope.opset < _ANYTHING_IS_REPEATED:  # Identity took tensors alone
            return None
        turns = self._turns_of_loop(node, body) if node.op_type == "Loop" else self._turns_of_scan(node)
        if not turns or turns > _MOST_TURNS or turns * len(body.node) > _MOST_NODES:
            return None
        return list(self._loop(node, body, turns) if node.op_type == "Loop" else self._scan(node, body, turns))

    def _loop(self, node: NodeProto, body: GraphProto, turns: int) -> Iterator[NodeProto]:
        carried = list(node.input[2:])
        gathered: list[list[str]] = [[] for _ in node.output[len(carried) :]]
        yield self._constant(go_on := self.fresh(f"{node.output[0]}/on"), _truth())
        for turn in range(turns):
            yield self._constant(number := self.fresh(f"{node.output[0]}/turn"), tensors.int64s([turn], []))
            given = [number, go_on, *carried]
            carried = yield from self._turn(body, given, body.output[1:], len(carried), gathered)
        yield from self._results(node.output, carried, [(names, 0) for names in gathered])

    def _scan(self, node: NodeProto, body: GraphProto, turns: int) -> Iterator[NodeProto]:
        held = _plain(node)
        scanned = int(held["num_scan_inputs"])
        carried, sources = list(node.input[:-scanned]), list(node.input[-scanned:])
        axes = held.get("scan_input_axes", [0] * scanned)
        backwards = held.get("scan_input_directions", [0] * scanned)
        gathered: list[list[str]] = [[] for _ in node.output[len(carried) :]]
        for turn in range(turns):
            given = list(carried)
            for name, axis, back in zip(sources, axes, backwards, strict=True):
                at = self.fresh(f"{name}/at")
                yield self._constant(at, tensors.int64s([turns - 1 - turn if back else turn], []))
                given.append(self.fresh(f"{name}/slice"))
                yield NodeProto(
                    op_type="Gather",
                    input=[name, at],
                    output=[given[-1]],
                    attribute=[make_attribute("axis", axis)],
                )
            carried = yield from self._turn(body, given, body.output, len(carried), gathered)
        outputs = len(gathered)
        ways = held.get("scan_output_directions", [0] * outputs)
        ordered = [names[::-1] if back else names for names, back in zip(gathered, ways, strict=True)]
        places = held.get("scan_output_axes", [0] * outputs)
        yield from self._results(node.output, carried, list(zip(ordered, places, strict=True)))

    def _turn(
        self, body: GraphProto, given: Sequence[str], outputs: Sequence[Any], count: int, gathered: list[list[str]]
    ) -> Any:
        """The nodes of one turn; returns the names of what is carried on."""
        pairs = [(value.name, self.fresh(value.name)) for value in outputs]
        names = dict(zip((value.name for value in body.input), given, strict=True))
        for made in branches.inlined(body, pairs, names, self.fresh):
            made.name = self.fresh(made.name) if made.name else ""
            yield made
        for held, (_, name) in zip(gathered, pairs[count:], strict=False):
            held.append(name)
        return [name for _, name in pairs[:count]]

    def _results(
        self, outputs: Sequence[str], carried: Sequence[str], gathered: Sequence[tuple[list[str], int]]
    ) -> Iterator[NodeProto]:
        for name, held in zip(outputs, carried, strict=False):
            if name:
                yield NodeProto(op_type="Identity", input=[held], output=[name])
        for name, (parts, axis) in zip(outputs[len(carried) :], gathered, strict=True):
            if name:
                singles = [self.fresh(f"{part}/single") for part in parts]
                for part, single in zip(parts, singles, strict=True):
                    yield from self._unsqueezed(part, single, axis)
                attribute = make_attribute("axis", axis)
                yield NodeProto(op_type="Concat", input=singles, output=[name], attribute=[attribute])

    def _unsqueezed(self, value: str, name: str, axis: int) -> Iterator[NodeProto]:
        node = NodeProto(op_type="Unsqueeze", input=[value], output=[name])
        if self.scope.opset < _AXES_ARE_INPUTS:
            node.attribute.append(make_attribute("axes", [axis]))
        else:
            yield self._constant(axes := self.fresh(f"{name}/axes"), tensors.int64s([axis], [1]))
            node.input.append(axes)
        yield node

    @staticmethod
    def _constant(name: str, held: TensorProto) -> NodeProto:
        return NodeProto(op_type="Constant", output=[name], attribute=[make_attribute("value", held)])

    def _turns_of_scan(self, node: NodeProto) -> int | None:
        """The size of what is scanned, if that is a number."""
        held = _plain(node)
        scanned = int(held["num_scan_inputs"])
        axes = held.get("scan_input_axes", [0] * scanned)
        for name, axis in zip(node.input[-scanned:], axes, strict=True):
            shape = self.scope.shape(name)
            if shape is not None and -len(shape) <= axis < len(shape) and isinstance(size := shape[axis], int):
                return size
        return None

    def _turns_of_loop(self, node: NodeProto, body: GraphProto) -> int | None:
        """How often a body runs: until what is computed of constants says so."""
        most = self._number(node.input[0])
        if (node.input[0] and most is None) or (node.input[1] and not self._number(node.input[1])):
            return None
        deciding = _deciding(body)
        values = {name: self._value(node, body, name) for name in deciding.given if name not in deciding.measured}
        places = [value.name for value in body.input]
        values |= {name: self._zeros(node.input[places.index(name)]) for name in deciding.measured}
        if any(value is None for value in values.values()):
            return None
        held = {name: tensor for name in deciding.outer if (tensor := self.scope.tensor(name)) is not None}
        if len(held) < len(deciding.outer) or not deciding.repeats:
            return None
        try:
            found: int | None = isolation.call(_counted, self.scope.opset, body, deciding, values, held, most)
        except (EngineError, isolation.Ended):
            return None
        return found

    def _value(self, node: NodeProto, body: GraphProto, name: str) -> Any:
        import numpy as np

        place = [value.name for value in body.input].index(name)
        if place < 2:
            return np.array(0, np.int64) if place == 0 else np.array(True)
        return self._array(node.input[place])

    def _zeros(self, name: str) -> Any:
        """Something of the shape of a value, if that is known."""
        import numpy as np
        from onnx import helper

        shape, elem_type = self.scope.shape(name), self.scope.elem_type(name)
        if shape is None or not elem_type or any(not isinstance(dim, int) for dim in shape):
            return None
        return np.zeros([dim for dim in shape if isinstance(dim, int)], helper.tensor_dtype_to_np_dtype(elem_type))

    def _number(self, name: str) -> int | None:
        found = self._array(name) if name else None
        return int(found.reshape(-1)[0]) if found is not None and found.size == 1 else None

    def _array(self, name: str) -> Any:
        """A constant, or what is computed of constants alone."""
        found = self.scope.array(name)
        if found is not None:
            return found
        model = ModelProto(ir_version=schemas.ir_version("", self.scope.opset))
        model.opset_import.add(domain="", version=self.scope.opset)
        model.graph.name = "constants"
        nodes: list[NodeProto] = []
        pending, seen = [name], {name, ""}
        while pending:
            value = pending.pop()
            held = self.scope.tensor(value)
            maker = self.scope.producer(value)
            if held is not None:
                model.graph.initializer.add().CopyFrom(held)
                model.graph.initializer[-1].name = value
            elif maker is None or len(nodes) > _FARTHEST or not _tells_the_same(maker):
                return None
            else:
                nodes.append(maker)
                pending += [each for each in maker.input if each not in seen]
                seen.update(maker.input)
        unique = {id(node): node for node in nodes}
        model.graph.node.extend(node for node in self.scope.body.node if id(node) in unique)
        model.graph.output.add(name=name)
        try:
            (array,) = isolation.call(_run, model)
        except (EngineError, isolation.Ended):
            return None
        return array


@dataclass(frozen=True)
class _Deciding:
    """What decides how often a body runs: its nodes, what they read of its inputs and of outside.

    Of what is `measured`, only the shape is read, and stays. Whether the same is decided each time it is run, `repeats`
    says.
    """

    nodes: tuple[NodeProto, ...]
    given: tuple[str, ...]
    measured: tuple[str, ...]
    outer: tuple[str, ...]
    repeats: bool


def _deciding(body: GraphProto) -> _Deciding:
    """Nodes above the condition, and above what these read of the turn before."""
    makers = {name: node for node in body.node for name in node.output if name}
    own = {tensor.name for tensor in body.initializer}
    later = {value.name: out.name for value, out in zip(body.input[2:], body.output[1:], strict=False)}
    inputs = {value.name for value in body.input}
    pending, seen, nodes, measured = [body.output[0].name], set[str](), set[int](), set[str]()
    while pending:
        name = pending.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        if name in makers:
            nodes.add(id(makers[name]))
            read = makers[name].input
            if makers[name].op_type in _MEASURING and later.get(read[0]) == read[0]:
                measured.add(read[0])
            else:
                pending += read
        elif name in later:
            pending.append(later[name])
    kept = tuple(node for node in body.node if id(node) in nodes)
    outer = tuple(sorted(seen - makers.keys() - own - inputs))
    repeats = all(map(_tells_the_same, kept))
    given = tuple(value.name for value in body.input if value.name in seen | measured)
    return _Deciding(kept, given, tuple(sorted(measured - seen)), outer, repeats)


def _counted(
    opset: int,
    body: GraphProto,
    deciding: _Deciding,
    values: dict[str, Any],
    held: dict[str, TensorProto],
    most: int | None,
) -> int | None:
    """How many turns there are; None if there are more than are written out."""
    from onnx import helper

    later = {value.name: out.name for value, out in zip(body.input[2:], body.output[1:], strict=False)}
    places = [value.name for value in body.input]
    model = ModelProto(ir_version=schemas.ir_version("", opset))
    model.opset_import.add(domain="", version=opset)
    model.graph.name = "deciding"
    model.graph.node.extend(deciding.nodes)
    model.graph.initializer.extend(tensor for tensor in body.initializer)
    for name, tensor in held.items():
        model.graph.initializer.add().CopyFrom(tensor)
        model.graph.initializer[-1].name = name
    for name, value in values.items():
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        model.graph.input.append(helper.make_tensor_value_info(name, kind, None))
    carried = [name for name in values if name in later and name not in deciding.measured]
    for name in dict.fromkeys([body.output[0].name, *(later[name] for name in carried)]):
        echo = NodeProto(op_type="Identity", input=[name], output=[f"{name}/told"])
        model.graph.node.append(echo)
        model.graph.output.add(name=f"{name}/told")
    session = OnnxRuntime(model)
    for turn in range(_MOST_TURNS + 1):
        if most is not None and turn >= most:
            return turn
        if places[0] in values:
            values[places[0]][...] = turn
        made = dict(zip((value.name for value in model.graph.output), session.run(values), strict=True))
        if not made[f"{body.output[0].name}/told"].reshape(-1)[0]:
            return turn + 1
        values = {**values, **{name: made[f"{later[name]}/told"] for name in carried}}
    return None


def _tells_the_same(node: NodeProto) -> bool:
    """Whether a node computes the same each time, of what it is given."""
    return not node.domain and node.op_type not in DRAWING and not any(True for _ in subgraphs(node))


def _plain(node: NodeProto) -> dict[str, Any]:
    """The attributes of a node by name, but for graphs."""
    return {attribute.name: attribute_value(attribute) for attribute in node.attribute if not attribute.HasField("g")}


def _run(model: ModelProto) -> list[Any]:
    return OnnxRuntime(model).run({})


def _truth() -> TensorProto:
    return TensorProto(data_type=TensorProto.BOOL, raw_data=b"\1")
