"""Constant: what it may hold, where it lives."""

from __future__ import annotations

from math import prod
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
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


@says("Moved the numbers or strings of Constant into its attribute value, a tensor")
def short_form_to_tensor(node: Node) -> None:
    for name in SHORT_FORMS.keys() & set(node.attributes):
        held = node.attributes.pop(name)
        node.attributes["value"] = tensors.tensor(held, SHORT_FORMS[name])


@says("Replaced the sparse tensor of Constant by a dense one")
def sparse_to_dense(node: Node) -> None:
    if "sparse_value" not in node.attributes:
        return
    sparse = node.attributes["sparse_value"]
    dims = list(sparse.dims)
    values, indices = tensors.array(sparse.values), tensors.array(sparse.indices)
    if values is None or indices is None or prod(dims) > LARGEST:
        raise CannotConvert(
            node,
            f"the sparse constant has the shape {dims}, which is too large to store as a dense tensor",
            supported=f"at most {LARGEST} elements",
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


@says("Replaced Constant by an initializer, as Constant-1 holds floats only")
def constant_to_initializer(node: Node) -> Replacement:
    tensor, scope = node.attributes["value"], node.scope
    if tensor.data_type in FLOATS:
        return None
    if scope.graph is None:
        raise CannotConvert(
            node,
            "the constant is not a float and is in a function, which cannot hold an initializer",
            supported="float constants",
        )
    output = node.outputs[0]
    if scope.parent is not None or output in scope.results:
        return node.build.constant(tensor, hint=output)
    scope.hold(output, tensor)
    return output


changed("Constant", 9, Pair(down=constant_to_initializer))
changed("Constant", 11, Pair(down=sparse_to_dense))
changed("Constant", 12, Pair(down=short_form_to_tensor))
