"""Another number of samples in a batch, where each sample is computed alone; what mixes them is refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from opshift.passes.analysis.blaming import blaming
from opshift.passes.analysis.polynomial import Poly
from opshift.passes.changes import Batch, Change, Result
from opshift.passes.errors import Refusal, reason
from opshift.passes.inputs.interface import required_inputs
from opshift.passes.inputs.sizes import CANNOT_CHANGE, BatchSize
from opshift.passes.model import tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing import dead_code
from opshift.passes.model.encoding.fields import put
from opshift.passes.model.imports import opsets
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, TypeProto, normalize_domain
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import is_fixed, symbol
from opshift.passes.simplification import dimensions, shape_values
from opshift.passes.simplification.call import Call
from opshift.passes.specialization import declare
from opshift.passes.specialization.batch_axes import ALONE, MERGED, Batched, Mixes, Samples
from opshift.passes.specialization.sample_layout import COUNTING, count_on
from opshift.passes.specialization.sample_rules import ONE_BY_ONE, RULES

_REBATCHED = "Changed the batch size"
_RESHAPED = "Changed the batch size in a shape"
_SHARED = "Kept one row of a constant that is the same for each sample"
_ASSUMED = "Assumed a declared rank"
_COUNTED = frozenset([("Reshape", 1), ("Expand", 1), ("ConstantOfShape", 0), ("Resize", 3)])
"""Inputs that may hang on how many samples there are, by operator."""
_OF_A_STATE = 3  # axes: directions or layers, samples, numbers
_OPEN = "batch"  # a name for a size without one


class SamplePlaces(NamedTuple):
    """The axis of the samples in each input that holds some, and what their number is called, if it has a name."""

    axes: dict[str, int]
    name: str = ""

    def are_open(self, model: ModelProto) -> bool:
        """Whether a model states no number of samples: it takes any."""
        given = required_inputs(model)
        dims = [given[name].tensor_type.shape.dim[axis] for name, axis in self.axes.items() if name in given]
        return bool(dims) and not any(map(is_fixed, dims))


def places(model: ModelProto) -> SamplePlaces:
    """Where samples lie: along the first axis of the first input, and along those of others that have the same name.

    Where it has no name, along the first axis of all inputs whose first size is the same.

    Raises:
        ValueError: no input has an axis for samples, or one has several.
    """
    given = {
        name: value_type.tensor_type.shape.dim
        for name, value_type in required_inputs(model).items()
        if _has_axes(value_type)
    }
    if not given:
        raise ValueError("no input of the model has a batch axis")
    first = next(iter(given.values()))[0]
    name = symbol(first)
    found: dict[str, int] = {}
    for key, dims in given.items():
        axes = [axis for axis, dim in enumerate(dims) if name and symbol(dim) == name]
        if not name and (is_fixed(dims[0]), dims[0].dim_value) == (is_fixed(first), first.dim_value):
            axes = [0]
        if len(axes) > 1:
            raise ValueError(f"input {key!r} has {len(axes)} axes of size {name!r}; only one can be the batch axis")
        for axis in axes:
            found[key] = axis
    return SamplePlaces(found, name)


def likely(model: ModelProto, of: SamplePlaces) -> SamplePlaces:
    """The same with states of recurrent layers, where no name tells: samples lie along their only axis of that size."""
    given = {
        name: value_type.tensor_type.shape.dim
        for name, value_type in required_inputs(model).items()
        if _has_axes(value_type)
    }
    counts = [given[name][axis] for name, axis in of.axes.items() if name in given]
    held = {dim.dim_value for dim in counts if is_fixed(dim)}
    found = dict(of.axes)
    for name, dims in given.items():
        axes = [axis for axis, dim in enumerate(dims) if is_fixed(dim) and dim.dim_value in held]
        if not of.name and name not in found and len(dims) == _OF_A_STATE and len(axes) == 1:
            found[name] = axes[0]
    return SamplePlaces(found, of.name)


def attempt(source: ModelProto, of: SamplePlaces, size: BatchSize, folder: str | None = None) -> Result:
    """A copy of `source` that takes another number of samples, or the node that mixes them.

    What shapes are computed of has to be computed in it already. Inputs that became constants there hold no samples.

    Raises:
        ValueError: no input holds samples.
    """
    given = required_inputs(source)
    axes = {name: axis for name, axis in of.axes.items() if name in given}
    if not axes:
        raise ValueError("no input of the model has a batch axis")
    counts = [given[name].tensor_type.shape.dim[axis] for name, axis in axes.items()]
    held = {dim.dim_value if is_fixed(dim) else None for dim in counts}
    if len(held) > 1:
        raise ValueError(f"inputs {', '.join(map(repr, axes))} have different batch sizes; name the batch dimension")
    with blaming(source):
        model = ModelProto()
        model.CopyFrom(source)
        walk = _BatchWalk(model, SamplePlaces(axes, of.name), size, held.pop(), folder)
        refusals = [*walk.find_mixing(), *walk.find_counting_outputs()]
        if refusals:
            return Result(None, (), tuple(refusals))
        changes = [*walk.write()]
    outputs = {value.name: walk.space.where.get(value.name) for value in model.graph.output}
    return Result(model, tuple(changes), (), batch=Batch(walk.space.held or 1, axes, outputs))


def _has_axes(value_type: TypeProto) -> bool:
    return value_type.WhichOneof("value") == "tensor_type" and len(value_type.tensor_type.shape.dim) > 0


class _BatchWalk:
    """One walk over the main graph, from node to node."""

    def __init__(self, model: ModelProto, of: SamplePlaces, size: BatchSize, held: int | None, folder: str | None):
        self._model = model
        self._size = size
        self._inputs = of.axes
        self._name = of.name
        self._versions = opsets(model)
        target = size if isinstance(size, int) else None
        self.space = Samples(model, self._versions.get("", 1), held, target, folder)
        self.space.where.update(of.axes)
        self._wanted: list[tuple[int, int, list[int]]] = []
        self._shared: list[tuple[int, int, Any]] = []
        self._counted: list[tuple[int, int, list[int]]] = []
        self._repeated: list[tuple[int, int, int, str]] = []
        self._picks: list[tuple[int, list[int]]] = []

    def find_mixing(self) -> Iterator[Refusal]:
        """The first node that mixes samples, and the reason."""
        for index, node in enumerate(self._model.graph.node):
            try:
                self._node(index, node)
            except Mixes as mixes:
                name, domain = node.name or next(iter(node.output), ""), normalize_domain(node.domain)
                why = reason(f"{CANNOT_CHANGE}: {mixes}")
                yield Refusal(name, node.op_type, domain, 0, False, why)
                return

    def find_counting_outputs(self) -> Iterator[Refusal]:
        """Outputs that are how many samples there are."""
        for value in self._model.graph.output:
            if value.name in self.space.counts or value.name in self.space.indices:
                hangs = "its value depends on the batch size" if value.name in self.space.counts else COUNTING
                why = f"{CANNOT_CHANGE}: {hangs}"
                yield Refusal(value.name, "output", "", 0, False, why)
            elif value.name in self.space.merged:
                maker = next(node for node in self._model.graph.node if value.name in node.output)
                why = f'{CANNOT_CHANGE}: of output "{value.name}", {MERGED}'
                yield Refusal(maker.name or value.name, maker.op_type, "", 0, False, why)

    def _node(self, index: int, node: NodeProto) -> None:
        space = self.space
        if node.op_type == "Constant" and not normalize_domain(node.domain):
            if (tensor := tensors.of_constant(node)) is not None:
                space.note_constant(node.output[0], tensor)
            return
        holds = any(True for _ in subgraphs(node))
        read = dead_code.names_read(node) if holds else node.input
        batched, counted = not space.where.keys().isdisjoint(read), not space.counts.isdisjoint(read)
        if normalize_domain(node.domain) or holds:
            if batched or counted:
                raise Mixes("opshift does not know how it treats the batch")
            return
        call = Call(node, space)
        if (batched and node.op_type in ("Shape", "Size")) or (counted and not batched and self._is_followed(call)):
            self._count(call)
        elif batched or counted:
            self._place(index, Batched(call, space))
        elif shape_values.knows(node.op_type):
            shape_values.follow(call)
        space.register(node)

    def _is_followed(self, call: Call) -> bool:
        return shape_values.knows(call.op) and (call.op, 0) not in _COUNTED and call.op != "Expand"

    def _count(self, call: Call) -> None:
        """Numbers that may hang on how many samples there are."""
        shape_values.follow(call)
        found = self.space.numbers.get(call.output)
        if found is None:
            raise Mixes("it computes with the batch size")
        name = self.space.size.symbol
        if any(isinstance(n, Poly) and any(name in names for names, _ in n.terms) for n in found.values):
            self.space.counts.add(call.output)

    def _place(self, index: int, call: Batched) -> None:
        """Where samples lie in what a node makes of some."""
        for place, name in enumerate(call.proto.input):
            if name in self.space.counts and (call.op, place) not in _COUNTED:
                raise Mixes("it computes with the batch size")
        rule = RULES.get(call.op)
        if rule is None:
            raise Mixes("opshift does not know how it treats the batch")
        try:
            count_on(call)
            if call.op in ONE_BY_ONE:
                call.check_alone()
            found = rule(call)
        except (IndexError, TypeError, ZeroDivisionError):
            raise Mixes("opshift does not know how it treats the batch") from None
        self._wanted += [(index, place, numbers) for place, numbers in call.wanted.items()]
        self._counted += [(index, place, sizes) for place, sizes in call.counted.items()]
        self._shared += [(index, place, array) for place, array in call.shared.items()]
        self._picks += [(index, call.picks)] if call.picks is not None else []
        like = next((name for name, axis in zip(call.proto.input, call.lies, strict=True) if axis is not None), "")
        self._repeated += [(index, place, axis, like) for place, axis in call.repeated.items()]
        for name, axis in zip(call.proto.output, found, strict=False):
            if name and axis is not None:
                self.space.where[name] = axis
                if call.merging != ALONE:
                    self.space.merged[name] = call.merging
        if shape_values.knows(call.op):
            shape_values.follow(call)

    def write(self) -> Iterator[Change]:
        """Write the number of samples wherever it is stated."""
        import onnx.numpy_helper

        graph, where, size = self._model.graph, self.space.where, self._size
        opened = self._name or self._free()
        for index, place, numbers in self._wanted:
            node = graph.node[index]
            node.input[place] = self._constant(node.output[0], numbers)
            name = node.name or node.output[0]
            since = self._versions.get("", 1)
            yield Change(name, node.op_type, "", since, since, _RESHAPED)
        made: dict[int, list[NodeProto]] = {}
        for index, place, sizes in self._counted:
            node = graph.node[index]
            node.input[place], counting = self._compute_shape(node.input[0], node.output[0], sizes, 0)
            made.setdefault(index, []).extend(counting)
            since = self._versions.get("", 1)
            yield Change(node.name or node.output[0], node.op_type, "", since, since, _RESHAPED)
        for index, place, array in self._shared:
            node, kept = graph.node[index], onnx.numpy_helper.from_array(np.ascontiguousarray(array))
            node.input[place] = self._initializer(node.output[0], kept)
            since = self._versions.get("", 1)
            yield Change(node.name or node.output[0], node.op_type, "", since, since, _SHARED)
        for index, place, along, like in self._repeated:
            made.setdefault(index, []).extend(self._repeat(graph.node[index], place, along, like))
        for index, sizes in self._picks:
            made.setdefault(index, []).extend(self._pick(graph.node[index], sizes))
        put(graph, {index: [*nodes, graph.node[index]] for index, nodes in made.items()})
        for value in (*graph.input, *graph.value_info, *graph.output):
            dims, axis = value.type.tensor_type.shape.dim, where.get(value.name)
            if axis is None or axis >= len(dims):
                continue
            each = dimensions.product(self.space.merged.get(value.name, ALONE))
            if isinstance(size, int) and isinstance(each, int):
                dims[axis].dim_value = size * each
            elif isinstance(size, int) or each != 1:
                dims[axis].Clear()
            else:
                dims[axis].dim_param = opened
        was = f" from {self.space.held}" if self.space.held else ""
        for name in self._inputs:
            yield Change(name, "input", "", 0, 0, f"{_REBATCHED}{was} to {size}")
        for name in sorted(self.space.assumed):
            yield Change(name, "value", "", 0, 0, _ASSUMED)
        declare.mend(self._model)

    def _pick(self, node: NodeProto, sizes: list[int]) -> list[NodeProto]:
        """Make a Gather of a node, from each sample; what makes an axis of its own of their rows stands before it."""
        node.op_type = "Gather"
        del node.attribute[:]
        node.attribute.append(make_attribute("axis", 1))
        if not sizes:
            return []
        value = node.input[0]
        node.input[0] = made = self.space.whole.context.names.fresh(f"{value}/rows")
        return [NodeProto(op_type="Reshape", input=[value, self._constant(made, [-1, *sizes])], output=[made])]

    def _repeat(self, node: NodeProto, place: int, axis: int, like: str) -> list[NodeProto]:
        """Nodes by which another reads for each sample what is the same for all; `like` holds samples."""
        fresh, value = self.space.whole.context.names.fresh, node.input[place]
        made, rank = fresh(f"{value}/repeated"), len(self.space.shape(value) or ())
        node.input[place] = made
        nodes: list[NodeProto] = []
        if isinstance(self._size, int):
            wanted = self._constant(made, [self._size if at == axis else 1 for at in range(rank)])
        else:
            wanted, nodes = self._compute_shape(like, made, [1] * rank, axis)
        return [*nodes, NodeProto(op_type="Expand", input=[value, wanted], output=[made])]

    def _compute_shape(self, like: str, hint: str, sizes: list[int], axis: int) -> tuple[str, list[NodeProto]]:
        """A shape with as many samples along an axis as `like` holds, and the nodes that compute it."""
        shape, count, wanted = (
            self.space.whole.context.names.fresh(f"{hint}/{part}") for part in ("sizes", "count", "shape")
        )
        at = self._constant(hint, [self.space.where[like]])
        apart = [self._constant(hint, part) if part else "" for part in (sizes[:axis], sizes[axis + 1 :])]
        parts = [part for part in (apart[0], count, apart[1]) if part]
        return wanted, [
            NodeProto(op_type="Shape", input=[like], output=[shape]),
            NodeProto(op_type="Gather", input=[shape, at], output=[count]),
            NodeProto(op_type="Concat", input=parts, output=[wanted], attribute=[make_attribute("axis", 0)]),
        ]

    def _free(self) -> str:
        """A name that no size has."""
        values = (*self._model.graph.input, *self._model.graph.value_info, *self._model.graph.output)
        taken = {dim.dim_param for value in values for dim in value.type.tensor_type.shape.dim}
        return _OPEN if _OPEN not in taken else self.space.whole.context.names.fresh(_OPEN)

    def _constant(self, hint: str, numbers: Sequence[int]) -> str:
        return self._initializer(hint, tensors.int64s(numbers))

    def _initializer(self, hint: str, tensor: TensorProto) -> str:
        name: str = self.space.whole.context.names.fresh(f"{hint}/numbers")
        held = self._model.graph.initializer.add()
        held.CopyFrom(tensor)
        held.name = name
        self.space.learn(name, tuple(held.dims))
        if self._model.ir_version < 4:
            value = self._model.graph.input.add(name=name)
            value.type.tensor_type.elem_type = held.data_type
            for size in held.dims:
                value.type.tensor_type.shape.dim.add().dim_value = size
        return name
