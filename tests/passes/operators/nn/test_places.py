"""What takes the place of a spatial operator, inside branches and functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check_values, model

RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Call:
    """An operator's call, its inputs by name, and the shape of its result."""

    text: str
    opset: int
    target: int
    feeds: Mapping[str, Any]
    result: tuple[int, ...]

    def declared(self) -> str:
        return ", ".join(f"{KINDS[v.dtype.type]}[{','.join(map(str, v.shape))}] {n}" for n, v in self.feeds.items())

    @property
    def dims(self) -> str:
        return ",".join(map(str, self.result))


KINDS = {np.float32: "float", np.int64: "int64", np.bool_: "bool"}


def floats(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


CALLS = {
    "DeformConv": Call(
        "DeformConv(p, w, o)", 19, 17, {"p": floats(1, 2, 4, 4), "w": floats(1, 2, 2, 2), "o": floats(1, 8, 3, 3)}, (1, 1, 3, 3)
    ),
    "Col2Im": Call(
        "Col2Im(p, i, k)", 18, 13, {"p": floats(1, 8, 6), "i": np.array([3, 4]), "k": np.array([2, 2])}, (1, 2, 3, 4)
    ),
    "Resize": Call(
        'Resize<mode="cubic", antialias=1>(p, , s)', 18, 17, {"p": floats(1, 2, 6, 4), "s": np.float32([1, 1, 0.5, 0.75])}, (1, 2, 3, 3)
    ),
    "Upsample": Call("Upsample(p, s)", 9, 8, {"p": floats(2, 3), "s": np.float32([2, 1.5])}, (4, 4)),
    "MaxUnpool": Call(
        "MaxUnpool<kernel_shape=[2], strides=[2]>(p, i)", 11, 8, {"p": floats(1, 1, 2), "i": np.array([[[3, 0]]])}, (1, 1, 4)
    ),
    "RoiAlign": Call(
        "RoiAlign<output_height=2>(p, r, b)", 16, 9,
        {"p": floats(1, 2, 6, 6), "r": np.float32([[0, 1, 5, 5], [2, 2, 3, 2.5]]), "b": np.array([0, 0])}, (2, 2, 2, 1),
    ),
    "Dropout": Call("Dropout(p, r, t)", 13, 9, {"p": floats(2, 3), "r": np.float32(0.5), "t": np.array(False)}, (2, 3)),
    "Split": Call("Split<num_outputs=3>(p)", 18, 17, {"p": floats(4)}, (2,)),
}  # fmt: skip
OUTPUTS = {"Split": "y, y2, y3"}


def checked(source, call, **more):
    made = convert.attempt(source, {"": call.target})
    assert made.model is not None, "\n".join(map(str, made.refusals))
    assert call.text.split("(")[0].split("<")[0] not in {n.op_type for n in made.model.graph.node} - {"Split"}
    check_values(source, made.model, {**call.feeds, **more}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize("taken", [True, False])
def test_inside_a_branch(op, taken):
    call, outputs = CALLS[op], OUTPUTS.get(op, "y")
    made = ", ".join(f"{name}1" for name in outputs.split(", "))
    other = f"float[{call.dims}] c = {{{', '.join(['0'] * int(np.prod(call.result)))}}}"
    text = (
        f"y = If(go) <then_branch = t () => (float[{call.dims}] y1) {{ {made} = {call.text} }},"
        f" else_branch = e () => (float[{call.dims}] d) {{ d = Identity(c) }}>"
    )
    if op == "Split" and taken:
        call = Call(call.text, call.opset, call.target, {"p": floats(5)}, call.result)  # which onnxruntime splits
    io = {"inputs": f"{call.declared()}, bool go", "outputs": f"float[{call.dims}] y", "constants": other}
    checked(model(text, call.opset, **io), call, go=np.array(taken))


@pytest.mark.parametrize("op", [op for op in CALLS if op != "Split"])
def test_inside_a_function(op):
    """Whether or not the function can keep its place, the values stay."""
    call = CALLS[op]
    names = ", ".join(call.feeds)
    source = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {call.opset}, "local": 1]> g ({call.declared()}) => (float[{call.dims}] y)'
        f' {{ y = local.f({names}) }} <domain: "local", opset_import: ["": {call.opset}]> f ({names}) => (z) {{ z = {call.text} }}'
    )
    checked(source, call)
