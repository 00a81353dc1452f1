"""Joins two models: outputs of the first become inputs of the second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from opshift.passes.inputs.interface import check_name, required_inputs
from opshift.passes.model import schemas
from opshift.passes.model.editing import renaming
from opshift.passes.model.encoding.fields import retain
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    copy_model,
    normalize_domain,
)
from opshift.passes.model.traversal import bodies, own_names, with_nested
from opshift.passes.model.types import dims_of, elem_type_of, has_shape, type_text
from opshift.passes.records import dataclass, field
from opshift.passes.specialization.door import types_of
from opshift.passes.surgery.ends import dims, rename_sizes


@dataclass(frozen=True)
class Joined:
    """Two models as one.

    Attributes:
        model: the message.
        first, second: what inputs and outputs of the two are called in it.
        renamed: how many values of either have another name.
    """

    model: ModelProto
    first: Mapping[str, str] = field(default_factory=dict)
    second: Mapping[str, str] = field(default_factory=dict)
    renamed: int = 0


def connections(first: ModelProto, second: ModelProto, asked: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """Which output of the first model each input of the second reads, by the latter's name; or which input both share.

    Without any that are asked for, values of one name are connected, else the only output with the only input.

    Raises:
        ValueError: there is no such output or input, one is named twice, or nobody knows what to connect.
    """
    outputs = {value.name: value.type for value in first.graph.output}
    taken = {value.name: value.type for value in second.graph.input}
    found: dict[str, str] = {}
    for output, name in asked:
        check_name(output, {**outputs, **dict.fromkeys(required_inputs(first))}, "output or input", "the first model")
        check_name(name, taken, "input", "the second model")
        if name in found:
            raise ValueError(f"input {name!r} of the second model is connected twice")
        found[name] = output
    needed = list(required_inputs(second))
    if not found:
        found = {name: name for name in needed if name in outputs}
    if not found and len(outputs) == len(needed) == 1:
        found = {needed[0]: next(iter(outputs))}
    if not found:
        first_ends, second_ends = ", ".join(map(repr, outputs)), ", ".join(map(repr, needed))
        raise ValueError(
            "no output has the name of an input; say what to connect with --connect OUTPUT=INPUT: "
            f"{first_ends}; {second_ends}"
        )
    _check_types(first, taken, found)
    return found


def _check_types(first: ModelProto, taken: Mapping[str, TypeProto], passed: Mapping[str, str]) -> None:
    """Raise `ValueError` for an output that is not of the type of the input that reads it."""
    made = types_of(first, list(passed.values()))
    for name, output in passed.items():
        one, other = made.get(output, TypeProto()), taken[name]
        kinds = one.WhichOneof("value"), other.WhichOneof("value")
        if None in kinds:
            continue
        told = f"output {output!r} is {type_text(one)}, and input {name!r} takes {type_text(other)}"
        if kinds[0] != kinds[1] or (kinds[0] == "tensor_type" and elem_type_of(one) != elem_type_of(other)):
            raise ValueError(told)
        if kinds[0] != "tensor_type" or not (has_shape(one) and has_shape(other)):
            continue
        sizes = dims_of(one), dims_of(other)
        numbers = [pair for pair in zip(*sizes, strict=False) if all(isinstance(size, int) for size in pair)]
        if len(sizes[0]) != len(sizes[1]) or any(a != b for a, b in numbers):
            shown = [",".join("?" if size is None else str(size) for size in held) for held in sizes]
            raise ValueError(f"output {output!r} has shape [{shown[0]}], and input {name!r} takes [{shown[1]}]")


def common_opsets(first: ModelProto, second: ModelProto, best: Callable[[int, int], int]) -> dict[str, int]:
    """The opsets to which the two have to be converted, by domain; those of domains that nobody knows stay.

    Raises:
        ValueError: they import two versions of a domain that cannot be converted.
    """
    one, other = opsets(first), opsets(second)
    wanted = {domain: best(one[domain], other[domain]) for domain in one.keys() & other.keys()}
    wanted = {domain: version for domain, version in wanted.items() if one[domain] != other[domain]}
    for domain in wanted:
        if not schemas.is_onnx_domain(domain):
            versions = f"{one[domain]} and at {other[domain]}"
            raise ValueError(f"the models import {domain!r} at {versions}, and neither can be converted to the other")
    return wanted


def join(first: ModelProto, second: ModelProto, passed: Mapping[str, str]) -> Joined:
    """One model that computes what the second does of what the first yields.

    Outputs of the first that are connected are none of it. Where both have a name, the second's changes, but for names
    of inputs and outputs that the first has for a value between.

    Args:
        first, second: models of the same opsets.
        passed: which output, or input, of the first each input of the second reads.
    """
    one, other = copy_model(first), copy_model(second)
    ends = [_ends(one, except_outputs=set(passed.values())), _ends(other, except_inputs=set(passed))]
    held = [_names(one), _names(other)]
    fresh = _Fresh(held[0] | held[1])
    of_first = {name: fresh.name(name) for name in sorted(held[0] & (ends[1] - ends[0]))}
    now = {of_first.get(name, name) for name in held[0]}
    of_second = {name: fresh.name(name) for name in sorted(held[1] & now - set(passed))}
    of_second |= {name: of_first.get(output, output) for name, output in passed.items()}
    for model, names in ((one, of_first), (other, of_second)):
        _rename(model, names)
    _rename_nodes(one, other)
    _join_sizes(one, other, {of_second[name] for name in passed})
    _join_functions(one, other)
    called = [
        {value.name: renamed.get(value.name, value.name) for value in (*model.graph.input, *model.graph.output)}
        for model, renamed in ((first, of_first), (second, of_second))
    ]
    _append(one, other, {of_second[name] for name in passed})
    return Joined(one, called[0], called[1], len(of_first) + len(of_second.keys() - passed.keys()))


class _Fresh:
    """Makes names that neither model has."""

    def __init__(self, taken: set[str]):
        self._taken = taken

    def name(self, like: str) -> str:
        number = 1
        while (made := f"{like}_{number}") in self._taken:
            number += 1
        self._taken.add(made)
        return made


def _ends(model: ModelProto, *, except_inputs: Iterable[str] = (), except_outputs: Iterable[str] = ()) -> set[str]:
    inputs = {value.name for value in model.graph.input}.difference(except_inputs)
    return inputs | {value.name for value in model.graph.output}.difference(except_outputs)


def _names(model: ModelProto) -> set[str]:
    """The names of all values, those in graphs of nodes included; values of functions are their own."""
    return set[str]().union(*map(own_names, with_nested([model.graph])))


def _rename(model: ModelProto, names: Mapping[str, str]) -> None:
    if not names:
        return
    renaming.afresh(model.graph, lambda name: names.get(name, name))
    for note in model.graph.quantization_annotation:
        note.tensor_name = names.get(note.tensor_name, note.tensor_name)
        for entry in note.quant_parameter_tensor_names:
            entry.value = names.get(entry.value, entry.value)


def _rename_nodes(one: ModelProto, other: ModelProto) -> None:
    taken, named = ({node.name for body in with_nested([m.graph]) for node in body.node} for m in (one, other))
    fresh = _Fresh(taken | named)
    for body in with_nested([other.graph]):
        for node in body.node:
            if node.name and node.name in taken:
                node.name = fresh.name(node.name)


def _join_sizes(one: ModelProto, other: ModelProto, passed: set[str]) -> None:
    """Let connected values have one size: the number where either declares one, else the first model's name.

    A batch of any size that meets one of 2 is 2 wherever it is declared, and so is the size of an input that an output
    has under another name. Sizes that only share a name get another one.
    """
    yielded = {value.name: value.type for value in (*one.graph.input, *one.graph.output)}
    names: dict[str, str | int] = {}
    numbers: dict[str, str | int] = {}
    for value in other.graph.input:
        if value.name in passed:
            for mine, its in zip(dims(value.type), dims(yielded[value.name]), strict=False):
                if mine.dim_param and (its.dim_param or its.dim_value):
                    names.setdefault(mine.dim_param, its.dim_param or its.dim_value)
                elif mine.dim_value and its.dim_param:
                    numbers.setdefault(its.dim_param, mine.dim_value)
    numbers |= {size: numbers[name] for name, size in _find_input_sizes(one, passed, numbers).items()}
    names = {name: numbers.get(size, size) if isinstance(size, str) else size for name, size in names.items()}
    taken = set(_sizes(one))
    fresh = _Fresh(taken | set(_sizes(other)))
    for name in sorted(taken.intersection(_sizes(other)) - names.keys()):
        names[name] = fresh.name(name)
    rename_sizes(other, names)
    rename_sizes(one, numbers)


_PROBES = (11, 13, 17, 19, 23), (41, 37, 29, 43, 31)
"""Sizes of inputs for which sizes of outputs are inferred; twice, as an output may have one of them by chance."""


def _find_input_sizes(model: ModelProto, outputs: set[str], wanted: Collection[str]) -> dict[str, str]:
    """Find which named size of an input each of these sizes of outputs is, under another name.

    PyTorch names sizes of outputs after nodes, such as Addy_dim_0 for the batch.
    """
    of_inputs = list(dict.fromkeys(dim.dim_param for v in model.graph.input for dim in dims(v.type) if dim.dim_param))
    if not set(wanted).difference(of_inputs) or not 0 < len(of_inputs) <= len(_PROBES[0]):
        return {}
    declared = [value for value in model.graph.output if value.name in outputs]
    answers = []
    for sizes in _PROBES:
        probe = copy_model(model)
        rename_sizes(probe, dict(zip(of_inputs, sizes, strict=False)))
        inferred = types_of(probe, [value.name for value in declared])
        answers.append(
            {
                mine.dim_param: of_inputs[sizes.index(its.dim_value)]
                for value in declared
                for mine, its in zip(dims(value.type), dims(inferred.get(value.name, TypeProto())), strict=False)
                if mine.dim_param in wanted and its.dim_value in sizes[: len(of_inputs)]
            }
        )
    return {name: size for name, size in answers[0].items() if answers[1].get(name) == size and name != size}


def _sizes(model: ModelProto) -> Iterable[str]:
    for body in bodies(model):
        stated = [*body.value_info, *([*body.input, *body.output] if isinstance(body, GraphProto) else ())]
        yield from (dim.dim_param for value in stated for dim in dims(value.type) if dim.dim_param)


def _join_functions(one: ModelProto, other: ModelProto) -> None:
    """Add the functions of the second model, but for those that the first has with all that they call.

    Those that differ get other names, and so does a function that has the name of an operator of the other model.
    """
    held, others = ({_key(function): function for function in model.functions} for model in (one, other))
    if not held and not others:
        return
    called = [{_call(node) for body in bodies(model) for node in body.node} for model in (one, other)]
    differing = {key for key in held.keys() & others.keys() if not _is_same(held[key], others[key])}
    differing |= (others.keys() - held.keys()) & called[0]
    calls = {
        key: {_call(node) for body in with_nested([others[key]]) for node in body.node}
        for key in held.keys() & others.keys()
    }
    while more := {key for key in calls.keys() - differing if calls[key] & differing}:
        differing |= more
    fresh = _Fresh({name for _, name, _ in held.keys() | others.keys() | called[0] | called[1]})
    _rename_functions(one, {key: fresh.name(key[1]) for key in held if key in called[1] - others.keys()})
    _rename_functions(other, {key: fresh.name(key[1]) for key in others if key in differing})
    one.functions.extend(
        function for key, function in zip(others, other.functions, strict=True) if key in differing or key not in held
    )


def _rename_functions(model: ModelProto, names: Mapping[tuple[str, str, str], str]) -> None:
    for body in bodies(model):
        for node in body.node:
            node.op_type = names.get(_call(node), node.op_type)
    for function in model.functions:
        function.name = names.get(_key(function), function.name)


def _is_same(one: FunctionProto, other: FunctionProto) -> bool:
    return one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def _call(node: NodeProto) -> tuple[str, str, str]:
    return normalize_domain(node.domain), node.op_type, node.overload


def _key(function: FunctionProto) -> tuple[str, str, str]:
    return normalize_domain(function.domain), function.name, function.overload


def _append(one: ModelProto, other: ModelProto, passed: set[str]) -> None:
    """Put the second model behind the first, in the first one's message."""
    graph, behind = one.graph, other.graph
    kept = [value for value in graph.output if value.name not in passed]
    outputs = [type(value).FromString(value.SerializeToString()) for value in kept]
    stated = [value for value in graph.output if value.name in passed]
    graph.value_info.extend(value for value in stated if value.HasField("type"))
    del graph.output[:]
    graph.output.extend([*outputs, *behind.output])
    graph.input.extend(value for value in behind.input if value.name not in passed)
    retain(behind.initializer, [tensor.name not in passed for tensor in behind.initializer])  # defaults of inputs
    retain(behind.sparse_initializer, [tensor.values.name not in passed for tensor in behind.sparse_initializer])
    for name in ("node", "initializer", "sparse_initializer", "quantization_annotation"):
        getattr(graph, name).extend(getattr(behind, name))
    declared = {value.name for value in (*graph.value_info, *graph.input, *graph.output)}
    graph.value_info.extend(value for value in behind.value_info if value.name not in declared)
    one.ir_version = max(one.ir_version, other.ir_version)
    imported = opsets(one)
    for entry in other.opset_import:
        if normalize_domain(entry.domain) not in imported:
            one.opset_import.add(domain=entry.domain, version=entry.version)
    said = {entry.key for entry in one.metadata_props}
    one.metadata_props.extend(entry for entry in other.metadata_props if entry.key not in said)
    del one.training_info[:]
