"""What two models differ in: nodes that are the same are left out, all others lie between landmarks."""

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import TensorProto
from opshift.passes.model import tensor_data

from opshift.verification.combined import verify_sides
from opshift.verification.regions import Body, Comparison, Region, names_of, same_tensor
from opshift.verification.side import Side
from tests.support import model

IO = {"inputs": "float[N,4] x", "outputs": "float[A,B] y"}
W = "float[4] w = {1, 2, 3, 4}"


def body(text, opset=17, **io):
    return Body(Side(model(text, opset, **{**IO, **io})))


def regions(one, other, rejected=(), opsets=(17, 17), **io):
    bodies = [body(text, opset, **io) for text, opset in zip((one, other), opsets, strict=True)]
    found = Comparison(*bodies, rejected).regions()
    return [
        (
            region.outputs,
            tuple(sorted(region.inputs)),
            *(names_of(b, n) for b, n in zip(bodies, (region.before, region.after), strict=True)),
        )
        for region in found
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = Exp(x) y = Neg(a)", "a = Exp(x) y = Neg(a)"),
        ("a = Exp(x) y = Neg(a)", "a = Exp(x) y = Neg(a) z = Sin(a)"),
        ("c = Constant<value_float = 2.0>() y = Mul(x, c)", "c = Constant<value = float {2}>() y = Mul(x, c)"),
        ("y = Mul(x, w)", "w = Constant<value = float[4] {1, 2, 3, 4}>() y = Mul(x, w)"),
        ("y = Mul(x, v)", "y = Mul(x, v)"),
    ],
)
def test_what_is_the_same_has_no_region(one, other):
    held = "" if "w = Constant" in other else W
    bodies = [
        body(
            text,
            constants=f"{W if 'w)' in text and 'w = ' not in text else ''}" if not held else f"{W}, float v = {{3}}",
        )
        for text in (one, other)
    ]
    assert Comparison(*bodies).regions() == []


def test_a_node_that_differs_is_a_region():
    assert regions("a = Exp(x) b = Neg(a) y = Sin(b)", "a = Exp(x) b = Abs(a) y = Sin(b)") == [
        (("b",), ("a",), ("b",), ("b",))
    ]


def test_what_lies_between_landmarks_is_one_region():
    one = "a = Exp(x) p = Neg(a) q = Mul(p, x) y = Sin(q)"
    assert regions(one, "a = Exp(x) r = Mul(x, a) y = Cos(r)") == [(("y",), ("a", "x"), ("p", "q", "y"), ("r", "y"))]


def test_the_same_operator_at_another_version_is_a_region():
    """But not at another opset at which it is the same."""
    assert regions("a = Exp(x) y = Neg(a)", "a = Exp(x) y = Neg(a)", opsets=(13, 17)) == []
    assert regions("a = Exp(x) y = Neg(a)", "a = Exp(x) y = Neg(a)", opsets=(12, 13)) == [
        (("a",), ("x",), ("a",), ("a",)),
        (("y",), ("a",), ("y",), ("y",)),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y = LeakyRelu<alpha = 0.1>(x)", "y = LeakyRelu<alpha = 0.2>(x)"),
        ("y = Sub(x, w)", "y = Sub(w, x)"),
        ("y = own.F(x)", "y = own.G(x)"),
        ("y = Clip(x, , k)", "y = Clip(x, k)"),
    ],
)
def test_attributes_and_inputs_count(one, other):
    held = {"constants": f"{W}, float k = {{3}}", "domains": '"own" : 1'}
    assert [region[:1] for region in regions(one, other, **held)] == [(("y",),)]


def test_weights_count_by_their_bytes():
    bodies = [body("a = Mul(x, w) y = Neg(a)", constants=f"float[4] w = {{1, 2, 3, {last}}}") for last in (4, 4, 5)]
    assert Comparison(bodies[0], bodies[1]).regions() == []
    assert [r.outputs for r in Comparison(bodies[0], bodies[2]).regions()] == [("a",)]


