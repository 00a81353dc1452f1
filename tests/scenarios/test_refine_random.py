"""Random models near to what folding and optimizing look for: what is refined computes the same, at any size."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from opshift.passes.goals import Goal, Refinement

from opshift.verification.bounds import compare
from opshift.verification.engines import EngineError, OnnxRuntime

SIZES = [{"n": 2, "m": 3, "k": 4}, {"n": 1, "m": 1, "k": 4}, {"n": 2, "m": 2, "k": 2}, {"n": 5, "m": 4, "k": 1}]
NUMBERS = [0.5, 1.0, 2.0, -1.0, 3.0, 6.0, 1 / 6, 2**0.5, 2**-0.5, 1e-3, 1.702, 0.044715, 0.7978846]
UNARY = ["Sqrt", "Neg", "Reciprocal", "Exp", "Abs", "Sigmoid", "Tanh", "Relu", "Log", "Erf", "HardSigmoid", "Identity"]
REDUCING = ["ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceSumSquare", "ReduceL2"]


class Maker:
    """Writes nodes that read floats and small vectors of integers; what does not run is left out by the test."""

    def __init__(self, draw):
        self.draw = draw
        self.nodes: list[onnx.NodeProto] = []
        self.inputs = {"x": self.some([["n", "m", "k"], ["n", "m", 4], [2, "n", 4], ["n", 4], [2, 3, 4]]), "z": [1, 4]}
        self.floats, self.integers, self.scalars = list(self.inputs), [], []

    def some(self, choices):
        return self.draw(st.sampled_from(choices))

    def value(self, among):
        return among[-1] if self.draw(st.booleans()) else self.some(among)

    def node(self, op, *inputs, into=None, **attributes):
        name = f"{op}{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [name], **attributes))
        (self.floats if into is None else into).append(name)
        return name

    def held(self, array):
        name = f"c{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(array)))
        return name

    def ints(self, *values):
        return self.held(np.array(values, np.int64))

    def number(self, value=None):
        value = self.some(NUMBERS) if value is None or not self.draw(st.integers(0, 15)) else value
        return self.held(np.full(self.some([(), (), (1,), (1, 1), (1, 1, 1, 1)]), value, np.float32))

    def both(self, op, a, b):
        return self.node(op, *((a, b) if self.draw(st.booleans()) else (b, a)))

    def arithmetic(self):
        b = self.number() if self.draw(st.booleans()) else self.value(self.floats)
        self.both(self.some(["Add", "Sub", "Mul", "Div", "Mul"]), self.value(self.floats), b)

    def one(self):
        self.node(self.some(UNARY), self.value(self.floats))

    def reduced(self, op, x, axes=None):
        return self.node(
            op, x, self.ints(*(axes or self.some([[-1], [-1], [1], [-1, -2]]))), keepdims=self.some([1, 1, 0])
        )

    def reduction(self):
        self.reduced(self.some(REDUCING), self.value(self.floats))

    def normalization(self):
        x = self.value(self.floats)
        centered = self.node("Sub", x, self.reduced("ReduceMean", x)) if self.draw(st.booleans()) else x
        mean = self.reduced("ReduceMean", self.node("Mul", centered, self.some([centered, centered, centered, x])))
        root = self.node("Sqrt", self.both("Add", mean, self.number(1e-3)))
        scale = self.held(np.resize(np.float32([1, 2, -3, 0.5]), self.some([(4,), (1, 4), (1,), (1, 1, 1, 4)])))
        self.both("Add", self.both("Mul", self.node("Div", centered, root), scale), self.some([scale, scale, "z"]))

    def activation(self):
        x, half, one = self.value(self.floats), self.number(0.5), self.number(1.0)
        gate = self.some([self.node("Sigmoid", x), self.node("Erf", self.node("Mul", x, self.number(2**-0.5)))])
        product = self.both("Mul", x, self.some([gate, self.both("Add", gate, one)]))
        self.both("Mul", product, half)

    def shape(self):
        self.node("Shape", self.value(self.floats), into=self.integers)

    def from_shape(self):
        assume(self.integers)
        v = self.value(self.integers)
        kind = self.some(["Gather", "Concat", "Slice", "Arithmetic", "Where"])
        if kind == "Gather":
            at = self.node("Gather", v, self.held(np.array(self.some([0, 1, -1]), np.int64)), into=self.scalars)
            self.node("Unsqueeze", at, self.ints(0), into=self.integers)
        elif kind == "Concat":
            other = self.value(self.integers) if self.draw(st.booleans()) else self.ints(self.some([-1, 1, 4]))
            self.node("Concat", *self.some([(v, other), (other, v)]), axis=0, into=self.integers)
        elif kind == "Slice":
            self.node(
                "Slice", v, self.ints(self.some([0, 1])), self.ints(self.some([1, 2, -1, 99])), into=self.integers
            )
        elif kind == "Arithmetic":
            self.node(self.some(["Mul", "Add", "Sub", "Div"]), v, self.ints(self.some([1, 2, -1])), into=self.integers)
        else:
            same = self.node("Equal", v, self.ints(self.some([-1, 1])), into=[])
            self.node("Where", same, self.ints(1), v, into=self.integers)

    def reshaped(self):
        x = self.value(self.floats)
        wanted = (
            self.value(self.integers)
            if self.integers and self.draw(st.booleans())
            else self.ints(*self.some([[-1], [0, -1], [-1, 4], [1, -1], [0, 0, -1], [-1, 2, 2]]))
        )
        self.node(self.some(["Reshape", "Reshape", "Expand"]), x, wanted)

    def moved(self):
        x = self.value(self.floats)
        kind = self.some(["Unsqueeze", "Squeeze", "Transpose", "Flatten"])
        if kind == "Transpose":
            self.node(kind, x, perm=self.draw(st.permutations(range(self.some([2, 3])))))
        elif kind == "Flatten":
            self.node(kind, x, axis=self.some([0, 1, 2, -1]))
        else:
            self.node(kind, x, self.ints(self.some([0, 1, -1, 2])))

    def rounded(self):
        self.node("Cast", self.node("Cast", self.value(self.floats), to=self.some([10, 16, 11])), to=TensorProto.FLOAT)

    def model(self):
        steps = [self.arithmetic, self.one, self.reduction, self.normalization, self.activation, self.shape]
        steps += [self.from_shape, self.from_shape, self.reshaped, self.moved, self.rounded]
        for _ in range(self.draw(st.integers(2, 9))):
            self.some(steps)()
        made = {name for node in self.nodes for name in node.output}
        outputs = [(name, TensorProto.FLOAT) for name in self.floats if name in made][-2:]
        outputs += [(name, TensorProto.INT64) for name in self.integers[-1:]]
        assume(outputs)
        info = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            self.nodes,
            "g",
            [info(name, TensorProto.FLOAT, shape) for name, shape in self.inputs.items()],
            [info(name, kind, None) for name, kind in outputs],
        )
        opset = self.some([18, 20, 21, 24])
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)

    def feeds(self, sizes):
        shapes = {name: [sizes.get(dim, dim) for dim in dims] for name, dims in self.inputs.items()}
        numbers = np.random.default_rng(len(self.nodes))
        return {name: numbers.uniform(0.5, 3, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.long
@pytest.mark.newest
@pytest.mark.parametrize("wanted", [Refinement(fold=True), Refinement(optimize=True), Refinement(True, optimize=True)])
@settings(max_examples=40, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_refined_model_computes_the_same(wanted, data):
    maker = Maker(data.draw)
    source = maker.model()
    try:
        before = OnnxRuntime(source)
        runs = [(feeds, before.run(feeds)) for feeds in map(maker.feeds, SIZES[:1])]
    except EngineError:
        assume(False)
    for sizes in SIZES[1:]:  # some models are for some sizes
        feeds = maker.feeds(sizes)
        try:
            runs.append((feeds, before.run(feeds)))
        except EngineError:
            continue
    result = Goal(refinement=wanted).run(source)
    assert result.model is not None
    after = OnnxRuntime(result.model)
    for feeds, expected in runs:
        for one, other in zip(expected, after.run(feeds), strict=True):
            if np.isfinite(one).all() and np.abs(one).max(initial=0) < 1e4:  # else what rounds first decides
                difference = compare(one, other, result.grade)
                assert not difference.why
            assert np.shape(one) == np.shape(other)
