"""Correct declared shapes of a converted model that inference contradicts, if `onnx.checker` would reject them.

A newer operator's inference finds out more, and so may that of the nodes that take an operator's place. What a model
always declared wrongly then stands in its way: `onnx.checker` took the source, and would not take the result.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from itertools import chain

from opshift.passes.analysis import claims, ranks, sizes
from opshift.passes.analysis.inferring.pool_windows import LEFT_OUT, POOLS, may_begin_behind
from opshift.passes.analysis.inferring.type_inference import Inference
from opshift.passes.analysis.scope import of_model
from opshift.passes.changes import Change
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import GraphProto, ModelProto, TypeProto, normalize_domain
from opshift.passes.model.traversal import Op, bodies, holding
from opshift.passes.model.types import Dim, dims_of, has_shape

_RANKS = 14  # from which on inference tells the rank of what a Reshape makes of sizes that are computed

_TELL_FROM = {
    **dict.fromkeys(["GlobalLpPool", "LpPool", "Pad", "Split"], 2),
    **dict.fromkeys(["Concat"], 4),
    **dict.fromkeys(["Reshape"], 5),
    **dict.fromkeys(["Abs", "Add", "BatchNormalization", "Cast", "Ceil", "Clip", "Div", "Dropout", "Elu", "Exp"], 6),
    **dict.fromkeys(["Floor", "Gemm", "HardSigmoid", "InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean"], 6),
    **dict.fromkeys(["Min", "Mul", "Neg", "PRelu", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sqrt", "Sub", "Sum"], 6),
    **dict.fromkeys(["Tanh", "Tile"], 6),
    **dict.fromkeys(["GRU", "LSTM", "RNN", "Upsample"], 7),
    **dict.fromkeys(["Slice"], 10),
    **dict.fromkeys(["Compress", "NonMaxSuppression"], 11),
}
"""Operators, and the version below which inference tells nothing of them, or little."""

_TELLS_LITTLE = frozenset(
    [
        *["Attention", "Compress", "ConcatFromSequence", "GroupNormalization", "If", "Loop", "NonMaxSuppression"],
        *["NonZero", "OptionalGetElement", "Scan", "SequenceAt", "SequenceErase", "SequenceInsert", "SequenceMap"],
        *["SplitToSequence", "STFT", "StringNormalizer", "Unique"],
    ]
)
"""Operators of which inference may tell nothing, or what is not so, where it does of what takes their place. It knows
none of a vendor, and gives no ranks to trees and SVMs."""

_READS_NUMBERS = {
    6: ["Tile"],
    8: ["Expand"],
    9: ["ConstantOfShape", "MaxUnpool", "OneHot", "Upsample"],
    10: ["Slice", "TopK"],
    11: ["Pad", "Range", "Resize"],
    12: ["GatherND"],
    13: ["ReduceSum", "Split", "Squeeze", "Unsqueeze"],
    17: ["BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"],
    18: [
        *["CenterCropPad", "Col2Im", "Pad", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax"],
        *["ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare"],
    ],
    20: ["AffineGrid", "DFT"],
}
"""The same of those that take numbers which inference does not see, by the version from which on they do."""

_READING = frozenset(chain.from_iterable(_READS_NUMBERS.values()))

_BATCHED = 9  # below which a Scan takes the sequences of a batch one by one, where two do from then on

_POOLS_ROUND_UP = 10  # from which on pools do, of which inference then counts windows behind the data

_FEW = 8  # shapes that are looked up one by one, which takes less than inference does


def mend_shapes(
    model: ModelProto,
    source: ModelProto,
    calls: Mapping[Op, int],
    left: Mapping[Op, int],
    targets: Mapping[str, int],
    inference: Inference,
) -> list[Change]:
    """Correct declared shapes that inference at the new opset contradicts, if `onnx.checker` would reject the model.

    Runs last in a conversion.
    """
    own, target = opsets(source).get("", 0), targets.get("", 0)
    tells_more = own < _RANKS <= target and ("", "Reshape") in calls and _reshapes_to_computed(source)
    tells_more |= any(own < _TELL_FROM.get(name, 0) <= target for domain, name in calls if not domain)
    tells_more = tells_more and not _follows_from_nodes(source, own)
    counts_otherwise = own < LEFT_OUT <= target or target < _POOLS_ROUND_UP <= own
    tells_more |= counts_otherwise and any(("", pool) in calls for pool in POOLS) and _rounds_up(source, own)
    fewer = {op for op, count in calls.items() if left.get(op, 0) < count}
    fewer.update(("", op) for version, ops in _READS_NUMBERS.items() if target < version <= own for op in ops)
    fewer.difference_update(
        (normalize_domain(f.domain), f.name) for f in source.functions
    )  # inference looks into these
    is_replaced = any(map(_tells_little, fewer)) or _reads_computed(source, fewer)
    is_replaced |= ("", "Resize") in fewer and _uses_roi(source)
    splits = own < _BATCHED <= target and ("", "Scan") in calls
    if splits or (is_replaced and holding(source.graph)):
        _open_unconfirmed(model, source, inference, between=splits)
    if not (tells_more or is_replaced or inference.contradictions()):
        return []
    from opshift.passes.analysis.inferring.strict_inference import contradiction, mend

    if not contradiction(model) or contradiction(source):
        return []
    inference.now()
    said = inference.contradictions()
    claims.mend(model, claims.find_contradicted(source, inference.type))
    if contradiction(model):
        said = [*said, *mend(model, source)]
    return said


def _open_unconfirmed(model: ModelProto, source: ModelProto, inference: Inference, *, between: bool) -> None:
    """Make declared sizes dynamic that inference does not confirm, in outputs of subgraphs, and with `between` in other
    values. Part of `mend_shapes`.

    Runtimes allocate memory by declared sizes, so a wrong one crashes them.
    """
    opened: set[str] = set()
    for path, graph in claims.graphs(source):
        for value in (*(graph.output if path else ()), *(graph.value_info if between else ())):
            if has_shape(value.type) and not _is_confirmed(dims_of(value.type), inference.type(path, value.name)):
                opened.add(value.name)
    for body in bodies(model) if opened else ():
        yielded = body.output if isinstance(body, GraphProto) and body is not model.graph else ()
        for value in (*yielded, *(body.value_info if between else ())):
            for dim in value.type.tensor_type.shape.dim if value.name in opened else ():
                dim.ClearField("dim_value")


def _is_confirmed(declared: list[Dim], inferred: TypeProto | None) -> bool:
    """Whether inference confirms every number of a declared shape. Part of `mend_shapes`."""
    known = dims_of(inferred) if inferred is not None and has_shape(inferred) else []
    known = known if len(known) == len(declared) else [None] * len(declared)
    return all(a == b for a, b in zip(declared, known, strict=True) if isinstance(a, int))


def _tells_little(op: Op) -> bool:
    domain, name = op
    return bool(domain) or name in _TELLS_LITTLE


def _reads_computed(source: ModelProto, ops: set[Op]) -> bool:
    """Whether one of these operators has a dynamic input where inference needs numbers. Part of `mend_shapes`."""
    reading = {name for domain, name in ops if not domain and name in _READING}
    return bool(reading) and _takes_computed(source, reading, lambda inputs: inputs[len(inputs) > 1 :])


def _reshapes_to_computed(source: ModelProto) -> bool:
    return _takes_computed(source, {"Reshape"}, lambda inputs: inputs[1:2])


def _takes_computed(source: ModelProto, ops: Container[str], numbers: Callable[[list[str]], list[str]]) -> bool:
    """Whether one of these operators has a dynamic value at one of the inputs `numbers`. Part of `mend_shapes`."""
    for body in bodies(source):
        calls = [node for node in body.node if node.op_type in ops and not node.domain]
        taken = {name for node in calls for name in numbers(node.input[:]) if name}
        taken.difference_update(tensor.name for tensor in getattr(body, "initializer", ()))
        if taken:
            taken.difference_update(name for node in body.node if node.op_type == "Constant" for name in node.output)
        if taken:
            return True
    return False


def _uses_roi(source: ModelProto) -> bool:
    """Whether a Resize uses `roi`, which inference ignores when it computes sizes."""
    calls = (node for body in bodies(source) for node in body.node if node.op_type == "Resize" and not node.domain)
    return any(attribute.s == b"tf_crop_and_resize" for node in calls for attribute in node.attribute)


def _rounds_up(source: ModelProto, own: int) -> bool:
    """Whether a pool has ceil_mode, where versions infer different sizes."""
    return any(may_begin_behind(node, own) for body in bodies(source) for node in body.node)


def _follows_from_nodes(source: ModelProto, opset: int) -> bool:
    """Whether every declared shape follows from the nodes around it; then no inference can contradict it, and
    nothing is mended. Part of `mend_shapes`.
    """
    graph = source.graph
    declared = [value for value in (*graph.value_info, *graph.output) if has_shape(value.type)]
    if len(declared) > _FEW or holding(graph):
        return False
    scope = of_model(source, opset)
    for value in declared:
        dims = dims_of(value.type)
        if ranks.rank(scope, value.name) != len(dims):
            return False
        if any(isinstance(dim, int) and sizes.size(scope, value.name, k) != dim for k, dim in enumerate(dims)):
            return False
    return True
