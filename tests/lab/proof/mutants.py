"""Small models of several kinds in any precision, and mutants of them: one weight, operator or attribute is another one."""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx import ModelProto, NodeProto, TensorProto
from onnx.reference import ReferenceEvaluator

from tests.lab.proof.running import Row, verify

Array = Any
OPSET = 18


class Writer:
    """Writes one model: nodes in order, weights as they are needed."""

    def __init__(self, elem_type: int, seed: int):
        self.elem_type, self.random = elem_type, np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.held: list[TensorProto] = []

    def weight(self, *shape: int, scale: float | None = None, base: float = 0.0) -> str:
        size = shape[1:] if len(shape) > 1 else shape
        values = self.random.standard_normal(shape) * (scale or 1 / np.sqrt(max(np.prod(size), 1))) + base
        return self.tensor(values.astype(np.float32))

    def tensor(self, values: Any) -> str:
        values = np.asarray(values)
        if values.dtype.kind == "f":
            values = values.astype(onnx.helper.tensor_dtype_to_np_dtype(self.elem_type))
        self.held.append(onnx.numpy_helper.from_array(values, f"w{len(self.held)}"))
        return self.held[-1].name

    def __call__(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(onnx.helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def model(self, shape: list[int], *outputs: str) -> ModelProto:
        def value(name: str, dims: list[int] | None, kind: int) -> Any:
            return onnx.helper.make_tensor_value_info(name, kind, dims)

        whole = {node.output[0] for node in self.nodes if node.op_type == "ArgMax"}
        results = [value(name, None, TensorProto.INT64 if name in whole else self.elem_type) for name in outputs]
        given = [value("x", shape, self.elem_type)]
        graph = onnx.helper.make_graph(self.nodes, "g", given, results, self.held)
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=8)


def perceptron(elem_type: int) -> ModelProto:
    w = Writer(elem_type, 1)
    v = w("Gemm", "x", w.weight(16, 12), w.weight(12, scale=0.5))
    v = w("Mul", v, w("Sigmoid", v))
    v = w("Add", w("MatMul", v, w.weight(12, 12)), w.weight(12, scale=0.5))
    v = w("LeakyRelu", v, alpha=0.2)
    v = w("Gemm", v, w.weight(5, 12), w.weight(5), transB=1, alpha=0.75, beta=1.5)
    return w.model([4, 16], w("Softmax", v, axis=-1), w("Tanh", v))


def classifier(elem_type: int) -> ModelProto:
    w = Writer(elem_type, 2)
    v = "x"
    for before, after in ((3, 8), (8, 8)):
        v = w("Conv", v, w.weight(after, before, 3, 3), w.weight(after, scale=0.5), pads=[1, 1, 1, 1])
        scale, bias = w.weight(after, scale=0.2, base=1), w.weight(after, scale=0.3)
        mean, variance = w.weight(after, scale=0.3), w.tensor(np.linspace(0.5, 1.5, after, dtype=np.float32))
        v = w("BatchNormalization", v, scale, bias, mean, variance, epsilon=1e-3)
        v = w("MaxPool", w("Relu", v), kernel_shape=[2, 2], strides=[2, 2])
    v = w("Flatten", w("GlobalAveragePool", v), axis=1)
    return w.model([2, 3, 12, 12], w("Gemm", v, w.weight(8, 4), w.weight(4)))


def encoder(elem_type: int) -> ModelProto:
    w = Writer(elem_type, 3)
    normed = w("LayerNormalization", "x", w.weight(16, scale=0.2, base=1), w.weight(16, scale=0.2), epsilon=1e-5)
    heads = [w("MatMul", normed, w.weight(16, 16)) for _ in range(3)]
    scores = w("MatMul", heads[0], w("Transpose", heads[1], perm=[0, 2, 1]))
    scores = w("Mul", scores, w.tensor(np.float32(0.5)))
    attended = w("MatMul", w("Softmax", scores, axis=-1), heads[2])
    v = w("Add", "x", w("MatMul", attended, w.weight(16, 16)))
    mean = w("ReduceMean", v, w.tensor(np.array([-1], np.int64)))
    inner = w("Sub", v, mean)
    spread = w("ReduceMean", w("Mul", inner, inner), w.tensor(np.array([-1], np.int64)))
    inner = w("Div", inner, w("Sqrt", w("Add", spread, w.tensor(np.float32(1e-2)))))
    wide = w("Add", w("MatMul", inner, w.weight(16, 24)), w.weight(24, scale=0.3))
    gelu = w("Mul", wide, w("Add", w("Erf", w("Mul", wide, w.tensor(np.float32(0.7071)))), w.tensor(np.float32(1))))
    return w.model([2, 6, 16], w("Add", v, w("MatMul", gelu, w.weight(24, 16))))


def decoder(elem_type: int) -> ModelProto:
    w = Writer(elem_type, 4)
    v = w("ConvTranspose", "x", w.weight(4, 6, 2, 2, scale=0.4), w.weight(6, scale=0.3), strides=[2, 2])
    v = w("InstanceNormalization", v, w.weight(6, scale=0.2, base=1), w.weight(6, scale=0.2), epsilon=1e-2)
    v = w("PRelu", v, w.weight(6, 1, 1, scale=0.3, base=0.3))
    v = w("AveragePool", v, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    v = w("Conv", v, w.weight(3, 6, 1, 1), w.weight(3))
    return w.model([1, 4, 5, 5], w("HardSigmoid", v, alpha=0.3, beta=0.4), w("Softplus", v))


def scorer(elem_type: int) -> ModelProto:
    w = Writer(elem_type, 5)
    v = w("Add", w("MatMul", "x", w.weight(10, 9)), w.weight(9))
    gate = w("Greater", v, w.tensor(np.float32(0.25)))
    v = w("Where", gate, w("Elu", v, alpha=0.7), w("Exp", w("Neg", w("Abs", v))))
    low, high = w("Split", v, w.tensor(np.array([4, 5], np.int64)), outputs=2, axis=1)
    joined = w("Concat", w("Max", low, w.weight(4, scale=0.1)), w("ReduceSum", high, w.tensor(np.array([1]))), axis=1)
    return w.model(
        [3, 10],
        w("LogSoftmax", joined, axis=1),
        w("ArgMax", v, axis=1, keepdims=0),
        w("CumSum", joined, w.tensor(np.int64(1))),
    )


MODELS: dict[str, Callable[[int], ModelProto]] = {
    f.__name__: f for f in (perceptron, classifier, encoder, decoder, scorer)
}

EXCHANGED = {
    "Abs": "Neg", "Add": "Sub", "ArgMax": "ArgMin", "AveragePool": "MaxPool", "Div": "Mul", "Elu": "LeakyRelu",
    "Erf": "Tanh", "Exp": "Softplus", "GlobalAveragePool": "GlobalMaxPool", "Greater": "Less", "LeakyRelu": "Elu",
    "LogSoftmax": "Softmax", "Max": "Min", "MaxPool": "AveragePool", "Mul": "Add", "Neg": "Identity",
    "ReduceMean": "ReduceMax", "ReduceSum": "ReduceMean", "Relu": "Abs", "Sigmoid": "Tanh", "Softmax": "LogSoftmax",
    "Softplus": "Relu", "Sqrt": "Identity", "Sub": "Add", "Tanh": "Softsign",
}  # fmt: skip
CHANGED = {"alpha": lambda v: v * 1.5, "beta": lambda v: v * 0.5, "epsilon": lambda v: v + 0.3}
AXES = {"axis": (0, 1, -1, 2), "keepdims": (0, 1)}


@dataclass(frozen=True)
class Mutant:
    """`change` does to a copy of a model, in whichever precision, what `name` says."""

    name: str
    change: Callable[[ModelProto], None]

    def of(self, model: ModelProto) -> ModelProto:
        copy = ModelProto()
        copy.CopyFrom(model)
        self.change(copy)
        return copy


def mutants(model: ModelProto) -> Iterator[Mutant]:
    """All that the tables yield; not every one of them is valid, or computes something else."""
    for index, tensor in enumerate(model.graph.initializer):
        if tensor.data_type == TensorProto.INT64:
            continue
        yield Mutant(f"{tensor.name} zeroed", _weight(index, np.zeros_like))
        yield Mutant(
            f"{tensor.name} permuted",
            _weight(index, lambda v: np.roll(v.reshape(-1), v.size // 2 + 1).reshape(v.shape)),
        )
        yield Mutant(f"{tensor.name} scaled", _weight(index, lambda v: v * np.asarray(1.25, v.dtype)))
    for index, node in enumerate(model.graph.node):
        if node.op_type in EXCHANGED:
            yield Mutant(f"{node.op_type} {index} exchanged", _operator(index, EXCHANGED[node.op_type]))
        if node.op_type in ("Conv", "ConvTranspose", "Gemm"):
            yield Mutant(f"{node.op_type} {index} without bias", _without_bias(index))
        for attribute in node.attribute:
            if attribute.name in CHANGED:
                yield Mutant(
                    f"{node.op_type} {index} {attribute.name}",
                    _attribute(index, attribute.name, "f", CHANGED[attribute.name]),
                )
            for value in AXES.get(attribute.name, ()):
                yield Mutant(
                    f"{node.op_type} {index} {attribute.name}={value}",
                    _attribute(index, attribute.name, "i", lambda _, v=value: v),
                )


def _weight(index: int, change: Callable[[Array], Array]) -> Callable[[ModelProto], None]:
    def apply(model: ModelProto) -> None:
        tensor = model.graph.initializer[index]
        values = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(change(values)).astype(values.dtype), tensor.name))

    return apply


def _operator(index: int, op: str) -> Callable[[ModelProto], None]:
    def apply(model: ModelProto) -> None:
        node = model.graph.node[index]
        node.op_type = op
        allowed = onnx.defs.get_schema(op, OPSET).attributes
        for k in reversed(range(len(node.attribute))):
            if node.attribute[k].name not in allowed:
                del node.attribute[k]

    return apply


def _without_bias(index: int) -> Callable[[ModelProto], None]:
    def apply(model: ModelProto) -> None:
        del model.graph.node[index].input[2:]

    return apply


def _attribute(index: int, name: str, field: str, change: Callable[[Any], Any]) -> Callable[[ModelProto], None]:
    def apply(model: ModelProto) -> None:
        attribute = next(a for a in model.graph.node[index].attribute if a.name == name)
        setattr(attribute, field, change(getattr(attribute, field)))

    return apply


# --- judged -------------------------------------------------------------------------------------------------

PRECISIONS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
GRADES = ("exact", "close")
PLAIN = 0.05
"""How far a plain mutant moves an output, as a part of the root of its mean square."""


def plain(make: Callable[[int], ModelProto], step: int = 1) -> Iterator[Mutant]:
    """Of the mutants of a model, or one in so many, those that are others by onnx.reference in float64, on drawn inputs."""
    wide = make(TensorProto.DOUBLE)
    shape = [dim.dim_value for dim in wide.graph.input[0].type.tensor_type.shape.dim]
    feeds = [{"x": np.random.default_rng(seed).standard_normal(shape)} for seed in range(3)]
    expected = [ReferenceEvaluator(wide).run(None, feed) for feed in feeds]
    for mutant in islice(mutants(wide), 0, None, step):
        try:
            evaluator = ReferenceEvaluator(mutant.of(wide))
            is_other = any(
                _moved(a, b)
                for feed, one in zip(feeds, expected, strict=True)
                for a, b in zip(one, evaluator.run(None, feed), strict=True)
            )
        except Exception:  # it is not valid
            continue
        if is_other:
            yield mutant


def _moved(a: Array, b: Array) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.kind != "f":
        return not np.array_equal(a, b)
    with np.errstate(all="ignore"):
        return bool(np.abs(a - b).max() > PLAIN * np.sqrt(np.mean(a**2)))


def cases(options: argparse.Namespace) -> Iterator[Callable[[], Row]]:
    """As many as asked for, drawn from all plain mutants in all precisions."""
    found = [
        (f"{name} in {TensorProto.DataType.Name(elem_type)}: {mutant.name}", make, elem_type, mutant)
        for name, make in MODELS.items()
        for mutant in plain(make)
        for elem_type in PRECISIONS
    ]
    random.Random(options.seed).shuffle(found)
    for name, make, elem_type, mutant in [case for case in found if options.only in case[0]][: options.count]:
        yield lambda name=name, make=make, elem_type=elem_type, mutant=mutant: _judge(
            name, make(elem_type), mutant, options
        )


def _judge(name: str, source: ModelProto, mutant: Mutant, options: argparse.Namespace) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        onnx.save(source, before)
        onnx.save(mutant.of(source), after)
        answer = verify(before, after, options=() if options.plain else ("--close",), limit=options.limit)
    return Row("mutants", name, answer, answer.status == "different")
