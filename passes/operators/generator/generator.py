"""Constants and random numbers."""

from __future__ import annotations

from math import prod
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import carried
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto

FLOATS = (T.FLOAT16, T.FLOAT, T.DOUBLE)
LARGEST = 2**28  # elements of a sparse constant that is written out

# The attributes of Constant that stand for a scalar or a vector, and its type.
SHORT_FORMS = {
    "value_int": T.INT64,
    "value_ints": T.INT64,
    "value_float": T.FLOAT,
    "value_floats": T.FLOAT,
    "value_string": T.STRING,
    "value_strings": T.STRING,
}

DRAWS = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
# Types that are cast from float32, and the saturate that keeps all of their values.
CAST_AFTERWARDS = {
    T.BFLOAT16: None,
    T.FLOAT8E4M3FN: 0,
    T.FLOAT8E4M3FNUZ: 0,
    T.FLOAT8E5M2: 0,
    T.FLOAT8E5M2FNUZ: 0,
}


# --- 9, 11 and 12: what a Constant may hold -----------------------------------------------------------------


@says("Numbers and strings could not stand in attributes of their own: they become a tensor in value.")
def short_form_to_tensor(node: Node) -> None:
    for name in SHORT_FORMS.keys() & set(node.attributes):
        held = node.attributes.pop(name)
        node.attributes["value"] = tensors.tensor(held, SHORT_FORMS[name])


@says("A constant could not be sparse: its zeros are written out.")
def sparse_to_dense(node: Node) -> None:
    if "sparse_value" not in node.attributes:
        return
    sparse = node.attributes["sparse_value"]
    dims = list(sparse.dims)
    values, indices = tensors.array(sparse.values), tensors.array(sparse.indices)
    if values is None or indices is None or prod(dims) > LARGEST:
        raise CannotConvert(
            node, f"a sparse constant of shape {dims} is too large; {LARGEST} elements could be expressed"
        )
    del node.attributes["sparse_value"]
    node.attributes["value"] = _dense(values, indices, dims, sparse.values.data_type)


def _dense(values: Any, indices: Any, dims: list[int], elem_type: int) -> TensorProto:
    import numpy as np

    empty = "" if elem_type == T.STRING else 0
    dense = np.full(prod(dims), empty, dtype=values.dtype)
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims) if dims else [0]
    dense[flat] = values
    return tensors.tensor(dense.reshape(dims), elem_type)


@says("A constant held floats only: any other becomes an initializer.")
def constant_to_initializer(node: Node) -> Replacement:
    tensor, scope = node.attributes["value"], node.scope
    if tensor.data_type in FLOATS:
        return None
    if scope.graph is None:
        raise CannotConvert(node, "a function holds no initializers; constants of floats could be expressed")
    output = node.outputs[0]
    if scope.parent is not None or output in scope.results:
        return node.build.constant(tensor, hint=output)
    scope.hold(output, tensor)
    return output


# --- 20: types that could not be filled in ------------------------------------------------------------------


@says("bfloat16 and float8 could not be filled in: floats are, and cast.")
def filled_in_float(node: Node) -> Replacement:
    value = node.attributes.get("value")
    if value is None or value.data_type not in CAST_AFTERWARDS:
        return None
    held = tensors.array(value)
    if held is None:
        raise CannotConvert(node, "the value cannot be read")
    filled = node.build.ConstantOfShape(node.input(0), value=tensors.tensor(held.astype("float32"), T.FLOAT))
    return str(node.build.Cast(filled, to=value.data_type, saturate=CAST_AFTERWARDS[value.data_type]))


# --- 22: bfloat16 -------------------------------------------------------------------------------------------


@says("bfloat16 was neither taken nor made: it is cast to float32 before and from float32 after.")
def made_in_float(node: Node) -> Replacement:
    dtype = node.attributes.get("dtype")
    if node.inputs and node.elem_type() == T.BFLOAT16:
        node.set_input(0, node.build.Cast(node.input(0), to=T.FLOAT))
        if dtype is None and node.op_type != "Multinomial":
            dtype = node.attributes["dtype"] = T.BFLOAT16
    if dtype != T.BFLOAT16 or node.op_type == "Bernoulli":  # which could make what it could not take
        return None
    if node.op_type in DRAWS:
        node.close("random numbers are rounded to bfloat16")
    made = node.build.again(node.proto, node.inputs, dtype=T.FLOAT)
    return str(node.build.Cast(made, to=T.BFLOAT16))


# --- 27: Range ----------------------------------------------------------------------------------------------


@says("16-bit floats could not be counted: they are in the type of stash_type, and the result is cast.")
def counted_in_stash_type(node: Node) -> Replacement:
    stash, elem_type = node.attributes.pop("stash_type", T.FLOAT), node.elem_type()
    if elem_type not in (T.FLOAT16, T.BFLOAT16):
        return None
    if stash not in (T.FLOAT, T.DOUBLE):
        raise CannotConvert(node, f"stash_type={stash}; {T.FLOAT} and {T.DOUBLE} could be expressed")
    return carried({elem_type: stash})(node)


changed("Constant", 9, Pair(down=constant_to_initializer))
changed("Constant", 11, Pair(down=sparse_to_dense))
changed("Constant", 12, Pair(down=short_form_to_tensor))
changed("ConstantOfShape", 20, Pair(down=filled_in_float))
changed(["EyeLike", *DRAWS], 22, Pair(down=made_in_float))
changed("Range", 27, Pair(down=counted_in_stash_type))
