"""Models of operators drawn at random, in a graph, in branches and in functions: one class, a method for each kind of node."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
from hypothesis import assume
from hypothesis import strategies as st
from onnx import TensorProto
from opshift.passes.model import schemas

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL

# Operators of one float input without discontinuities, and the opset from which on they exist.
UNARY = {
    **dict.fromkeys(["Abs", "Neg", "Exp", "Tanh", "Sigmoid", "Relu", "Sqrt", "Elu", "LeakyRelu", "Selu"], 7),
    **dict.fromkeys(["Softplus", "Softsign", "HardSigmoid", "Identity", "Dropout", "Sin", "Cos", "Atan"], 7),
    **dict.fromkeys(["Erf", "Sinh", "Asinh", "Shrink", "MeanVarianceNormalization"], 9),
    **{"ThresholdedRelu": 10, "Celu": 12, "HardSwish": 14, "Mish": 18, "Gelu": 20, "Swish": 24},
}
BINARY = dict.fromkeys(["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "PRelu", "Pow"], 7)
COMPARING = {"Less": 7, "Greater": 7, "Equal": 11, "LessOrEqual": 12, "GreaterOrEqual": 12}
REDUCING = [
    f"Reduce{name}" for name in ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]
]
NORMALIZING = ["Softmax", "LogSoftmax", "Hardmax", "LpNormalization"]


class Maker:
    """Adds nodes to a body; `values` are those that later nodes may read, as (name, type, shape)."""

    def __init__(self, draw, opset, prefix, outer=(), held=None):
        self.draw, self.opset, self.prefix = draw, opset, prefix
        self.nodes, self.values, self.held = [], list(outer), held
        self.count = 0

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices))

    def value(self, kind=FLOAT, least=0, most=5):
        found = [v for v in self.values if v[1] == kind and least <= len(v[2]) <= most]
        return self.draw(st.sampled_from(found)) if found else None

    def name(self):
        self.count += 1
        return f"{self.prefix}{self.count}"

    def constant(self, array):
        name, tensor = self.name(), onnx.numpy_helper.from_array(np.asarray(array))
        if self.held is not None and self.draw(st.booleans()):
            tensor.name = name
            self.held.append(tensor)
        else:
            self.nodes.append(onnx.helper.make_node("Constant", [], [name], value=tensor))
        return name

    def node(self, op, inputs, kind, shape, more=(), **attributes):
        name = self.name()
        made = onnx.helper.make_node(op, inputs, [name, *more], **attributes)
        if self.draw(st.booleans()):
            made.name = f"{self.prefix}{op}"
        self.nodes.append(made)
        if int(np.prod(shape)) <= 2000:
            self.values.append((name, kind, tuple(int(d) for d in shape)))

    def axis(self, rank, extra=0):
        low = -rank if self.opset >= 13 else 0
        return self.draw(st.integers(low, max(rank - 1 + extra, low)))

    def axes(self, rank):
        found = self.draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
        found.sort()
        return [a - rank if self.opset >= 11 and self.draw(st.booleans()) else a for a in found]

    def ints(self, values):
        return self.constant(np.array(values, np.int64))

    def step(self):
        kinds = [n for n in dir(self) if n.startswith("add_")]
        getattr(self, self.draw(st.sampled_from(kinds)))()

    # --- operators ------------------------------------------------------------------------------------------

    def add_unary(self):
        op = self.pick(*[op for op, first in UNARY.items() if first <= self.opset])
        name, kind, shape = self.value()
        attributes = {}
        if op in ("Elu", "LeakyRelu", "ThresholdedRelu", "Celu") and self.draw(st.booleans()):
            attributes = {"alpha": 0.5}
        if op == "MeanVarianceNormalization" and len(shape) != 4:
            return
        self.node(op, [name], kind, shape, **attributes)

    def add_binary(self):
        op = self.pick(*BINARY)
        kind = FLOAT if op in ("Mean", "PRelu", "Pow", "Max", "Min", "Sum") else self.pick(FLOAT, INT)
        one, other = self.value(kind), self.value(kind)
        if one is None or other is None or (kind == INT and op == "Div"):
            return
        if op in ("Max", "Min", "Sum", "Mean") and self.opset < 8 and one[2] != other[2]:
            return
        try:
            shape = np.broadcast_shapes(one[2], other[2])
        except ValueError:
            return
        if op == "PRelu" and shape != one[2]:
            return
        self.node(op, [one[0], other[0]], kind, shape)

    def add_clip(self):
        name, kind, shape = self.value()
        if self.opset < 11:
            bounds = self.pick({}, {"min": -0.5}, {"max": 1.0}, {"min": -1.0, "max": 0.25})
            self.node("Clip", [name], kind, shape, **bounds)
        else:
            low = self.constant(np.float32(-0.5)) if self.draw(st.booleans()) else ""
            high = self.constant(np.float32(0.75)) if self.draw(st.booleans()) else ""
            self.node("Clip", [name, low, high], kind, shape)

    def add_comparison(self):
        op = self.pick(*[op for op, first in COMPARING.items() if first <= self.opset])
        one, other = self.value(), self.value()
        try:
            shape = np.broadcast_shapes(one[2], other[2])
        except ValueError:
            return
        self.node(op, [one[0], other[0]], BOOL, shape)

    def add_where(self):
        test, one = self.value(BOOL), self.value()
        if test is None or self.opset < 9:
            return
        try:
            shape = np.broadcast_shapes(test[2], one[2])
        except ValueError:
            return
        self.node("Where", [test[0], one[0], self.constant(np.float32(0.5))], FLOAT, shape)

    def add_cast(self):
        kind = self.pick(FLOAT, INT, BOOL)
        found = self.value(kind)
        if found is None:
            return
        to = self.pick(*([FLOAT, INT, BOOL] if kind != FLOAT else [FLOAT, BOOL]))
        self.node("Cast", [found[0]], to, found[2], to=to)

    def add_reduction(self):
        op = self.pick(*REDUCING)
        name, kind, shape = self.value(least=1)
        keep = self.pick(0, 1)
        axes = self.axes(len(shape)) if self.draw(st.integers(0, 3)) else None
        gone = {a % len(shape) for a in (axes if axes is not None else range(len(shape)))}
        left = [1 if i in gone else d for i, d in enumerate(shape) if keep or i not in gone]
        attributes = {} if keep and self.draw(st.booleans()) else {"keepdims": keep}
        inputs = [name]
        if axes is None and self.opset >= 18 and not self.draw(st.integers(0, 2)):
            attributes["noop_with_empty_axes"] = 1
            left = shape
        elif axes is not None and self.opset >= (13 if op == "ReduceSum" else 18):
            inputs.append(self.ints(axes))
        elif axes is not None:
            attributes["axes"] = axes
        self.node(op, inputs, kind, left, **attributes)

    def add_argument(self):
        name, _, shape = self.value(least=1)
        axis, keep = self.axis(len(shape)) if self.opset >= 11 else 0, self.pick(0, 1)
        left = [1 if i == axis % len(shape) else d for i, d in enumerate(shape) if keep or i != axis % len(shape)]
        self.node(self.pick("ArgMax", "ArgMin"), [name], INT, left, axis=axis, keepdims=keep)

    def add_normalization(self):
        name, kind, shape = self.value(least=1)
        op = self.pick(*NORMALIZING)
        attributes = {} if self.draw(st.booleans()) else {"axis": self.axis(len(shape))}
        if op != "LpNormalization" and not attributes and self.opset < 13 and len(shape) < 2:
            return
        self.node(op, [name], kind, shape, **attributes)

    def add_layernorm(self):
        name, kind, shape = self.value(least=1)
        if self.opset >= 17:
            scale = self.constant(np.linspace(0.5, 1.5, shape[-1], dtype=np.float32))
            self.node("LayerNormalization", [name, scale], kind, shape)

    def add_reshape(self):
        kind = self.pick(FLOAT, INT)
        found = self.value(kind)
        if found is None:
            return
        name, _, shape = found
        size = int(np.prod(shape))
        wanted = self.pick(
            [size], [1, size], [-1], [size, 1, 1], list(shape)[::-1], [2, -1] if size % 2 == 0 else [-1, 1]
        )
        left = [size // abs(int(np.prod(wanted))) if d == -1 else d for d in wanted]
        self.node("Reshape", [name, self.ints(wanted)], kind, left)

    def add_flatten(self):
        name, kind, shape = self.value(least=1)
        axis = self.draw(st.integers(0, len(shape)))
        left = [int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))]
        self.node("Flatten", [name], kind, left, axis=axis)

    def add_transpose(self):
        name, kind, shape = self.value(least=1)
        order = self.draw(st.permutations(range(len(shape))))
        self.node("Transpose", [name], kind, [shape[i] for i in order], perm=order)

    def add_unsqueeze(self):
        kind = self.pick(FLOAT, INT, BOOL)
        found = self.value(kind, most=3)
        if found is None:
            return
        name, _, shape = found
        axis = self.draw(st.integers(0, len(shape)))
        left = [*shape[:axis], 1, *shape[axis:]]
        if self.opset < 13:
            self.node("Unsqueeze", [name], kind, left, axes=[axis])
        else:
            self.node("Unsqueeze", [name, self.ints([axis])], kind, left)

    def add_squeeze(self):
        name, kind, shape = self.value(least=1)
        ones = [i for i, d in enumerate(shape) if d == 1]
        if not ones:
            return
        axis = self.draw(st.sampled_from(ones))
        left = [d for i, d in enumerate(shape) if i != axis]
        if self.draw(st.booleans()):
            self.node("Squeeze", [name], kind, [d for d in shape if d != 1])
        elif self.opset < 13:
            self.node("Squeeze", [name], kind, left, axes=[axis])
        else:
            self.node("Squeeze", [name, self.ints([axis])], kind, left)

    def add_slice(self):
        name, kind, shape = self.value(least=1)
        axis = self.draw(st.integers(0, len(shape) - 1))
        start, end = self.pick((0, 2), (-2, 100), (1, 3), (0, -1))
        left = list(shape)
        left[axis] = len(range(shape[axis])[start:end])
        if not left[axis]:
            return
        if self.opset < 10:
            self.node("Slice", [name], kind, left, axes=[axis], starts=[start], ends=[end])
        else:
            self.node("Slice", [name, *(self.ints([v]) for v in (start, end, axis))], kind, left)

    def add_pad(self):
        name, kind, shape = self.value(least=1)
        before = [self.pick(0, 0, 1) for _ in shape]
        after = [self.pick(0, 0, 2) for _ in shape]
        left = [b + d + a for b, d, a in zip(before, shape, after, strict=True)]
        if self.opset < 11:
            self.node("Pad", [name], kind, left, pads=before + after, value=0.25)
        else:
            fill = [self.constant(np.float32(0.25))] if self.draw(st.booleans()) else []
            self.node("Pad", [name, self.ints(before + after), *fill], kind, left)

    def add_concat(self):
        kind = self.pick(FLOAT, INT)
        found = self.value(kind, least=1)
        if found is None:
            return
        axis = self.axis(len(found[2])) if self.opset >= 11 else self.draw(st.integers(0, len(found[2]) - 1))
        left = list(found[2])
        left[axis] *= 2
        self.node("Concat", [found[0], found[0]], kind, left, axis=axis)

    def add_split(self):
        name, kind, shape = self.value(least=1)
        axis = self.draw(st.integers(0, len(shape) - 1))
        if shape[axis] < 2:
            return
        left = list(shape)
        left[axis] = 1
        parts = [1, shape[axis] - 1]
        rest = [self.name()]
        if self.opset < 13:
            self.node("Split", [name], kind, left, rest, axis=axis, split=parts)
        else:
            self.node("Split", [name, self.ints(parts)], kind, left, rest, axis=axis)

    def add_gather(self):
        name, kind, shape = self.value(least=1)
        axis = self.axis(len(shape)) if self.opset >= 11 else self.draw(st.integers(0, len(shape) - 1))
        index = np.array(self.pick([0], [0, 0], 0), np.int64)
        at = axis % len(shape)
        left = [*shape[:at], *index.shape, *shape[at + 1 :]]
        self.node("Gather", [name, self.constant(index)], kind, left, axis=axis)

    def add_shape(self):
        name, _, shape = self.value()
        if self.opset >= 15 and len(shape) > 1 and self.draw(st.booleans()):
            start = self.pick(0, 1, -1)
            self.node("Shape", [name], INT, [len(range(len(shape))[start:])], start=start)
        else:
            self.node("Shape", [name], INT, [len(shape)])

    def add_size(self):
        self.node("Size", [self.value()[0]], INT, [])

    def add_expand(self):
        name, kind, shape = self.value(most=3)
        if self.opset >= 8:
            self.node("Expand", [name, self.ints([2, *[1] * len(shape)])], kind, [2, *shape])

    def add_tile(self):
        name, kind, shape = self.value(least=1)
        times = [self.pick(1, 1, 2) for _ in shape]
        self.node("Tile", [name, self.ints(times)], kind, [d * t for d, t in zip(shape, times, strict=True)])

    def add_cumsum(self):
        name, kind, shape = self.value(least=1)
        if self.opset >= 11:
            axis = self.constant(np.array(self.axis(len(shape)), np.int64))
            self.node("CumSum", [name, axis], kind, shape, exclusive=self.pick(0, 1), reverse=self.pick(0, 1))

    def add_topk(self):
        name, kind, shape = self.value(least=1)
        left = [*shape[:-1], 1]
        if self.opset < 10:
            self.node("TopK", [name], kind, left, [self.name()], k=1)
        else:
            self.node("TopK", [name, self.ints([1])], kind, left, [self.name()])

    def add_matmul(self):
        name, kind, shape = self.value(least=2)
        weight = self.constant(np.linspace(-1, 1, shape[-1] * 2, dtype=np.float32).reshape(shape[-1], 2))
        if len(shape) == 2 and self.draw(st.booleans()):
            bias = self.constant(np.array([0.5, -0.5], np.float32))
            self.node("Gemm", [name, weight, bias], kind, [shape[0], 2])
        else:
            self.node("MatMul", [name, weight], kind, [*shape[:-1], 2])

    def add_batchnorm(self):
        name, kind, shape = self.value(least=3)
        scale, shift, mean, spread = (np.linspace(0.5, 1.5, shape[1], dtype=np.float32) + i for i in range(4))
        held = [self.constant(a) for a in (scale, shift, mean, spread)]
        self.node("BatchNormalization", [name, *held], kind, shape)

    def add_upsampling(self):
        name, kind, shape = self.value(least=4, most=4)
        if self.opset < 10:
            return
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        left = [*shape[:2], shape[2] * 2, shape[3] * 2]
        attributes = (
            {} if self.opset < 11 else {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        )
        self.node("Resize", [name, scales] if self.opset < 11 else [name, "", scales], kind, left, **attributes)

    def add_trilu(self):
        name, kind, shape = self.value(least=2)
        if self.opset >= 14:
            self.node("Trilu", [name], kind, shape, upper=self.pick(0, 1))


FEEDS = {"x": (2, 3), "y": (1, 3), "z": (1, 2, 3, 4)}


def make(draw):
    """A model with inputs x, y, z and a condition; its nodes stand in the graph, in a branch, or in a function."""
    opset = draw(st.integers(7, 26))
    place = draw(st.sampled_from(["graph", "graph", "branch", "function"]))
    held = []
    outer = [(name, FLOAT, shape) for name, shape in FEEDS.items()]
    main = Maker(draw, opset, "m", outer, held)
    for _ in range(draw(st.integers(0, 4))):
        main.step()
    inner = main
    if place != "graph":
        inner_held = [] if place == "branch" else None
        inner = Maker(draw, opset, "i", main.values if place == "branch" else outer, inner_held)
    for _ in range(draw(st.integers(1, 6))):
        inner.step()
    own = [v for v in inner.values if v not in outer and v not in (main.values if inner is not main else ())]
    assume(own)
    result = own[-1]
    functions, imports, nodes = [], [onnx.helper.make_opsetid("", opset)], list(main.nodes)
    if place == "branch":
        filler = onnx.numpy_helper.from_array(np.ones(result[2], onnx.helper.tensor_dtype_to_np_dtype(result[1])))
        branches = {
            "then_branch": onnx.helper.make_graph(
                inner.nodes, "then", [], [info(result[0], result[1], [None] * len(result[2]))], inner_held
            ),
            "else_branch": onnx.helper.make_graph(
                [onnx.helper.make_node("Constant", [], ["e1"], value=filler)],
                "else",
                [],
                [info("e1", result[1], [None] * len(result[2]))],
            ),
        }
        nodes.append(onnx.helper.make_node("If", ["c"], ["chosen"], **branches))
        results = [("chosen", result[1], result[2]), *[v for v in main.values if v not in outer][-1:]]
    elif place == "function":
        body = onnx.helper.make_function(
            "own", "F", list(FEEDS), [result[0]], inner.nodes, [onnx.helper.make_opsetid("", opset)]
        )
        functions.append(body)
        imports.append(onnx.helper.make_opsetid("own", 1))
        nodes.append(onnx.helper.make_node("F", list(FEEDS), ["called"], domain="own"))
        results = [("called", result[1], result[2]), *[v for v in main.values if v not in outer][-1:]]
    else:
        results = own[-2:]
    symbols = draw(st.sampled_from([False, False, True]))
    inputs = [info(n, FLOAT, [f"{n}{i}" for i in range(len(s))] if symbols else s) for n, s in FEEDS.items()]
    inputs.append(info("c", BOOL, []))
    vague = symbols or draw(st.booleans())
    outputs = [info(n, k, [f"{n}{i}" for i in range(len(s))] if vague else s) for n, k, s in results]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, held)
    ir = max(schemas.ir_version("", opset), 8 if functions else 3)
    if ir < 4:
        graph.input.extend(info(t.name, t.data_type, t.dims) for t in held)
        ir = 4 if place == "branch" else ir
    if ir >= 4:
        del graph.input[len(inputs) :]
    return onnx.helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=ir)


def info(name, kind, shape):
    return onnx.helper.make_tensor_value_info(name, kind, shape)
