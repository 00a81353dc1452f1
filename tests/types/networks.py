"""Random networks whose values are large, small, or cancel: what ranges and budgets are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import onnx.helper
import onnx.numpy_helper
from onnx import ModelProto, NodeProto, TensorProto

from tests.types import rounding

WIDTH, ROWS = 16, 12
Generator = np.random.Generator


class Network:
    """Nodes on values of ROWS x WIDTH numbers, from an input that is normally distributed."""

    def __init__(self, rng: Generator) -> None:
        self.rng = rng
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.values = ["x"]

    def constant(self, value: Any) -> str:
        """A weight."""
        name = f"w{len(self.weights)}"
        self.weights.append(
            onnx.numpy_helper.from_array(
                np.asarray(value, np.float32 if np.asarray(value).dtype.kind == "f" else np.int64), name
            )
        )
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node; its name and output are one."""
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def pick(self) -> str:
        """A value, a late one more often."""
        return self.values[max(0, len(self.values) - 1 - int(self.rng.exponential(1.2)))]

    def scale(self) -> float:
        """A factor; one in three is far from 1."""
        return float(10 ** self.rng.uniform(-6, 5)) if self.rng.random() < 0.3 else float(self.rng.uniform(0.3, 2))


def _matmul(net: Network, x: str) -> str:
    return net.add("MatMul", x, net.constant(net.rng.standard_normal((WIDTH, WIDTH)) * net.scale() / 4))


def _scaled(net: Network, x: str) -> str:
    factor = net.scale()
    up = net.add("Mul", x, net.constant(np.float32(factor)))
    inner = net.add(str(net.rng.choice(["Relu", "Tanh", "Sigmoid", "Neg", "Abs"])), up)
    return net.add(str(net.rng.choice(["Mul", "Div"])), inner, net.constant(np.float32(factor)))


def _norm(net: Network, x: str) -> str:
    mean = net.add("ReduceMean", x, axes=[-1])
    centered = net.add("Sub", x, mean)
    square = (
        net.add("Pow", centered, net.constant(np.float32(2)))
        if net.rng.random() < 0.5
        else net.add("Mul", centered, centered)
    )
    variance = net.add("ReduceMean", square, axes=[-1])
    root = net.add("Sqrt", net.add("Add", variance, net.constant(np.float32(10 ** net.rng.uniform(-12, -3)))))
    return net.add("Mul", net.add("Div", centered, root), net.constant(net.rng.standard_normal(WIDTH)))


def _attention(net: Network, x: str) -> str:
    q, k, v = (_matmul(net, x) for _ in range(3))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[1, 0]))
    if net.rng.random() < 0.5:
        low = float(net.rng.choice([-1e4, -1e9, -3.4028235e38]))
        scores = net.add("Add", scores, net.constant(np.where(np.tri(ROWS, dtype=bool), 0, low).astype(np.float32)))
    return net.add("MatMul", net.add("Softmax", scores, axis=-1), v)


def _logs(net: Network, x: str) -> str:
    bounded = net.add("Mul", net.add("Tanh", x), net.constant(np.float32(net.rng.uniform(1, 14))))
    total = net.add("ReduceSum", net.add("Exp", bounded), net.constant(np.array([-1])), keepdims=1)
    return net.add("Sub", bounded, net.add("Log", total))


def _ratio(net: Network, x: str) -> str:
    other = net.add("Add", net.add("Abs", net.pick()), net.constant(np.float32(10 ** net.rng.uniform(-8, 1))))
    return net.add("Div", x, other)


def _two(net: Network, x: str) -> str:
    return net.add(str(net.rng.choice(["Add", "Mul", "Max", "Sub"])), x, net.pick())


def _one(net: Network, x: str) -> str:
    return net.add(str(net.rng.choice(["Relu", "Sigmoid", "Tanh", "Softplus", "Erf", "Softmax", "Sin"])), x)


def _clip(net: Network, x: str) -> str:
    bound = float(net.rng.choice([1.0, 6.0, 1e6, 3.4028235e38]))
    return net.add("Clip", x, net.constant(np.float32(-bound)), net.constant(np.float32(bound)))


def _running(net: Network, x: str) -> str:
    return net.add("CumSum", x, net.constant(np.array(0)))


PARTS: list[Callable[[Network, str], str]] = [
    _matmul, _matmul, _matmul, _scaled, _norm, _norm, _attention, _logs, _ratio, _two, _two, _one, _one, _clip, _running,
]  # fmt: skip


def network(seed: int) -> tuple[ModelProto, dict[str, Any]] | None:
    """The network of a seed, or None where its outputs are of no use in float32: not finite, all alike, or noise."""
    rng = np.random.default_rng(seed)
    net = Network(rng)
    for _ in range(int(rng.integers(3, 14))):
        net.values.append(PARTS[int(rng.integers(len(PARTS)))](net, net.pick()))
    y = net.add("MatMul", net.values[-1], net.constant(rng.standard_normal((WIDTH, 8))))
    outputs = [onnx.helper.make_tensor_value_info(y, TensorProto.FLOAT, [ROWS, 8])]
    if rng.random() < 0.3:
        best = net.add("ArgMax", y, axis=-1, keepdims=0)
        outputs.append(onnx.helper.make_tensor_value_info(best, TensorProto.INT64, [ROWS]))
    x = onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, WIDTH])
    graph = onnx.helper.make_graph(net.nodes, "network", [x], outputs, net.weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": rng.standard_normal((ROWS, WIDTH)).astype(np.float32)}
    return (model, feeds) if _steady(model, feeds, rng) else None


def _steady(model: ModelProto, feeds: dict[str, Any], rng: Generator) -> bool:
    """Whether float32 itself can be believed: inputs that are rounded to float16 move no output by 0.3 %."""
    [[before, *choices]] = rounding.run(model, [feeds])
    size = float(np.sqrt(np.mean(np.square(before, dtype=np.float64)))) if np.isfinite(before).all() else 0.0
    if not 1e-3 < size < 1e4:
        return False
    moved = {"x": feeds["x"].astype(np.float16).astype(np.float32)}
    [[after, *others]] = rounding.run(model, [moved])
    if not np.isfinite(after).all() or any((one != two).any() for one, two in zip(choices, others, strict=True)):
        return False
    return float(np.sqrt(np.mean(np.square(np.subtract(after, before, dtype=np.float64))))) < 0.003 * size


def networks(first: int = 0) -> Iterator[tuple[str, ModelProto, dict[str, Any]]]:
    """Those of the seeds that follow."""
    for seed in count(first + 1):
        found = network(seed)
        if found is not None:
            yield f"seed {seed}", *found
