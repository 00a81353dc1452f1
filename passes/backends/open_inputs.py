"""Find inputs that leave open what a backend has to know: dynamic sizes, and values that decide an If."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from opshift.passes.analysis.scope import open_main_graph
from opshift.passes.errors import Refusal, reason
from opshift.passes.inputs.sizes import size_of
from opshift.passes.inputs.wanted import Wanted
from opshift.passes.model.messages import ModelProto, TypeProto, ValueInfoProto
from opshift.passes.model.types import is_fixed, symbol
from opshift.passes.records import dataclass

_BATCH = 2
"""The size at which a model is tried for the first open dimension of each input, which is its batch."""
_LENGTHS = (256, 24)
"""The sizes at which it is tried for all others: windows fit into the first; at the second, loops can be unrolled."""
_FEW = 3  # inputs that are named with all of their sizes; names of dimensions are shorter for more
_PLAIN = r"[\w./-]+"  # a name of a dimension that can stand on the command line


@dataclass(frozen=True)
class OpenInputs:
    """Inputs whose sizes or values are open, each as a refusal that names the option which fixes it.

    Attributes:
        sized: inputs with dynamic dimensions.
        deciding: inputs of one number, such as a sampling rate, that decide an If together with constants.
        values: a number to try for each of `deciding`.
    """

    sized: tuple[Refusal, ...]
    deciding: tuple[Refusal, ...]
    values: Mapping[str, int | float | bool]


def find_open_inputs(model: ModelProto) -> OpenInputs:
    """Find the inputs that a user has to fix if a backend reads a model at fixed sizes, or without an If, alone."""
    found = _find_open_dimensions(model)
    by_name = len(found) > _FEW and all(re.fullmatch(_PLAIN, name) for _, of in found for name in of.values())
    sized = []
    for value, open_dims in found:
        dims = enumerate(value.type.tensor_type.shape.dim)
        sizes = ",".join("?" if axis in open_dims else str(dim.dim_value) for axis, dim in dims)
        option = ",".join(f"{name}=?" for name in open_dims.values()) if by_name else f"{value.name}:{sizes}"
        why = f"dimension {', '.join(name or str(axis) for axis, name in open_dims.items())} is dynamic"
        sized.append(_open(value.name, reason(why, "fixed sizes", f"--fix-shape {option}")))
    deciding = _find_deciding_inputs(model)
    refusals = [
        _open(name, reason(f'it decides If "{decided}"', "a constant", f"--set {name}=?"))
        for name, (decided, _) in deciding.items()
    ]
    return OpenInputs(tuple(sized), tuple(refusals), {name: number for name, (_, number) in deciding.items()})


def _open(name: str, why: str) -> Refusal:
    return Refusal(name, "input", "", 0, False, why)


def _find_open_dimensions(model: ModelProto) -> list[tuple[ValueInfoProto, dict[int, str]]]:
    """Find the inputs with dynamic dimensions, and the symbols of these by axis, which may be empty."""
    held = {tensor.name for tensor in model.graph.initializer}
    found = []
    for value in model.graph.input:
        dims = enumerate(value.type.tensor_type.shape.dim)
        open_dims = {axis: symbol(dim) for axis, dim in dims if not is_fixed(dim)}
        if open_dims and value.name not in held:
            found.append((value, open_dims))
    return found


def list_attempts(model: ModelProto, found: OpenInputs) -> Iterator[list[tuple[tuple[Refusal, ...], Wanted]]]:
    """List what could be fixed, the least first, with numbers to try; again with shorter inputs."""
    for length in _LENGTHS if found.sized else _LENGTHS[:1]:
        shapes = _choose_sizes(model, length)
        attempts = [(found.sized, Wanted(shapes))] if found.sized else []
        if found.deciding:
            attempts.append(((*found.sized, *found.deciding), Wanted(shapes, values=found.values)))
        yield attempts


def _choose_sizes(model: ModelProto, length: int) -> dict[str, tuple[int, ...]]:
    """Choose a number for each open dimension, and the same one for a symbol wherever it stands."""
    numbers, shapes = dict[str, int](), dict[str, tuple[int, ...]]()
    for value, open_dims in _find_open_dimensions(model):
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for axis, name in open_dims.items():
            computed = size_of(name, numbers) if name else None  # such as `past + 1`
            chosen = computed or (_BATCH if axis == min(open_dims) else length)
            shape[axis] = numbers.setdefault(name, chosen) if name else chosen
        shapes[value.name] = tuple(shape)
    return shapes


def _find_deciding_inputs(model: ModelProto) -> dict[str, tuple[str, int | float | bool]]:
    """Find inputs of one number that decide an If of the main graph together with constants: the name of the If, and a
    number that the model compares.

    Once they are set, one branch is left.
    """
    if not any(node.op_type == "If" for node in model.graph.node):
        return {}
    scope = open_main_graph(model)
    held = {tensor.name for tensor in model.graph.initializer}
    open_inputs = {value.name: value.type.tensor_type for value in model.graph.input if value.name not in held}
    found = dict[str, tuple[str, int | float | bool]]()
    for decided in model.graph.node:
        if decided.op_type != "If":
            continue
        seen, pending, compared = set[str](), [decided.input[0]], list[int | float | bool]()
        while pending:
            name = pending.pop()
            maker = scope.producer(name)
            if name in seen:
                continue
            seen.add(name)
            constant = scope.array(name)
            if constant is not None and constant.size == 1:
                compared.append(constant.item())
            elif maker is not None and maker.op_type not in ("Shape", "Size"):  # constants at fixed sizes
                pending += filter(None, maker.input)
        deciding = [name for name in open_inputs if name in seen]
        if all(_is_one_number(open_inputs[name]) for name in deciding):
            for name in deciding:
                found.setdefault(name, (decided.name or decided.output[0], compared[0] if compared else True))
    return found


def _is_one_number(held: TypeProto.Tensor) -> bool:
    return held.HasField("shape") and all(is_fixed(dim) and dim.dim_value == 1 for dim in held.shape.dim)
