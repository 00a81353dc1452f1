"""`fixed`: a model with sizes and inputs fixed, which computes what its source does with these."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto
from opshift.passes.inputs.wanted import parse_wanted, resolve
from opshift.passes.model.traversal import bodies
from opshift.passes.specialization import fixing

from opshift.verification.engines import OnnxRuntime


def fixed(source: ModelProto, fix_shape: Any = None, given: Any = None, feeds: Mapping[str, Any] | None = None):
    """The model with these fixed; onnxruntime yields the same of it as of the source, which it judges."""
    kept, asked = source.SerializeToString(), parse_wanted(fix_shape, given)
    result = fixing.attempt(source, asked)
    made = result.model
    assert source.SerializeToString() == kept, "the caller's model was changed"
    assert result.grade == "exact"
    onnx.checker.check_model(made, full_check=True)
    read = {name for body in bodies(made) for node in body.node for name in node.input}
    read |= {value.name for body in bodies(made) for value in body.output if hasattr(value, "name")}
    assert read >= {tensor.name for tensor in made.graph.initializer} - given_names(source), "a constant is left over"
    of = resolve(asked, source)
    feeds = {**drawn(made), **(feeds or {})}
    before = OnnxRuntime(source).run({**feeds, **of.values})
    after = OnnxRuntime(made).run(feeds)
    for value, a, b in zip(made.graph.output, before, after, strict=True):
        np.testing.assert_array_equal(a, b)
        shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]
        assert all(size in (None, there) for size, there in zip(shape, b.shape, strict=True)), "a size is wrong"
    return made


def given_names(of: ModelProto) -> set[str]:
    """What was an initializer, or an input, of the model."""
    return {held.name for held in (*of.graph.initializer, *of.graph.input)}


def drawn(of: ModelProto) -> dict[str, Any]:
    """Numbers for the inputs, with 3 for what is open."""
    random, feeds = np.random.default_rng(0), {}
    held = {tensor.name for tensor in of.graph.initializer}
    for value in of.graph.input:
        kind = value.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else 3 for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if value.name not in held:
            feeds[value.name] = np.asarray(random.standard_normal(dims) * 4).astype(dtype)
    return feeds


def ops(of: ModelProto) -> list[str]:
    """The operators of all nodes, those in graphs behind those around them."""
    return [node.op_type for body in bodies(of) for node in body.node]


def shape(of: ModelProto, name: str) -> list[Any]:
    """What is declared of the sizes of a value of the main graph."""
    held = (*of.graph.input, *of.graph.value_info, *of.graph.output)
    kind = next(value.type for value in held if value.name == name)
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kind.tensor_type.shape.dim]
