"""Compare the shapes that a model declares, its *claims*, with inferred ones, and correct wrong claims.

Claims are the shapes of outputs, of inner values, and of inputs of subgraphs. The shapes of the model's own inputs are
no claims: runtimes check them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from opshift.passes.analysis.shapes import Shapes, Sizes, graph_types
from opshift.passes.changes import CONTRADICTED as CONTRADICTED
from opshift.passes.changes import Change
from opshift.passes.model import schemas, tensors
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    normalize_domain,
)
from opshift.passes.model.traversal import Body, bodies, declarations, graphless, holding, results, subgraphs
from opshift.passes.model.types import HOLDING_SIZES, has_shape, tensor_type

Path = tuple[Any, ...]
ENTERED = frozenset(["If", "Loop", "Scan"])
"""The operators in whose subgraphs types are inferred."""


def bare(value_type: TypeProto) -> TypeProto:
    """Copy a type without its shapes."""
    made = TypeProto()
    made.CopyFrom(value_type)
    forget(made)
    return made


def forget(value_type: TypeProto) -> None:
    """Remove the shapes from a type."""
    held = value_type.WhichOneof("value")
    if held in ("tensor_type", "sparse_tensor_type"):
        getattr(value_type, held).ClearField("shape")
    elif held in ("sequence_type", "optional_type"):
        forget(getattr(value_type, held).elem_type)
    elif held == "map_type":
        forget(value_type.map_type.value_type)


def withdraw(light: ModelProto, held: Iterable[Body] | None = None) -> None:
    """Remove the claims of a model, so that inference does not read them.

    Element types stay where inference cannot tell them: for inputs of subgraphs, for outputs that no node computes, and
    for outputs of custom operators. `held` are the model's bodies, if they are known.
    """
    called = {(normalize_domain(function.domain), function.name) for function in light.functions}
    for body in bodies(light) if held is None else held:
        custom = {name for node in body.node if node.domain and is_custom(node, called) for name in node.output}
        given = _unmade(body)
        _retain(body.value_info, custom)
        for value in body.output if isinstance(body, GraphProto) else ():
            if value.name in custom or value.name in given:
                forget(value.type)
            else:
                value.ClearField("type")
        for value in body.input if isinstance(body, GraphProto) and body is not light.graph else ():
            forget(value.type)
    for value in light.graph.input:
        for dim in _dims(value.type) if has_shape(value.type) else ():
            if dim.dim_value < 0:  # some exporters write an unknown size so
                dim.Clear()


def _unmade(body: Body) -> set[str]:
    """List the outputs of a body that no node of it computes; the search begins at its last nodes."""
    missing = set(results(body))
    for node in reversed(body.node):
        if not missing:
            break
        missing.difference_update(node.output)
    return missing


def is_custom(node: NodeProto, called: Container[tuple[str, str]]) -> bool:
    """Tell whether a node calls neither an operator of ONNX nor a function in `called`."""
    domain = normalize_domain(node.domain)
    return not schemas.is_onnx_domain(domain) and (domain, node.op_type) not in called


def _retain(stated: Any, names: set[str]) -> None:
    kept = [value for value in stated if value.name in names] if names else []
    for value in kept:
        forget(value.type)
    del stated[:]
    stated.extend(kept)


def reconcile(declared: TypeProto, inferred: TypeProto) -> TypeProto:
    """Complete an inferred type by declared sizes where inference has none; the inferred type if the two contradict."""
    if contradict(declared, inferred) or all(map(_is_number, _dims(inferred))):
        return inferred
    made = TypeProto()
    made.CopyFrom(inferred)
    for dim, claim in zip(_dims(made), _dims(declared), strict=True):
        nameless = not dim.HasField("dim_value") and (not dim.dim_param or is_made_up(dim.dim_param))
        if _is_number(claim) or (nameless and claim.dim_param):
            dim.CopyFrom(claim)
    return made


def find_contradictions(source: ModelProto, inferred: Callable[[Path, str], TypeProto | None]) -> Iterator[Change]:
    """Yield a change for each declared shape that contradicts the inferred one, for the report."""
    versions = {normalize_domain(entry.domain): entry.version for entry in source.opset_import}
    for graph, wrong in _find_contradicted_in_graphs(source, inferred):
        said = {
            value.name: f"{value.name!r}: declared {spell_shape(value.type)}, inferred {spell_shape(wrong[value.name])}"
            for value in (*graph.value_info, *graph.output)
            if value.name in wrong
        }
        for node in graph.node:
            domain = normalize_domain(node.domain)
            for name in said.keys() & set(node.output):
                since = schemas.since(domain, node.op_type, versions.get(domain, 0)) or 0
                yield Change(node.name or name, node.op_type, domain, since, since, CONTRADICTED, "exact", said[name])


def _find_contradicted_in_graphs(
    source: ModelProto, inferred: Callable[[Path, str], TypeProto | None]
) -> Iterator[tuple[GraphProto, dict[str, TypeProto]]]:
    """Yield the graphs with wrong declared shapes, and the inferred types by value.

    For an inner value, a declared number is also wrong if the size is a symbol of an input.
    """
    open_sizes = {name for value in source.graph.input if has_shape(value.type) for name in symbols(value.type)} - {""}
    for path, graph in graphs(source):
        wrong = {}
        for value, fixed in (*((v, open_sizes) for v in graph.value_info), *((v, ()) for v in graph.output)):
            value_type = inferred(path, value.name) if has_shape(value.type) else None
            if value_type is not None and has_shape(value_type) and contradict(value.type, value_type, fixed):
                wrong[value.name] = value_type
        if wrong:
            yield graph, wrong


def graphs(source: ModelProto) -> Iterator[tuple[Path, GraphProto]]:
    """Yield the main graph and all subgraphs with their paths."""
    pending: list[tuple[Path, GraphProto]] = [((), source.graph)]
    while pending:
        path, graph = pending.pop()
        yield path, graph
        for index, node in holding(graph):
            pending += [((*path, (index, attribute, k)), inner) for attribute, k, inner in subgraphs(node)]


def find_contradicted(source: ModelProto, inferred: Callable[[Path, str], TypeProto | None]) -> dict[str, TypeProto]:
    """Find all values with a wrong declared shape; returns the inferred types."""
    return {
        name: value_type
        for _, wrong in _find_contradicted_in_graphs(source, inferred)
        for name, value_type in wrong.items()
    }


def find_declared(source: ModelProto) -> set[str]:
    """List the computed values for which a model declares a shape."""
    return {value.name for value in declarations(source) if has_shape(value.type)}


def mend_main(model: ModelProto, inferred: Callable[[Path, str], TypeProto | None]) -> None:
    """Declare inferred shapes in the main graph, if one of its declared shapes is wrong.

    Inner values without an inferred shape lose theirs: beside corrected shapes, another wrong one would show.
    """
    wrong = next((wrong for graph, wrong in _find_contradicted_in_graphs(model, inferred) if graph is model.graph), {})
    if not wrong:
        return
    _mend(model.graph.output, wrong)
    for value in model.graph.value_info:
        value_type = inferred((), value.name)
        if value_type is None or not has_shape(value_type):
            forget(value.type)
        elif has_shape(value.type):
            _state(value, value_type)


def mend(model: ModelProto, known: Mapping[str, TypeProto]) -> None:
    """Replace declared shapes in `model` that contradict the `known` types."""
    _mend(declarations(model), known)


def _mend(declared: Iterable[ValueInfoProto], known: Mapping[str, TypeProto]) -> None:
    for value in declared:
        if value.name in known and has_shape(value.type) and contradict(value.type, known[value.name]):
            _state(value, known[value.name])


def _state(value: ValueInfoProto, value_type: TypeProto) -> None:
    """Declare a shape; sizes that only inference named become dynamic."""
    value.type.tensor_type.shape.CopyFrom(value_type.tensor_type.shape)
    for dim in _dims(value.type):
        if not dim.HasField("dim_value") and is_made_up(dim.dim_param):
            dim.Clear()


def open_unconfirmed(model: ModelProto, names: Container[str], known: Mapping[str, TypeProto]) -> None:
    """Make declared sizes of these values dynamic where the `known` type has no number."""
    for value in declarations(model):
        if value.name in names and has_shape(value.type):
            dims = _dims(value.type)
            told = _dims(known[value.name]) if value.name in known else []
            for index, dim in enumerate(dims):
                if dim.HasField("dim_value") and not (len(told) == len(dims) and told[index].HasField("dim_value")):
                    dim.Clear()


def of_constants(model: ModelProto) -> Iterator[Change]:
    """Correct the declared shapes of constants in `model`; yields a change for each."""
    held: list[Body] = [model.graph, *model.functions]
    for body in held:
        versions = opsets(body if isinstance(body, FunctionProto) and body.opset_import else model)
        yield from _correct_body(body, {}, versions.get("", 1))


def _correct_body(body: Body, outside: Mapping[str, TensorProto], opset: int) -> Iterator[Change]:
    outputs = body.output if isinstance(body, GraphProto) else ()
    declared = {v.name: v.type for v in (*getattr(body, "value_info", ()), *outputs) if has_shape(v.type)}
    nested = [node for node in body.node if node.op_type not in graphless()]
    if not declared and not nested:
        return
    held = dict(outside)
    if isinstance(body, GraphProto):
        for given in body.input:
            held.pop(given.name, None)
        held.update((tensor.name, tensor) for tensor in body.initializer)
    for node in body.node:
        if normalize_domain(node.domain):
            continue
        op = node.op_type
        if op == "Constant":
            tensor = tensors.of_constant(node)
        elif op == "Identity":
            tensor = held.get(node.input[0])
        else:
            for _, _, graph in subgraphs(node) if op not in graphless() else ():
                yield from _correct_body(graph, held, opset)
            continue
        if tensor is None:
            continue
        name = node.output[0]
        held[name] = tensor
        value_type = tensor_type(tensor.data_type, tensor.dims)
        if name in declared and contradict(declared[name], value_type):
            said = f"{name!r}: declared {spell_shape(declared[name])}, inferred {spell_shape(value_type)}"
            declared[name].tensor_type.shape.CopyFrom(value_type.tensor_type.shape)
            since = schemas.since("", op, opset) or 0
            yield Change(node.name or name, op, "", since, since, CONTRADICTED, "exact", said)


def spell_shape(value_type: TypeProto) -> str:
    """Write a shape in brackets; a size without a name is a question mark."""
    sizes = (
        str(dim.dim_value) if _is_number(dim) else "?" if is_made_up(dim.dim_param) else dim.dim_param or "?"
        for dim in _dims(value_type)
    )
    return f"[{', '.join(sizes)}]"


def contradict(declared: TypeProto, inferred: TypeProto, open_sizes: Container[str] = ()) -> bool:
    """Tell whether a declared shape is wrong: another rank, another number, or a number for one of the `open_sizes`."""
    ours, theirs = _dims(inferred), _dims(declared)
    if len(ours) != len(theirs):
        return True
    for a, b in zip(ours, theirs, strict=True):
        if _is_number(b) and (a.dim_value != b.dim_value if _is_number(a) else a.dim_param in open_sizes):
            return True
    return False


def _is_number(dim: Any) -> bool:
    return bool(dim.HasField("dim_value") and dim.dim_value >= 0)


def symbols(value_type: TypeProto) -> Iterator[str]:
    """List the names of the sizes that are no numbers; empty for a size without a name."""
    return (dim.dim_param for dim in _dims(value_type) if not dim.HasField("dim_value"))


def _dims(value_type: TypeProto) -> Any:
    return value_type.tensor_type.shape.dim


def is_made_up(symbol: str) -> bool:
    """Tell whether ONNX's inference invented the name of a dimension."""
    return symbol.startswith("unk__")


