"""Definitions as functions that a standard ONNX file can carry."""

from __future__ import annotations

from opshift.functions import Form, find
from opshift.passes.model import schemas
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto


def function_proto(domain: str, op: str, elem_type: int, opset: int = 0) -> FunctionProto:
    """Write the definition of an operator as a function for a standard ONNX file, for one element type.

    Put it into the `functions` of a model that imports `domain`, and any runtime that knows functions runs the
    model's calls of the operator (onnxruntime and onnx.reference do, OpenVINO does not). It is written at `opset`
    of the default domain, which should be what the model imports; 0 means the opset of the definition. A model
    that calls it with several element types needs one function for each, told apart by `overload` (IR 10, and a
    runtime that reads it); one that leaves out attributes with a default needs IR 9.

    Args:
        domain: the operator's domain, such as `OPENVINO`; empty for the default one.
        op: its name.
        elem_type: the element type of what it computes, an `onnx.TensorProto.DataType`.
        opset: the opset of the default domain to write it at.

    Returns:
        A function of the operator's name, domain, inputs, outputs and attributes.

    Raises:
        ValueError: there is no definition for the element type, or it cannot be written at `opset`.
    """
    form = find(domain, op, elem_type)
    if form is None:
        raise ValueError(
            f"{domain}::{op} has no definition for element type {elem_type}, so it cannot be written as a function"
        )
    function = FunctionProto()
    function.CopyFrom(form.body)
    function.domain, function.name = domain, op
    del function.metadata_props[:]
    if form.carrier:
        _add_casts(function, form)
    return function if opset in (0, form.opset) else _convert_to_opset(function, opset)


def _add_casts(function: FunctionProto, form: Form) -> None:
    """Add Casts around the nodes of a function that computes in a wider type than its inputs. Part of
    `function_proto`.
    """
    from opshift.passes.model.attributes import make_attribute
    from opshift.passes.model.editing.renaming import rename

    def cast(name: str, to: int, result: str) -> NodeProto:
        attribute = make_attribute("to", to)
        return NodeProto(op_type="Cast", input=[name], output=[result], attribute=[attribute])

    nodes = list(function.node)
    before = [(name := function.input[index], f"{name}_carried") for index in form.carried_inputs]
    after = [(name, f"{name}_carried") for name in function.output]
    for name, inner in (*before, *after):
        rename(nodes, {name: inner})
    casts = [cast(name, form.carrier, inner) for name, inner in before]
    back = [cast(inner, form.elem_type, name) for name, inner in after]
    del function.node[:]
    function.node.extend([*casts, *nodes, *back])


def _convert_to_opset(function: FunctionProto, opset: int) -> FunctionProto:
    """Convert a function body to an opset, inside a model made for that; raises `ValueError` if the opset lacks
    operators. Part of `function_proto`.
    """
    from opshift.passes.conversion import convert

    holder = ModelProto(ir_version=schemas.ir_version("", opset), functions=[function])
    holder.graph.name = function.name
    holder.opset_import.extend(function.opset_import)
    converted = convert.convert_model(holder, {"": opset}).model
    if converted is None or not converted.functions:
        raise ValueError(
            f"the definition of {function.domain}::{function.name} uses operators that opset {opset} "
            "lacks, so it cannot be written as a function there"
        )
    return converted.functions[0]