def test_values_of_one_node_go_together():
    one = "p, q = Split<axis = 1>(x) y = Add(p, q)"
    other = "p = Slice(x, s, m, a) q = Slice(x, m, e, a) y = Add(p, q)"
    held = "int64[1] s = {0}, int64[1] m = {2}, int64[1] e = {4}, int64[1] a = {1}"
    assert regions(one, other, constants=held) == [(("p", "q"), ("x",), ("p",), ("p", "q"))]


def test_a_value_that_one_model_holds():
    one = "c = Add(w, w) y = Mul(x, c)"
    bodies = body(one, constants=W), body("y = Mul(x, c)", constants="float[4] c = {2, 4, 6, 8}")
    (region,) = Comparison(*bodies).regions()
    assert (region.outputs, region.inputs, len(region.before), region.after) == (("c",), (), 1, ())


def test_a_name_that_is_rejected_is_no_landmark():
    one, other = "a = Exp(x) b = Neg(a) y = Sin(b)", "b = Exp(x) a = Neg(b) y = Sin(a)"
    assert [region[0] for region in regions(one, other)] == [("b",), ("a",), ("y",)]
    assert regions(one, other, rejected={"a", "b"}) == [(("y",), ("x",), ("a", "b", "y"), ("b", "a", "y"))]


def test_what_no_output_needs_is_no_landmark():
    one, other = "d = Exp(x) y = Neg(x)", "d = Sin(x) y = Neg(x)"
    assert regions(one, other) == []


def test_regions_stand_in_the_order_of_the_second_model():
    one = "a = Exp(x) b = Neg(a) c = Sin(b) y = Cos(c)"
    assert [r[0] for r in regions(one, "a = Sqrt(x) b = Neg(a) c = Tanh(b) y = Cos(c)")] == [("a",), ("c",)]


@pytest.mark.parametrize("inner", ["Neg(x)", "Exp(a)"])
def test_graphs_in_nodes_count_and_what_they_read(inner):
    text = "a = {}(x) y = If(b) <then_branch = t () => (float[A,B] p) {{ p = {} }}, else_branch = e () => (float[C,D] q) {{ q = Abs(a) }}>"
    io = {"inputs": "float[N,4] x, bool b"}
    assert regions(text.format("Sin", "Neg(x)"), text.format("Sin", "Neg(x)"), **io) == []
    found = regions(text.format("Sin", "Tan(x)"), text.format("Sin", inner), **io)
    assert found == [(("y",), ("a", "b", "x"), ("y",), ("y",))]
    assert [r[0] for r in regions(text.format("Sin", "Neg(a)"), text.format("Cos", "Neg(a)"), **io)] == [("a",)]


