"""Inputs to run a model on: seeded, with integers that are valid where they are used."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from opshift.passes.model import schemas, tensors
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, TypeProto, default_domain
from opshift.passes.model.traversal import subgraphs
from opshift.verification.engines import EngineError

if TYPE_CHECKING:
    import numpy as np

_MOST = 1 << 30  # elements of an input: more is hardly meant
SIZES = (3, 1, 4)  # what a symbolic dimension becomes, in turn
_LARGER = (8, 32)  # what it becomes where no model runs on these
_WRITTEN = 6  # sizes that stand in a model and are tried as well
_LARGEST = 512
_TRIED = 100  # combinations of them
_AXES = 32  # which every numpy has
FALLBACKS = ("fitting", "zeros", "ones", "counting")

# What an integer input means to its consumer, by operator and position.
_MEANING = {
    **{(op, 1): "index" for op in ("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND")},
    **{(op, 1): "axes" for op in ("Squeeze", "Unsqueeze")},
    **{(op, 1): "axis" for op in ("CumSum", "CumProd")},
    ("Reshape", 1): "shape",
    ("Expand", 1): "ones",
    ("Tile", 1): "ones",
    ("ConstantOfShape", 0): "counting",
    ("OneHot", 0): "index",
    ("OneHot", 1): "many",
    ("TopK", 1): "ones",
    ("Slice", 1): "zeros",
    ("Slice", 2): "many",
    ("Slice", 3): "axes",
    ("Slice", 4): "ones",
    ("Pad", 1): "ones",
    ("Range", 0): "zeros",
    ("Range", 1): "many",
    ("Range", 2): "ones",
    ("Trilu", 1): "ones",
    ("Loop", 0): "ones",
}


def trials(model: ModelProto, seed: int = 0) -> Iterator[Iterator[dict[str, Any]]]:
    """One trial for each size of the symbolic dimensions; each is a series of attempts, the likeliest first.

    A model without symbolic dimensions gets two trials with different numbers.
    """
    sizes = SIZES if _has_symbols(model) else SIZES[:2]
    for number, size in enumerate(sizes):
        yield (_feeds(model, size, seed + number, fallback) for fallback in FALLBACKS)


def larger_trials(model: ModelProto, seed: int = 0) -> Iterator[Iterator[dict[str, Any]]]:
    """Trials for a model that runs on none of these: with larger symbolic dimensions, or such as stand in the model."""
    if not _has_symbols(model):
        return
    written = _written(model)
    for size in dict.fromkeys([*written, *_LARGER]):
        yield iter([_feeds(model, size, seed, FALLBACKS[0])])
    dims = [dim for value in _inputs(model) for dim in value.type.tensor_type.shape.dim]
    symbols = list(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param))
    for chosen in islice(product(written, repeat=len(symbols)), _TRIED):
        yield iter([_feeds(model, SIZES[0], seed, FALLBACKS[0], dict(zip(symbols, chosen, strict=True)))])


def _written(model: ModelProto) -> list[int]:
    """The sizes that stand in small vectors of the model, the most frequent first."""
    held = [*model.graph.initializer]
    held += [
        a.t for node in model.graph.node if node.op_type == "Constant" for a in node.attribute if a.name == "value"
    ]
    counts: Counter[int] = Counter()
    for tensor in held:
        if tensor.data_type == TensorProto.INT64 and math.prod(tensor.dims) <= _AXES:
            counts.update(value for value in tensors.integers(tensor) or () if 1 < value <= _LARGEST)
    return [size for size, _ in counts.most_common(_WRITTEN)]


def _has_symbols(model: ModelProto) -> bool:
    dims = [d for v in _inputs(model) for d in v.type.tensor_type.shape.dim]
    return any(not d.HasField("dim_value") or d.dim_value < 0 for d in dims)


def _inputs(model: ModelProto) -> list[Any]:
    held = {t.name for t in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in held]


def _feeds(
    model: ModelProto, size: int, seed: int, fallback: str, symbols: dict[str, int] | None = None
) -> dict[str, Any]:
    import numpy as np

    random = np.random.default_rng(seed)
    meanings = _meanings(model)
    sizes = dict(symbols or {})
    return {
        value.name: _value(value.type, size, sizes, random, meanings.get(value.name, ""), fallback)
        for value in _inputs(model)
    }


def _meanings(model: ModelProto) -> dict[str, str]:
    """What each graph input means to the first consumer that says so; reduce operators take axes throughout."""
    found: dict[str, str] = {}
    pending: list[NodeProto] = list(model.graph.node)
    while pending:
        node = pending.pop(0)
        for index, name in enumerate(node.input):
            meaning = "axes" if index == 1 and _reduces(node) else _MEANING.get((node.op_type, index), "")
            if name and meaning:
                found.setdefault(name, meaning)
        pending += [inner for _, _, graph in subgraphs(node) for inner in graph.node]
    return found


def _reduces(node: NodeProto) -> bool:
    family = schemas.schema(node.domain, node.op_type, schemas.latest()) if not default_domain(node.domain) else None
    return family is not None and family.family == "reduction"


def _value(
    kind: TypeProto,
    size: int,
    symbols: dict[str, int],
    random: np.random.Generator,
    meaning: str,
    fallback: str,
) -> Any:
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        inner = kind.sequence_type.elem_type
        count = 1 if inner.HasField("sequence_type") else 2  # of sequences in sequences, one: they may be nested deeply
        return [_value(inner, size, symbols, random, meaning, fallback) for _ in range(count)]
    if which == "optional_type":
        return _value(kind.optional_type.elem_type, size, symbols, random, meaning, fallback)
    shape = []
    for dim in kind.tensor_type.shape.dim:
        known = dim.HasField("dim_value") and dim.dim_value >= 0
        shape.append(dim.dim_value if known else symbols.setdefault(dim.dim_param or "", size))
    if len(shape) > _AXES or math.prod(shape) > _MOST:
        raise EngineError(f"an input has {len(shape)} dimensions, or more than {_MOST} elements")
    return _array(kind.tensor_type.elem_type, shape, random, meaning, fallback)


def _array(elem_type: int, shape: list[int], random: np.random.Generator, meaning: str, fallback: str) -> Any:
    import numpy as np
    import onnx.helper

    if elem_type == TensorProto.STRING:
        words = np.array(["opset", "", "shift", "Up", "down"], dtype=object)
        return words[random.integers(0, len(words), shape)]
    if elem_type not in TensorProto.DataType.values() or not elem_type:
        raise EngineError("the type of an input is unknown")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    if elem_type == TensorProto.BOOL:
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return _integers(shape, dtype, random, meaning if fallback == "fitting" else fallback)
    values = random.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def _integers(shape: list[int], dtype: Any, random: np.random.Generator, meaning: str) -> Any:
    import numpy as np

    count = int(np.prod(shape))
    values: Any
    if meaning in ("axes", "counting"):
        values = np.arange(count)
    elif meaning in ("axis", "zeros"):
        values = np.zeros(count)
    elif meaning == "ones":
        values = np.ones(count)
    elif meaning == "many":
        values = np.full(count, 5)
    elif meaning == "shape":
        values = np.array([-1, *[1] * (count - 1)][:count])
    elif meaning == "index":
        values = random.integers(0, 2, count)
    else:
        low, high = (0, 256) if dtype == np.uint8 else (-128, 128) if dtype == np.int8 else (0, 8)
        values = random.integers(low, high, count)
    return values.reshape(shape).astype(dtype)
