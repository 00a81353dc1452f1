"""Results of conversions with one mistake planted: another operator, attribute, constant or weight.

A mistake counts where the honest result is told equal, and onnxruntime computes other bits on some ordinary inputs:
more than `ROUNDING` of them. What is as close as that may be the same function, as a number that is added to all scores
before Softmax; it is listed apart.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx.numpy_helper
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from tests.lab.proof import forms
from tests.lab.proof.apart import Apart
from tests.lab.proof.forms import Form
from tests.lab.proof.pairs import distance
from tests.lab.proof.running import Row, verify

Array = Any
NEAR = {
    "Add": ["Sub"], "Sub": ["Add"], "Mul": ["Add", "Div"], "Div": ["Mul"], "Max": ["Min"], "Min": ["Max"], "And": ["Or"], "Or": ["And"],
    "Greater": ["GreaterOrEqual", "Less"], "GreaterOrEqual": ["Greater"], "Less": ["LessOrEqual"], "LessOrEqual": ["Less"],
    "Relu": ["LeakyRelu", "Softplus", "Abs"], "Softplus": ["Relu"], "Elu": ["Celu", "LeakyRelu"], "Selu": ["Elu"], "HardSwish": ["Mish"],
    "Sigmoid": ["HardSigmoid"], "HardSigmoid": ["Sigmoid"], "Tanh": ["Softsign"], "Erf": ["Tanh"], "Exp": ["Softplus"],
    "Sin": ["Cos"], "Cos": ["Sin"], "Floor": ["Round", "Ceil"], "Ceil": ["Round"], "Round": ["Floor"], "Abs": ["Relu"], "Neg": ["Identity"],
    "ReduceMean": ["ReduceSum", "ReduceMax"], "ReduceSum": ["ReduceMean"], "ReduceMax": ["ReduceMean"], "ReduceL2": ["ReduceL1"],
    "ReduceSumSquare": ["ReduceL2"], "ReduceLogSumExp": ["ReduceMax"], "ArgMax": ["ArgMin"], "Softmax": ["Hardmax"],
    "GlobalAveragePool": ["GlobalMaxPool"], "AveragePool": ["MaxPool"], "MaxPool": ["AveragePool"], "Sqrt": ["Abs"],
    "LayerNormalization": ["RMSNormalization"],
}  # fmt: skip
WORDS = {
    "mode": ["nearest", "linear", "cubic", "constant", "edge", "reflect", "DCR", "CRD", "bilinear"],
    "coordinate_transformation_mode": [
        "half_pixel",
        "asymmetric",
        "align_corners",
        "pytorch_half_pixel",
        "output_half_pixel",
    ],
    "nearest_mode": ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"],
    "approximate": ["none", "tanh"],
    "reduction": ["none", "add", "mul", "max", "min"],
    "direction": ["LEFT", "RIGHT", "forward", "reverse"],
    "equation": [],
}
ROUNDING = 16
"""Units of rounding of the largest element."""
ATTEMPTS = 12
"""Mistakes that are tried in one result, until one of them counts."""


def cases(options: argparse.Namespace) -> Iterator[Callable[[], list[Row]]]:
    """As many as asked for, in exported models and published node tests in turn."""
    of_models = forms.drawn(forms.exported(), tuple(forms.WAYS), options.seed)
    of_nodes = forms.drawn(forms.nodes(), forms.OF_NODES, options.seed)
    draw = random.Random(options.seed)
    left = options.count
    with Apart() as apart:
        for form in chain.from_iterable(zip_longest(of_models, of_nodes)):
            if form is not None and options.only in form.name and (found := _plant(form, draw, apart)):
                left -= 1
                yield lambda form=form, found=found: _judge(form, *found, options)
            if not left:
                return


def _judge(form: Form, mistake: str, planted: ModelProto, moved: float, options: argparse.Namespace) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("source.onnx", "honest.onnx", "planted.onnx")]
        for path, model in zip(paths, (form.source.model, form.model, planted), strict=True):
            onnx.save(model, path)
        asked = () if options.plain else ("--close",)
        honest = verify(paths[0], paths[1], asked, options.limit)
        rows = [Row("honest", form.name, honest, honest.status not in ("different", "exit 1"))]
        if honest.status == "equal":
            told = verify(paths[0], paths[2], asked, options.limit)
            kind = "planted" if moved > ROUNDING else "planted, within rounding"
            right = told.status == "different" or moved <= ROUNDING
            rows.append(Row(kind, f"{form.name}: {mistake}", told, right, f"moved by {moved:.2g} units of rounding"))
    return rows


def _plant(form: Form, draw: random.Random, apart: Apart) -> tuple[str, ModelProto, float] | None:
    """A mistake that changes bits on the inputs of the source, or on others drawn about as large."""
    feeds = [form.source.inputs, _others(form.source.inputs, 1), _others(form.source.inputs, 2)]
    expected = apart.outputs(form.model, feeds)
    if expected is None:
        return None
    for _ in range(ATTEMPTS):
        planted = ModelProto()
        planted.CopyFrom(form.model)
        mistake = _change(planted, draw)
        if mistake is None:
            continue
        actual = apart.outputs(planted, feeds)
        if actual is None:
            continue
        pairs = [pair for one, other in zip(expected, actual, strict=True) for pair in zip(one, other, strict=True)]
        if all(a.shape == b.shape for a, b in pairs) and any(a.tobytes() != b.tobytes() for a, b in pairs):
            return mistake, planted, max(_units(a, b) for a, b in pairs)
    return None


def _units(a: Array, b: Array) -> float:
    """The distance of two outputs in units of rounding of the largest element; infinite for other integers or NaN."""
    apart = distance(a, b)
    return apart / float(np.finfo(a.dtype).eps) if a.dtype in (np.float16, np.float32, np.float64) else apart


def _others(inputs: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Floats as large as the given ones, with a normal distribution; integers as they are."""
    rng = np.random.default_rng(seed)
    return {
        name: (rng.standard_normal(value.shape) * max(float(np.std(value.astype(np.float64))), 0.1)).astype(value.dtype)
        if value.dtype.kind == "f" and value.size
        else value
        for name, value in inputs.items()
    }


