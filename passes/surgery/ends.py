"""Which inputs and outputs a model has, and how they and their sizes are named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from opshift.passes.changes import Change
from opshift.passes.errors import Refusal, Refused
from opshift.passes.inputs import matching
from opshift.passes.inputs.ends import Ends
from opshift.passes.model.editing import dead_code
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.encoding.fields import retain
from opshift.passes.model.messages import GraphProto, ModelProto, TypeProto, ValueInfoProto, copy_model
from opshift.passes.model.pieces import Pieces
from opshift.passes.model.traversal import bodies, own_names
from opshift.passes.model.types import symbol
from opshift.passes.specialization.door import types_of

if TYPE_CHECKING:
    from onnx import TensorShapeProto


def change_ends(source: ModelProto, asked: Ends) -> tuple[ModelProto, tuple[Change, ...]]:
    """A copy with other inputs and outputs, and what was done; the model itself where nothing is asked.

    Raises:
        ValueError: the model has no such name, a new one is taken, or no output would be left.
        Refused: nobody knows the type of a value that is to be an output.
    """
    if not asked:
        return source, ()
    model = copy_model(source)
    done = [*_add(model, asked.added), *_drop(model, asked.dropped), *_rename(model, asked.renamed)]
    return model, tuple(done)


def _add(model: ModelProto, patterns: tuple[str, ...]) -> Iterator[Change]:
    pieces = Pieces(model)
    outputs = {value.name for value in model.graph.output}
    wanted = dict[str, None]()
    for pattern in patterns:
        wanted.update(dict.fromkeys(values(pieces, pattern)))
    fresh = [name for name in wanted if name not in outputs]
    types = types_of(model, fresh) if fresh else {}
    for name in fresh:
        if name not in types:
            why = "its type cannot be inferred, and the model does not declare it"
            raise Refused([Refusal(name, "value", "", 0, False, why)])
        model.graph.output.append(ValueInfoProto(name=name, type=types[name]))
        yield _change("output", f'Added output "{name}"')


def values(pieces: Pieces, pattern: str) -> list[str]:
    """The values that a name stands for: its own, those of the node of that name, or all that are like a pattern.

    Raises:
        ValueError: there is none.
    """
    made = [*pieces.makers, *pieces.held]
    if pattern not in pieces.makers and (node := next((n for n in pieces.nodes if n.name == pattern), None)):
        return [name for name in node.output if name]
    found = matching.select(pattern, made, "value")
    return [name for name in found if name in pieces.makers] if "*" in pattern else found


def _drop(model: ModelProto, patterns: tuple[str, ...]) -> Iterator[Change]:
    names = [value.name for value in model.graph.output]
    gone = {name for pattern in patterns for name in matching.select(pattern, names, "output")}
    if not gone:
        return
    if gone.issuperset(names):
        raise ValueError(
            f"no output would be left: every output is dropped; the model has {', '.join(map(repr, names))}"
        )
    retain(model.graph.output, [name not in gone for name in names])
    before = len(model.graph.node)
    dead_code.drop_unused(model, {name for name in gone if name in Pieces(model).makers})
    there = {name for node in model.graph.node for name in node.output}.union(Pieces(model).held)
    retain(model.graph.value_info, [value.name in there for value in model.graph.value_info])
    less = before - len(model.graph.node)
    for name in names:
        if name in gone:
            yield _change("output", f'Dropped output "{name}"')
    if less:
        yield _change("node", f"Removed {less} nodes that only these outputs need")


# --- names ------------------------------------------------------------------------------------------------------


def _rename(model: ModelProto, asked: tuple[tuple[str, str], ...]) -> Iterator[Change]:
    graph = model.graph
    ends = list(dict.fromkeys(value.name for value in (*graph.input, *graph.output)))
    sizes = list(dict.fromkeys(symbol(dim) for dim in _dims_of_ends(graph) if symbol(dim)))
    new_names, new_sizes = dict[str, str](), dict[str, str]()
    for old, new in asked:
        if old in ends or ("*" in old and any(matching.is_like(old, name) for name in ends)):
            new_names.update(_new(old, new, ends))
        elif old in sizes or ("*" in old and any(matching.is_like(old, name) for name in sizes)):
            new_sizes.update(_new(old, new, sizes))
        else:
            matching.select(old, [*ends, *sizes], "input, output or symbolic dimension")
    new_names = {old: new for old, new in new_names.items() if old != new}
    _check_free(model, new_names)
    rename_values(model, new_names)
    rename_sizes(model, new_sizes)
    for old, new in new_names.items():
        yield _change("name", f'Renamed "{old}" to "{new}"')
    for old, new in new_sizes.items():
        yield _change("name", f'Renamed dimension "{old}" to "{new}"')


def _new(old: str, new: str, among: list[str]) -> dict[str, str]:
    if old in among:
        return {old: new}
    return {name: matching.substitute(old, new, name) for name in among if matching.is_like(old, name)}


def _check_free(model: ModelProto, names: dict[str, str]) -> None:
    """Raise `ValueError` for a new name that another value has, or that two would have."""
    twice = [new for new, count in Counter(names.values()).items() if count > 1]
    if twice:
        both = [name for name, new in names.items() if new == twice[0]]
        raise ValueError(f"{' and '.join(map(repr, both))} would both get the name {twice[0]!r}")
    held = set[str]().union(*map(own_names, (body for body in bodies(model) if isinstance(body, GraphProto))))
    for old, new in names.items():
        if new in held and new not in names:
            raise ValueError(f"{old!r} cannot be renamed to {new!r}, which another value has")


def rename_values(model: ModelProto, names: dict[str, str]) -> None:
    """Give values of the main graph other names, wherever they are spoken of."""
    if not names:
        return
    graph = model.graph
    stated = [*graph.input, *graph.output, *graph.value_info]
    tensors = [*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)]
    for value in stated:
        value.name = names.get(value.name, value.name)
    for tensor in tensors:
        tensor.name = names.get(tensor.name, tensor.name)
    for note in graph.quantization_annotation:
        note.tensor_name = names.get(note.tensor_name, note.tensor_name)
        for entry in note.quant_parameter_tensor_names:
            entry.value = names.get(entry.value, entry.value)
    rename(graph.node, names)


def rename_sizes(model: ModelProto, names: Mapping[str, str | int]) -> None:
    """Give symbolic dimensions other names, or a number, wherever they are declared."""
    if not names:
        return
    for body in bodies(model):
        stated = list(body.value_info)
        stated += [*body.input, *body.output] if isinstance(body, GraphProto) else []
        for value in stated:
            for dim in dims(value.type):
                size = names.get(dim.dim_param) if dim.dim_param else None
                if isinstance(size, int):
                    dim.dim_value = size
                elif size is not None:
                    dim.dim_param = size


def dims(value_type: TypeProto) -> Iterator[TensorShapeProto.Dimension]:
    """Each dimension that a type declares, those of elements of sequences, optionals and maps included."""
    which = value_type.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        yield from getattr(value_type, which).shape.dim
    elif which in ("sequence_type", "optional_type"):
        yield from dims(getattr(value_type, which).elem_type)
    elif which == "map_type":
        yield from dims(value_type.map_type.value_type)


def _dims_of_ends(graph: GraphProto) -> Iterator[TensorShapeProto.Dimension]:
    for value in (*graph.input, *graph.output):
        yield from dims(value.type)


def _change(what: str, how: str) -> Change:
    return Change("", what, "", 0, 0, how)