def state_lengths(light: ModelProto, inferred: ModelProto) -> bool:
    """Declare the length of each `Range(0, size, 1)`, which ONNX's inference leaves open; False if there is none."""
    found = False
    graphs = [body for body in bodies(inferred) if isinstance(body, GraphProto)]
    known = Shapes({name: value_type for graph in graphs for name, value_type in graph_types(graph).items()})

    for body, seen in zip(bodies(light), bodies(inferred), strict=True):
        ranges = [node for node in body.node if node.op_type == "Range" and not normalize_domain(node.domain)]
        if not ranges or not isinstance(body, GraphProto):
            continue
        makers = {name: node for node in body.node for name in node.output}
        held = {tensor.name: tensor for tensor in body.initializer}
        stated = (*seen.value_info, *seen.output) if isinstance(seen, GraphProto) else ()
        elem_types = {value.name: value.type.tensor_type.elem_type for value in stated}
        for node in ranges:
            start, limit, step = (_number(name, makers, held, known.of, elem_types) for name in node.input)
            if start == 0 and step == 1 and isinstance(limit, str) and limit and elem_types.get(node.output[0]):
                kind = body.value_info.add(name=node.output[0]).type.tensor_type
                kind.elem_type = elem_types[node.output[0]]
                kind.shape.dim.add().dim_param = limit
                found = True
    return found