def _change(model: ModelProto, draw: random.Random) -> str | None:
    """Change one thing, and say which; None where the node drawn has nothing of the kind drawn."""
    node = draw.choice(list(_nodes(model)))
    kind = draw.choice(
        [_other_operator, _other_attribute, _other_attribute, _other_constant, _other_constant, _exchanged_inputs]
    )
    where = f"{node.op_type} of {node.output[0]}"
    mistake = kind(model, node, draw)
    return mistake and f"{mistake} in {where}"


def _other_operator(model: ModelProto, node: NodeProto, draw: random.Random) -> str | None:
    if node.domain or node.op_type not in NEAR:
        return None
    other = draw.choice(NEAR[node.op_type])
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if not onnx.defs.has(other, opset, ""):
        return None
    schema = onnx.defs.get_schema(other, opset, "")
    if not schema.min_input <= len(node.input) <= schema.max_input:
        return None
    kept = [attribute for attribute in node.attribute if attribute.name in schema.attributes]
    node.op_type = other
    del node.attribute[:]
    node.attribute.extend(kept)
    return other


def _other_attribute(model: ModelProto, node: NodeProto, draw: random.Random) -> str | None:
    changeable = [attribute for attribute in node.attribute if attribute.name not in ("to", "group", "kernel_shape")]
    if not changeable:
        return None
    attribute = draw.choice(changeable)
    before = onnx.helper.get_attribute_value(attribute)
    if attribute.type == AttributeProto.FLOAT:
        factor = draw.choice([2, 20]) if attribute.name == "epsilon" else draw.choice([0.95, 1.05, 1.5])
        attribute.f = attribute.f * factor if attribute.f else 0.05
    elif attribute.type == AttributeProto.INT:
        attribute.i = (
            1 - attribute.i
            if attribute.i in (0, 1) and attribute.name != "axis"
            else attribute.i + draw.choice([-1, 1])
        )
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        index = draw.randrange(len(attribute.ints))
        if attribute.name == "perm" or draw.random() < 0.3:
            other = draw.randrange(len(attribute.ints))
            attribute.ints[index], attribute.ints[other] = attribute.ints[other], attribute.ints[index]
        else:
            attribute.ints[index] += draw.choice([-1, 1])
    elif attribute.type == AttributeProto.STRING and WORDS.get(attribute.name):
        attribute.s = draw.choice(WORDS[attribute.name]).encode()
    elif attribute.type == AttributeProto.TENSOR:
        return _other_element(attribute.t, draw)
    after = onnx.helper.get_attribute_value(attribute)
    return f"{attribute.name} {after} for {before}" if after != before else None


def _other_constant(model: ModelProto, node: NodeProto, draw: random.Random) -> str | None:
    """One element of an initializer, for all who read it, or of a Constant node."""
    tensors = {tensor.name: tensor for graph in _graphs(model) for tensor in graph.initializer}
    for made in _nodes(model):
        if made.op_type == "Constant" and made.attribute and made.attribute[0].type == AttributeProto.TENSOR:
            tensors[made.output[0]] = made.attribute[0].t
    held = [tensors[name] for name in node.input if name in tensors]
    return _other_element(draw.choice(held), draw) if held else None


def _other_element(tensor: TensorProto, draw: random.Random) -> str | None:
    values = onnx.numpy_helper.to_array(tensor).copy()
    if not values.size or values.dtype.kind not in "fiub":
        return None
    flat = values.reshape(-1)
    index = draw.randrange(flat.size)
    before = flat[index]
    if values.dtype.kind == "f":
        level = (
            float(np.sqrt(np.mean(flat[np.isfinite(flat)].astype(np.float64) ** 2))) if np.isfinite(flat).any() else 1.0
        )
        flat[index] += np.asarray(0.05 * (level or 1.0), values.dtype)
    else:
        flat[index] = not before if values.dtype.kind == "b" else before + draw.choice([-1, 1]) if before else 1
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return f"{flat[index]} for {before} in a constant of {values.size}"


def _exchanged_inputs(model: ModelProto, node: NodeProto, draw: random.Random) -> str | None:
    if (
        node.op_type not in ("Sub", "Div", "Pow", "Mod", "Greater", "Less", "MatMul", "Where", "Concat")
        or len(node.input) < 2
    ):
        return None
    node.input[-1], node.input[-2] = node.input[-2], node.input[-1]
    return "inputs exchanged"


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    """The graph and all bodies in it."""
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    for graph in _graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node
