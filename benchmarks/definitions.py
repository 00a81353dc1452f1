"""`python -m benchmarks definitions [--runs N] [--op NAME ...]`: our expansion of an operator and its schema's body.

Both forms of a model run in turn in one process, with onnxruntime's graph optimizations off and on; the body is put
in by `onnx.inliner`. Latencies are medians of the best of three sessions; the ratio is ours to the body's, so that below 1 is faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.inliner
import onnx.parser
import onnxruntime as ort
from onnx import ModelProto
from opshift.passes.conversion import convert
from rich.table import Table

from benchmarks import latency

HEADS = "float[1,8,128,64]"
ACTIVATION = ("float[64,4096] x", "float[64,4096] y")
REDUCTION = ("float[64,512,16] x", "float[64,16] y")
LOSS = ("float[512,1000] x, int64[512] t", "float loss")
CASES = [  # operator call, opset, inputs, outputs
    ("y = LayerNormalization(x, s, b)", 17, "float[8,128,768] x, float[768] s, float[768] b", "float[8,128,768] y"),
    ("y = LayerNormalization(x, s, b)", 21, "float16[8,128,768] x, float16[768] s, float16[768] b", "float16[8,128,768] y"),
    ("y = RMSNormalization(x, s)", 23, "float[8,128,768] x, float[768] s", "float[8,128,768] y"),
    ("y = GroupNormalization<num_groups = 8>(x, s, b)", 21, "float[4,64,32,32] x, float[64] s, float[64] b", "float[4,64,32,32] y"),
    ("y = MeanVarianceNormalization(x)", 13, "float[4,64,32,32] x", "float[4,64,32,32] y"),
    ("y = Attention(q, k, v)", 23, f"{HEADS} q, {HEADS} k, {HEADS} v", f"{HEADS} y"),
    ("y = Attention<is_causal = 1>(q, k, v)", 23, f"{HEADS} q, {HEADS} k, {HEADS} v", f"{HEADS} y"),
    ("y = Attention(q, k, v, m)", 23, f"{HEADS} q, {HEADS} k, {HEADS} v, bool[128,128] m", f"{HEADS} y"),
    ("y = Attention(q, k, v, m)", 23, f"{HEADS} q, {HEADS} k, {HEADS} v, float[128,128] m", f"{HEADS} y"),
    ("y, pk, pv = Attention(q, k, v, , a, b)", 23, "float[1,8,1,64] q, float[1,8,1,64] k, float[1,8,1,64] v, float[1,8,127,64] a, float[1,8,127,64] b", f"float[1,8,1,64] y, {HEADS} pk, {HEADS} pv"),
    ("y, pk, pv = Attention<q_num_heads = 8, kv_num_heads = 8, is_causal = 1>(q, k, v, m, a, b)", 23, "float[1,4,512] q, float[1,4,512] k, float[1,4,512] v, float[4,128] m, float[1,8,124,64] a, float[1,8,124,64] b", f"float[1,4,512] y, {HEADS} pk, {HEADS} pv"),
    ("y = Attention<q_num_heads = 8, kv_num_heads = 8>(q, k, v)", 23, "float[1,128,512] q, float[1,128,512] k, float[1,128,512] v", "float[1,128,512] y"),
    ("y = Attention<q_num_heads = 8, kv_num_heads = 2>(q, k, v)", 23, "float[1,128,512] q, float[1,128,128] k, float[1,128,128] v", "float[1,128,512] y"),
    ("y = RotaryEmbedding(x, c, s, p)", 23, f"{HEADS} x, float[256,32] c, float[256,32] s, int64[1,128] p", f"{HEADS} y"),
    ("y = RotaryEmbedding(x, c, s)", 23, f"{HEADS} x, float[1,128,32] c, float[1,128,32] s", f"{HEADS} y"),
    ("y = Gelu(x)", 20, *ACTIVATION),
    ('y = Gelu<approximate = "tanh">(x)', 20, *ACTIVATION),
    ("y = HardSwish(x)", 22, *ACTIVATION),
    ("y = Mish(x)", 22, *ACTIVATION),
    ("y = Swish(x)", 24, *ACTIVATION),
    ("y = Celu(x)", 12, *ACTIVATION),
    ("y = Elu(x)", 22, *ACTIVATION),
    ("y = Selu(x)", 22, *ACTIVATION),
    ("y = Softplus(x)", 22, *ACTIVATION),
    ("y = Softsign(x)", 22, *ACTIVATION),
    ("y = HardSigmoid(x)", 22, *ACTIVATION),
    ("y = LeakyRelu(x)", 16, *ACTIVATION),
    ("y = ThresholdedRelu(x)", 22, *ACTIVATION),
    ("y = Shrink<lambd = 0.5, bias = 0.1>(x)", 18, *ACTIVATION),
    ("y = Relu(x)", 18, *ACTIVATION),
    ("y = PRelu(x, s)", 16, f"{ACTIVATION[0]}, float[4096] s", ACTIVATION[1]),
    ("y = Clip(x, lo, hi)", 13, f"{ACTIVATION[0]}, float lo, float hi", ACTIVATION[1]),
    ("y = GreaterOrEqual(x, z)", 18, f"{ACTIVATION[0]}, float[64,4096] z", "bool[64,4096] y"),
    ("y = Softmax(x)", 18, *ACTIVATION),
    ("y = LogSoftmax(x)", 18, *ACTIVATION),
    *((f"y = {op}<keepdims = 0>(x, axes)", 18, *REDUCTION) for op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")),
    ("loss = NegativeLogLikelihoodLoss(x, t)", 22, *LOSS),
    ("loss = SoftmaxCrossEntropyLoss(x, t)", 13, *LOSS),
    ("y, s, z = DynamicQuantizeLinear(x)", 20, "float[64,4096] x", "uint8[64,4096] y, float s, uint8 z"),
    ("y = CenterCropPad<axes = [2, 3]>(x, crop)", 18, "float[4,16,64,64] x", "float[4,16,48,80] y"),
    ("y = AffineGrid(x, size)", 20, "float[2,2,3] x", "float[2,64,64,2] y"),
    ("y = DepthToSpace<blocksize = 2>(x)", 13, "float[4,64,32,32] x", "float[4,16,64,64] y"),
    ("y = SpaceToDepth<blocksize = 2>(x)", 13, "float[4,16,64,64] x", "float[4,64,32,32] y"),
    ("y = Range(x, limit, delta)", 11, "int64 x", "int64[N] y"),
    ("y = HannWindow(size)", 17, "int64 size", "float[N] y"),
]  # fmt: skip
CONSTANTS = {
    "axes": "int64[1] axes = {1}",
    "crop": "int64[2] crop = {48, 80}",
    "size)": "int64[4] size = {2, 1, 64, 64}",
    "limit": "int64 limit = {4096}, int64 delta = {1}",
}


@dataclass(frozen=True)
class Form:
    """One way of writing a model without the operator."""

    nodes: int
    model: ModelProto


COLUMNS = ("call", "nodes", "nodes of the body", "µs", "ratio", "µs optimized", "ratio optimized")


def measure(ops: list[str], runs: int) -> Iterator[list[str]]:
    """A row for each case: nodes of ours and of the body, and the ratio of latencies, optimizations off and on."""
    for call, opset, inputs, outputs in CASES:
        source = _model(call, opset, inputs, outputs)
        if ops and source.graph.node[0].op_type not in ops:
            continue
        ours, body = _ours(source), _body(source)
        shown = [f"{call} at {opset}", str(ours.nodes), str(body.nodes) if body else "none"]
        given = _feeds(source)
        for level in (latency.OFF, latency.ON):
            seconds = list(latency.latencies([form.model for form in (ours, body) if form], given, level, runs))
            shown += [f"{seconds[0] * 1e6:.0f}", f"{seconds[0] / seconds[1]:.2f}" if len(seconds) > 1 else "-"]
        yield shown


def as_table(rows: Iterator[list[str]]) -> Table:
    """For the terminal."""
    table = Table(*COLUMNS, title="expansions against the bodies of the schemas", title_justify="left")
    for row in rows:
        table.add_row(*row)
    return table


def as_markdown(rows: Iterator[list[str]]) -> str:
    """As it stands in docs/expansions.md."""
    lines = [
        "# Expansions measured",
        "",
        "Written by `python -m benchmarks definitions --markdown`. What `opshift inline` puts in the place of a call, and",
        f"what `onnx.inliner` of onnx {onnx.__version__} does: nodes without constants, and latency in one run of onnxruntime",
        f"{ort.__version__} on one thread of a CPU, with its graph optimizations off and on. A ratio below 1 is faster than",
        "the body. *none*: the inliner fails, or what it leaves does not load. Bodies that overflow where the operator does",
        "not (Softplus above 88, ReduceLogSumExp above 709) are kept from it here, which is what the ratio of Softplus pays.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    return "\n".join([*lines, *(f"| `{row[0]}` | {' | '.join(row[1:])} |" for row in rows)]) + "\n"


def _model(call: str, opset: int, inputs: str, outputs: str) -> ModelProto:
    constants = ", ".join(text for name, text in CONSTANTS.items() if name in call and name.rstrip(")") not in inputs)
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) <{constants}> {{ {call} }}'
    return onnx.parser.parse_model(text)


def _op(source: ModelProto) -> tuple[str, str]:
    return "", source.graph.node[0].op_type


def _ours(source: ModelProto) -> Form:
    opset = source.opset_import[0].version
    result = convert.convert(source, {"": opset}, ops=[_op(source)]).model
    assert result is not None, "refusals are raised"
    return Form(latency.count(result), result)


def _body(source: ModelProto) -> Form | None:
    """None where the inliner fails, or leaves a model that onnxruntime does not load."""
    try:
        inlined = onnx.inliner.inline_selected_functions(source, [_op(source)], inline_schema_functions=True)
        latency.session(inlined, latency.OFF)
    except Exception:
        return None
    return Form(latency.count(inlined), inlined) if inlined.graph.node != source.graph.node else None


def _feeds(source: ModelProto) -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng(0), {}
    for value in source.graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if kind.kind == "b":
            found[value.name] = np.tri(*shape, dtype=bool)
        elif kind.kind == "i":
            found[value.name] = np.asarray(rng.integers(0, 100, shape) if shape else 64, kind)
        else:
            found[value.name] = np.asarray(rng.uniform(0.1, 1, shape), kind)
    return found
