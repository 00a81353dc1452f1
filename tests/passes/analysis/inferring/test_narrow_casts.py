"""A size that went through a narrow type is what the type holds of it."""

import numpy as np
import onnx
import onnx.parser
import pytest
from opshift.passes.analysis.inferring import corrected
from opshift.passes.model.types import dims_of
from opshift.passes.optimization import optimize

from tests.support import evaluate, model, show

IO = {"inputs": "float[N,300] x", "outputs": "int64[K] y", "constants": "int64[1] z = {0}, int64[1] one = {1}"}
SIZED = {
    "filled": "c = ConstantOfShape(b) h = Shape(c) y = Gather(h, z)",
    "expanded": "o = Constant<value = float {1}>() c = Expand(o, b) h = Shape(c) y = Gather(h, z)",
}
NARROW = {9: lambda n: n != 0, 2: lambda n: n % 256, 4: lambda n: n % 65536}


@pytest.mark.parametrize("how", SIZED)
@pytest.mark.parametrize("to", NARROW)
@pytest.mark.parametrize("rows", [0, 1, 300, 65536])
@pytest.mark.parametrize("opset", [11, 13, 18, 21])
def test_what_a_narrow_type_does_not_hold_is_lost(how, to, rows, opset):
    source = model(f"s = Shape(x) p = Gather(s, z) a = Cast<to={to}>(p) b = Cast<to=7>(a) {SIZED[how]}", opset, **IO)
    made = optimize.attempt(source).model
    assert evaluate(made, {"x": np.zeros((rows, 300), np.float32)})[0].tolist() == [int(NARROW[to](rows))]


@pytest.mark.parametrize("between", ["c = Concat<axis=0>(a, a)", "u = Unsqueeze(a, z) c = Squeeze(u, z)"])
@pytest.mark.parametrize("via", ["b = Cast<to=7>(c)", "i = Cast<to=6>(c) b = Cast<to=7>(i)"])
def test_what_carries_numbers_on_carries_those_of_the_type(between, via):
    body = f"s = Shape(x) a = Cast<to=9>(s) {between} {via} d = ConstantOfShape(b) h = Shape(d) y = Gather(h, z)"
    made = optimize.attempt(model(body, 18, **IO)).model
    assert evaluate(made, {"x": np.zeros((7, 300), np.float32)})[0].tolist() == [1]


CALLED = """
    <ir_version: 8, opset_import: ["" : 18, "f" : 1]> g (float[N,300] x) => (int64[K] y) {{ s = Shape(x) {calls} c = ConstantOfShape(b) y = Shape(c) }}
    <domain: "f", opset_import: ["" : 18]> Narrow (s) => (t) {{ t = Cast<to=9>(s) }}
    <domain: "f", opset_import: ["" : 18]> Wide (s) => (t) {{ t = Cast<to=7>(s) }}
    <domain: "f", opset_import: ["" : 18]> As <type>(s) => (t) {{ t = Cast<to: int = @type>(s) }}
"""


@pytest.mark.parametrize(
    "calls",
    [
        "a = f.Narrow(s) b = f.Wide(a)",
        "a = Cast<to=9>(s) b = f.Wide(a)",
        "a = f.Narrow(s) b = Cast<to=7>(a)",
        "a = f.As<type=9>(s) b = f.As<type=7>(a)",
    ],
)
def test_the_same_through_functions(calls):
    made = optimize.attempt(onnx.parser.parse_model(CALLED.format(calls=calls))).model
    assert evaluate(made, {"x": np.zeros((7, 300), np.float32)})[0].tolist() == [1, 1]


BRANCH = """y = If(f)<then_branch = g1 () => (int64[K] t) { b = Cast<to=7>(a) c = ConstantOfShape(b) t = Shape(c) },
                      else_branch = g2 () => (int64[K] e) { e = Shape(x) }>"""


@pytest.mark.parametrize("taken", [True, False])
def test_the_same_inside_of_a_branch(taken):
    source = model(f"s = Shape(x) a = Cast<to=9>(s) {BRANCH}", 18, **IO | {"inputs": "float[N,300] x, bool f"})
    made = optimize.attempt(source).model
    feeds = {"x": np.zeros((7, 300), np.float32), "f": np.array(taken)}
    assert evaluate(made, feeds)[0].tolist() == ([1, 1] if taken else [7, 300])


@pytest.mark.parametrize(("to", "dims"), [(6, ["N", 300]), (7, ["N", 300]), (11, ["N", 300]), (9, [None, None])])
def test_what_a_wide_type_holds_is_known(to, dims):
    source = model(f"s = Shape(x) a = Cast<to={to}>(s) b = Cast<to=7>(a) c = ConstantOfShape(b) y = Shape(c)", 18, **IO)
    (kind,) = [value.type for value in corrected.infer_types(source).graph.value_info if value.name == "c"]
    assert [dim if dim in ("N", 300) else None for dim in dims_of(kind)] == dims


@pytest.mark.parametrize("ops", [None, {("", "Cast")}])
def test_types_and_the_model_stay(ops):
    source = model(
        f"s = Shape(x) a = Cast<to=9>(s) b = Cast<to=7>(a) r = RandomUniformLike<dtype=1>(x) {BRANCH}", 18, **IO
    )
    before = show(source)
    made = corrected.infer_types(source, ops)
    assert show(source) == before
    kinds = {value.name: value.type for value in made.graph.value_info}
    assert kinds["b"].tensor_type.elem_type == 7
    assert dims_of(kinds["b"]) == [2]
    assert [node.op_type for node in made.graph.node] == [node.op_type for node in source.graph.node]
    assert [list(node.attribute) for node in made.graph.node[:4]] == [list(n.attribute) for n in source.graph.node[:4]]


@pytest.mark.parametrize("to", NARROW)
@pytest.mark.parametrize("rows", [0, 1, 300, 65536])
def test_what_counts_up_to_such_a_number_is_as_long_as_that(to, rows):
    body = f"""s = Shape(x) p = Gather(s, z) a = Cast<to={to}>(p) b = Cast<to=7>(a) n = Squeeze(b) r = Range(f, n, u)
               h = Shape(r) y = Sub(h, p)"""
    source = model(body, 13, **IO | {"constants": "int64[1] z = {0}, int64 f = {0}, int64 u = {1}"})
    made = optimize.attempt(source).model
    assert evaluate(made, {"x": np.zeros((rows, 300), np.float32)})[0].tolist() == [int(NARROW[to](rows)) - rows]


@pytest.mark.parametrize(("like", "counted"), [("int64", 300), ("float", 300), ("uint8", 300 % 256)])
def test_a_number_of_the_type_of_another_value_is_what_that_holds(like, counted):
    body = """k = Identity(l) s = Shape(x) p = Gather(s, z) a = CastLike(p, k) b = Cast<to=7>(a) n = Squeeze(b)
              r = Range(f, n, u) y = Shape(r)"""
    source = model(
        body, 15, inputs=f"float[N,300] x, {like}[1] l", outputs=IO["outputs"],
        constants="int64[1] z = {0}, int64 f = {0}, int64 u = {1}",
    )  # fmt: skip
    made = optimize.attempt(source).model
    kind = onnx.helper.tensor_dtype_to_np_dtype(source.graph.input[1].type.tensor_type.elem_type)
    feeds = {"x": np.zeros((300, 300), np.float32), "l": np.zeros(1, kind)}
    assert evaluate(made, feeds)[0].tolist() == [counted]
