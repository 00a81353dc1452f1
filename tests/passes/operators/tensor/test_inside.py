"""What takes the place of newer operators, inside branches and functions."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check_down, check_values

NESTED = {
    "Where": ("m = IsNaN(x) n = Neg(x) {0} = Where(m, n, x)", 9, 8),
    "Trilu": ("{0} = Trilu<upper=0>(x)", 14, 8),
    "Compress": (
        "s = Constant<value = float {{1}}>() d = Add(x, s) r = ReduceMax<axes=[1], keepdims=0>(d) k = Greater(r, s) {0} = Compress<axis=0>(d, k)",
        9,
        7,
    ),
    "GatherElements": ("i = Constant<value = int64[2,2] {{1, -1, 0, 2}}>() {0} = GatherElements<axis=1>(x, i)", 13, 9),
    "Range": (
        "a = Constant<value = int64 {{0}}>() l = Size(x) d = Constant<value = int64 {{2}}>() r = Range(a, l, d) {0} = Cast<to=1>(r)",
        13,
        9,
    ),
    "ScatterElements": (
        "i = Constant<value = int64[1,2] {{-1, 0}}>() u = Slice(x, o, t) {0} = ScatterElements<axis=1>(x, i, u)",
        13,
        10,
    ),
}
SLICE = "o = Constant<value = int64[2] {0, 0}>() t = Constant<value = int64[2] {1, 2}>() "


@pytest.mark.parametrize("op", NESTED)
def test_inside_a_branch(op):
    text, opset, target = NESTED[op]
    then = "then_branch = then () => (float[A,B] u1) { " + SLICE + text.format("u1") + " }"
    if op == "Range":
        then = then.replace("[A,B]", "[A]")
    other = f"else_branch = other () => (float[{'A' if op == 'Range' else 'A,B'}] v1) {{ v1 = {'Reshape(x, f)' if op == 'Range' else 'Abs(x)'} }}"
    io = {"inputs": "float[2,3] x, bool c", "outputs": f"float[{'A' if op == 'Range' else 'A,B'}] y"}
    body = f"f = Constant<value = int64[1] {{-1}}>() y = If (c) <{then}, {other}>"
    if opset < 11:
        body = body.replace(SLICE, "")
    check_down(body, opset, target, feeds={"c": np.array(True)}, **io)
    check_down(body, opset, target, feeds={"c": np.array(False)}, **io)


@pytest.mark.parametrize("op", NESTED)
def test_inside_a_function(op):
    text, opset, target = NESTED[op]
    rank = "A" if op == "Range" else "A,B"
    made = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "own" : 1]>'
        f"g (float[2,3] x) => (float[{rank}] y) {{ y = own.f(x) }}"
        f'<domain: "own", opset_import: ["" : {opset}]> f (x) => (z) {{ {SLICE if opset > 10 else ""}{text.format("z")} }}'
    )
    result = convert.attempt(made, {"": target})
    assert result.model is not None, "\n".join(map(str, result.refusals))
    check_values(made, result.model, rtol=0, atol=0)
