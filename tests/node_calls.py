"""The calls of a model with what is known of the values that they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.traversal import bodies, subgraphs

from opshift.verification.engines import EngineError, Reference
from tests.runtime import DEFAULT, Runtime

LEARNED = "ai.onnx.ml"
Compute = Callable[[ModelProto, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Call:
    """A node at its opset, with what is known of the values that it is given."""

    node: NodeProto
    opset: int
    values: Known

    def given(self, index: int) -> Any:
        """The value of an input; None where it is left out or unknown."""
        name = self.node.input[index] if index < len(self.node.input) else ""
        return self.values.get(name) if name else None

    def shape(self, index: int) -> tuple[int, ...] | None:
        """The sizes of an input; None where it is left out or unknown."""
        name = self.node.input[index] if index < len(self.node.input) else ""
        if not name or name in self.values.shapes:
            return self.values.shapes.get(name)
        value = self.given(index)
        return value.shape if isinstance(value, np.ndarray) else self.values.shapes_inside.get(name)

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute that is not the caller's of a function."""
        return next(
            (attribute_value(a) for a in self.node.attribute if a.name == name and not a.ref_attr_name), default
        )


def all_values(of: ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """All values of the main graph, from the first engine that runs it; none where none does."""
    names = list(dict.fromkeys(name for node in of.graph.node for name in node.output if name))
    told = ModelProto()
    told.CopyFrom(of)
    del told.graph.output[:]
    told.graph.output.extend(ValueInfoProto(name=name) for name in names)
    for engine in (Runtime, Reference):
        try:
            return dict(zip(names, engine(told).run(feeds), strict=True))
        except EngineError:
            continue
    return {}


def calls(of: ModelProto, feeds: Mapping[str, Any] | None = None, compute: Compute = all_values) -> Iterator[Call]:
    """The calls of all graphs and functions; without `feeds` only constants are known.

    `compute` gives all values of a main graph; whoever has to outlive the engines has a process of its own do that.
    """
    values = Known(of, feeds, compute)
    functions = {id(function): function.opset_import for function in of.functions}
    imported = of.opset_import
    for body in bodies(of):
        imported = functions.get(id(body), of.opset_import if body is of.graph else imported)  # type: ignore[assignment]
        opsets = {i.domain: i.version for i in imported}
        opsets[""] = next((opsets[domain] for domain in DEFAULT if domain in opsets), 1)
        for node in body.node:
            if node.domain in (*DEFAULT, LEARNED):
                yield Call(node, opsets.get(node.domain, opsets[""]), values)


@dataclass(frozen=True)
class Known(Mapping[str, Any]):
    """The constants of a model, the values of its main graph, and what follows from those inside of its other graphs,
    computed when the first one is asked for that is neither fed nor constant."""

    of: ModelProto
    feeds: Mapping[str, Any] | None
    compute: Compute = all_values

    def __getitem__(self, name: str) -> Any:
        if self.feeds is not None and name in self.feeds:
            return self.feeds[name]
        if name in self._constants:
            return self._constants[name]
        return self._computed[name] if name in self._computed else self._inside[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._constants, **self._computed, **self._inside, **(self.feeds or {})})

    def __len__(self) -> int:
        return len(list(iter(self)))

    @cached_property
    def _constants(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for body in bodies(self.of):
            found |= {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in getattr(body, "initializer", ())}
            for node in body.node:
                if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                    found[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
        return found

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The sizes of values inside of graphs, too, as far as they follow from those of what is fed."""
        return self._shapes({})

    @cached_property
    def shapes_inside(self) -> dict[str, tuple[int, ...]]:
        """The same with those that the main graph computes, for which an engine runs if there are graphs inside of it."""
        nested = any(True for node in self.of.graph.node for _ in subgraphs(node))
        return self._shapes(self._computed) if nested else {}

    def _shapes(self, computed: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        if self.feeds is None:
            return {}
        told = ModelProto()
        told.CopyFrom(self.of)
        for value in told.graph.input:
            if isinstance(fed := self.feeds.get(value.name), np.ndarray):
                del value.type.tensor_type.shape.dim[:]
                for size in fed.shape:
                    value.type.tensor_type.shape.dim.add(dim_value=size)
        made = {name: value for name, value in computed.items() if isinstance(value, np.ndarray)}
        for value in [v for v in told.graph.value_info if v.name in made]:
            told.graph.value_info.remove(value)
        for name, value in made.items():
            kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            told.graph.value_info.append(onnx.helper.make_tensor_value_info(name, kind, value.shape))
        try:
            inferred = onnx.shape_inference.infer_shapes(told, data_prop=True)
        except Exception:  # whatever is wrong with it, nothing is known
            return {}
        stated = (
            v for body in bodies(inferred) for v in (*body.input, *body.value_info) if isinstance(v, ValueInfoProto)
        )
        dims = {v.name: v.type.tensor_type.shape.dim for v in stated if v.type.tensor_type.HasField("shape")}
        return {
            name: tuple(dim.dim_value for dim in shape)
            for name, shape in dims.items()
            if all(dim.HasField("dim_value") for dim in shape)
        }

    @cached_property
    def _computed(self) -> Mapping[str, Any]:
        if self.feeds is None:
            return {}
        return self._run(self.of, self.feeds)

    @cached_property
    def _inside(self) -> dict[str, Any]:
        """What graphs inside of others compute of what is known outside of them; loops on their first trip."""
        if self.feeds is None:
            return {}
        known = {**self._constants, **self._computed, **self.feeds}
        found: dict[str, Any] = {}
        pending = [self.of.graph]
        while pending:
            for node in pending.pop().node:
                outside = {**known, **found}
                found |= _carried_first(node, outside)
                for name, _, graph in subgraphs(node):
                    if not _runs(node, name, outside):
                        continue
                    held = {key: value for key, value in {**known, **found}.items() if isinstance(value, np.ndarray)}
                    found |= self._of_body(graph, held)
                    pending.append(graph)
        return found

    def _of_body(self, body: GraphProto, held: Mapping[str, Any]) -> Mapping[str, Any]:
        told = ModelProto()
        told.CopyFrom(self.of)
        told.graph.CopyFrom(GraphProto(name="inside", node=_that_follow(body.node, set(held))))
        read = {name: held[name] for node in told.graph.node for name in _reads(node) if name in held}
        for name, value in read.items():
            kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            told.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, value.shape))
        return self._run(told, read) if told.graph.node else {}

    def _run(self, of: ModelProto, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        """All values of the main graph, or those that come before the first node that no engine runs."""
        found, held = self.compute(of, feeds), ModelProto()
        held.CopyFrom(of)
        runs, fails = 0, 0 if found else len(of.graph.node)
        while fails - runs > 1:
            middle = (runs + fails) // 2
            del held.graph.node[:]
            held.graph.node.extend(of.graph.node[:middle])
            if some := self.compute(held, feeds):
                found, runs = some, middle
            else:
                fails = middle
        return found


def _runs(node: NodeProto, graph: str, known: Mapping[str, Any]) -> bool:
    """Whether a graph of a node may run: what runs only elsewhere may end the process, as a division by 0 does."""
    if node.op_type == "Loop":
        trips, goes_on = (known.get(name) if name else None for name in node.input[:2])
        return (trips is None or bool(np.any(trips > 0))) and (goes_on is None or bool(np.any(goes_on)))
    condition = known.get(node.input[0]) if node.op_type == "If" else None
    return condition is None or graph == ("then_branch" if np.any(condition) else "else_branch")


def _carried_first(node: NodeProto, known: Mapping[str, Any]) -> dict[str, Any]:
    """What the body of a Loop or a Scan is given on its first trip, as far as it is known; of what a Scan reads, the first
    element with numbers that are none, if there is one."""
    held = {a.name: a for a in node.attribute}
    if node.op_type == "Loop":
        body = held["body"].g
        pairs = zip(body.input[2:], node.input[2:], strict=False)
        first = {value.name: known[name] for value, name in pairs if name in known}
        return {body.input[0].name: np.array(0), body.input[1].name: np.array(True), **first}
    if node.op_type != "Scan":
        return {}
    body, scanned = held["body"].g, held["num_scan_inputs"].i
    batched = len(node.input) > len(body.input)  # sequence_lens come first
    axes = list(held["scan_input_axes"].ints) if "scan_input_axes" in held else [0] * scanned
    found = {}
    for place, (formal, name) in enumerate(zip(body.input, node.input[batched:], strict=False)):
        value, at = known.get(name), place - (len(body.input) - scanned)
        if not isinstance(value, np.ndarray) or (batched and not len(value)):
            continue
        value = np.asarray(value[0]) if batched else value
        elements = value if at < 0 else np.moveaxis(value, 0 if batched else axes[at], 0)
        if at < 0 or len(elements):
            found[formal.name] = value if at < 0 else _telling(elements)
    return found


def _telling(elements: Any) -> Any:
    apart = (e for e in elements if not np.isfinite(e).all()) if elements.dtype.kind == "f" else ()
    return np.asarray(next(iter(apart), elements[0]))


def _reads(node: NodeProto) -> set[str]:
    """The names that a node and its graphs read from outside of it."""
    inside = [graph for _, _, graph in subgraphs(node)]
    made = {v.name for g in inside for v in (*g.input, *g.initializer)} | {
        o for g in inside for n in g.node for o in n.output
    }
    read = {name for g in inside for n in g.node for name in _reads(n)} | {o.name for g in inside for o in g.output}
    return {name for name in node.input if name} | (read - made)


def _that_follow(nodes: Iterable[NodeProto], known: set[str]) -> Iterator[NodeProto]:
    """The nodes that compute something of what is known."""
    for node in nodes:
        if _reads(node) <= known:
            known.update(node.output)
            yield node