@pytest.mark.parametrize(("op", "count"), [("Neg", 0), ("Abs", 1)])
def test_functions_count_by_what_they_hold(op, count):
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[3] x) => (float[3] y) {{ y = my.F(x) }}
        <domain: "my", opset_import: ["" : 17]> F (v) => (w) {{ w = {}(v) }}"""
    bodies = [Body(Side(onnx.parser.parse_model(text.format(held)))) for held in ("Neg", op)]
    assert len(Comparison(*bodies).regions()) == count


def test_a_region_from_inputs_that_are_named():
    bodies = [body(f"a = Exp(x) b = {op}(a) y = Sin(b)") for op in ("Neg", "Abs")]
    comparison = Comparison(*bodies)
    assert comparison.region(["y"], {"a"}) == Region(("y",), ("a",), (1, 2), (1, 2))
    assert comparison.region(["y"], ()) == Region(("y",), ("x",), (0, 1, 2), (0, 1, 2))


def test_what_never_varies_and_what_is_computed():
    held = body(
        "c = Add(w, w) r = RandomNormal<shape = [4]>() d = Mul(c, r) e = Mul(c, w) y = Sum(x, d, e)", constants=W
    )
    assert {"w", "c", "e"} <= held.unvarying
    assert not {"r", "d", "y", "x"} & held.unvarying
    assert held.makes("c")
    assert not held.makes("w")
    assert not held.makes("x")


# --- whether two weights are the same -------------------------------------------------------------------------

NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)


def tensor(values, name="w", **how):
    return onnx.numpy_helper.from_array(np.asarray(values), name, **how)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (tensor(NUMBERS), tensor(NUMBERS, "v"), True),
        (tensor(NUMBERS), TensorProto(data_type=1, dims=[2, 3], float_data=range(6)), True),
        (tensor(NUMBERS), tensor(-NUMBERS), False),
        (tensor(NUMBERS), tensor(NUMBERS.reshape(3, 2)), False),
        (tensor(NUMBERS), tensor(NUMBERS.astype("f8")), False),
        (tensor(np.float32([0.0])), tensor(np.float32([-0.0])), False),
        (tensor(np.float32([np.nan])), tensor(np.float32([np.nan])), True),
        (tensor(np.array(["a", "b"], object)), tensor(np.array(["a", "b"], object)), True),
        (tensor(np.array(["a", "b"], object)), tensor(np.array(["a", "c"], object)), False),
        (tensor(NUMBERS[:0]), tensor(NUMBERS[:0]), True),
    ],
)
def test_the_same_weight(a, b, same):
    none = Side(model("y = Neg(x)", 17, **IO))
    assert same_tensor(a, none, b, none) is same


def stored(folder, name, values, offset=0):
    (folder / name).write_bytes(b"\0" * offset + values.tobytes())
    made = TensorProto(name="w", data_type=1, dims=values.shape)
    tensor_data.refer(made, name, (offset, offset + values.nbytes))
    return made


def test_weights_in_files_are_compared_where_they_lie(tmp_path, monkeypatch):
    monkeypatch.setattr("opshift.verification.regions._CHUNK", 5)
    for name in "ab":
        (tmp_path / name).mkdir()
    held = model("y = Neg(x)", 17, **IO)
    one, other = Side(held, str(tmp_path / "a")), Side(held, str(tmp_path / "b"))
    first = stored(tmp_path / "a", "w.bin", NUMBERS)
    moved = stored(tmp_path / "b", "w.bin", NUMBERS, 16)
    changed = stored(tmp_path / "b", "v.bin", NUMBERS + np.float32([[0, 0, 0], [0, 0, 1]]))
    monkeypatch.setattr(tensor_data, "load_or_raise", lambda *_: pytest.fail("it is loaded"))
    assert same_tensor(first, one, first, one)
    assert same_tensor(first, one, moved, other)
    assert not same_tensor(first, one, changed, other)
    monkeypatch.undo()
    assert same_tensor(first, one, tensor(NUMBERS), other)
    (tmp_path / "b" / "w.bin").unlink()
    assert not same_tensor(first, one, moved, other), "a file that is gone"


INNER = """<opset_import: ["" : {0}], domain: "own"> G (x) => (y) {{ y = Abs(x) }}"""
CALLING = """<ir_version: 10, opset_import: ["" : {0}, "own" : 1]> m (float[N,4] x, bool c) => (float[N,4] y) {{
        h = own.F(x, c)
        y = If (c) <then_branch = t () => (float[N,4] p) {{ p = own.G(h) }}, else_branch = e () => (float[N,4] q) {{ q = {1}(h) }}>
    }}
    <opset_import: ["" : {0}, "own" : 1], domain: "own"> F (x, c) => (y) {{
        y = If (c) <then_branch = t () => (p) {{ p = own.G(x) }}, else_branch = e () => (q) {{ q = Neg(x) }}>
    }}
    """


def calling(opset, op="Exp"):
    return onnx.parser.parse_model(CALLING.format(opset, op) + INNER.format(opset))


@pytest.mark.parametrize("opset", [22, 12])
def test_functions_are_the_same_if_their_operators_have_the_same_versions(opset):
    one, other = Body(Side(calling(21))), Body(Side(calling(opset)))
    assert Comparison(one, other).is_identical("h") == (opset == 22)


def test_functions_that_are_called_inside_of_a_branch_alone_come_with_its_region():
    found = verify_sides(Side(calling(21)), Side(calling(21, "Sqrt")), grade="close")
    assert (found.status, found.tensor) == ("different", "y")
    same = calling(21)
    branch = same.graph.node[1].attribute[1].g
    branch.node[0].output[0] = "r"
    branch.node.add(op_type="Identity", input=["r"], output=["q"])
    found = verify_sides(Side(calling(21)), Side(same), grade="close")
    assert {region.status for region in found.regions} == {"equal"}, found.remarks