_COUNTING = HOLDING_SIZES | {TensorProto.FLOAT}  # as ranges of floats are no longer than 1 << 24, by which floats count
_ONE_OF_A_SHAPE = frozenset(["Cast", "CastLike", "Gather", "Identity", "Reshape", "Squeeze", "Unsqueeze"])


def _number(
    name: str,
    makers: Mapping[str, NodeProto],
    held: Mapping[str, TensorProto],
    sizes: Callable[[str], Sizes | None],
    elem_types: Mapping[str, int],
) -> int | str | None:
    """Find the number that a value holds: a constant, or a size (perhaps a symbol) that is taken from a Shape."""
    places = None
    while (node := makers.get(name)) is not None and node.op_type in _ONE_OF_A_SHAPE:
        if node.op_type == "Gather" and len(node.input) == 2:
            at = _number(node.input[1], makers, held, sizes, elem_types)
            places = at if isinstance(at, int) and places is None else None
            if places is None:
                return None
        if node.op_type in ("Cast", "CastLike") and elem_types.get(node.output[0]) not in _COUNTING:
            return None
        name = node.input[0]
    if node is not None and node.op_type == "Shape":
        given = {a.name: a.i for a in node.attribute}
        dims = sizes(node.input[0])
        if dims is None:
            return None
        dims = dims[given.get("start", 0) : given.get("end", len(dims))]
        if places is None:
            return dims[0] if len(dims) == 1 else None
        return dims[places] if -len(dims) <= places < len(dims) else None
    made = node is not None and node.op_type == "Constant"
    tensor = held.get(name) or (tensors.of_constant(node) if made and node is not None else None)
    value = tensors.array(tensor) if tensor is not None and tensors.size(tensor) == 1 else None
    if value is None or places is not None or value.dtype.kind not in "iuf":
        return None
    number = value.reshape(-1)[0]
    return int(number) if float(number).is_integer() else None
