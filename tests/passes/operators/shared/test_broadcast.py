"""Broadcasting: on request and from an axis on below 7, of many operands from 8 on."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators import legacy
from tests.support import check_refused, check_unchanged, evaluate, model, show

BINARY = ["Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"]
TRUTH = ["And", "Or", "Xor"]


def two(op, a, b, y):
    kind = "bool" if op in TRUTH else "int32" if op == "Equal" else "float"
    result = "bool" if op in (*TRUTH, "Equal", "Greater", "Less") else kind
    form = "{}[{}] {}, {}[{}] {}".format(kind, a, "a", kind, b, "b").replace("[]", "")
    return {"inputs": form, "outputs": f"{result}[{y}] y".replace("[]", "")}


def operands(op, a, b):
    rng = np.random.default_rng(1)
    dtype = bool if op in TRUTH else np.int32 if op == "Equal" else np.float32
    return {name: rng.integers(1, 4, shape).astype(dtype) for name, shape in (("a", a), ("b", b))}


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize(
    ("attributes", "b", "after"),
    [
        ("", (2, 3, 4, 5), "{}(a, b)"),
        ("<axis=1>", (2, 3, 4, 5), "{}(a, b)"),  # without broadcast the axis means nothing
        ("<broadcast=1>", (), "{}(a, b)"),
        ("<broadcast=1>", (1, 1), "{}(a, b)"),
        ("<broadcast=1>", (5,), "{}(a, b)"),
        ("<broadcast=1, axis=-1>", (4, 5), "{}(a, b)"),
        ("<broadcast=1, axis=2>", (4, 5), "{}(a, b)"),
        ("<broadcast=1, axis=0>", (1,), "{}(a, b)"),
        ("<broadcast=1, axis=1>", (3, 4), "t1 = Unsqueeze<axes=[2]>(b)\ny = {}(a, t1)"),
        ("<broadcast=1, axis=0>", (2,), "t1 = Unsqueeze<axes=[1, 2, 3]>(b)\ny = {}(a, t1)"),
        ("<broadcast=1, axis=1>", (3,), "t1 = Unsqueeze<axes=[1, 2]>(b)\ny = {}(a, t1)"),
    ],
)
def test_a_run_of_dimensions_gets_ones_behind_it_at_7(op, attributes, b, after):
    io = two(op, "2,3,4,5", ",".join(map(str, b)), "2,3,4,5")
    source = model(f"y = {op}{attributes}(a, b)", 6, **io)
    made = convert.attempt(source, {"": 7})
    assert show(made.model) == after.format(op) if "\n" in after else show(made.model) == "y = " + after.format(op)
    assert made.grade == "exact"
    feeds = operands(op, (2, 3, 4, 5), b)
    np.testing.assert_allclose(evaluate(made.model, feeds)[0], legacy.run(source, feeds)[0], rtol=1e-6)


def test_runs_need_ranks_at_7():
    check_refused(
        "y = Add<broadcast=1, axis=1>(a, b)", 6, 7, "rank", inputs="float[] a, float[3] b", outputs="float[] y"
    )
    check_refused(
        "y = Add<broadcast=1, axis=3>(a, b)",
        6,
        7,
        "axis=3 is out of range for data of rank 3",
        **two("Add", "2,3,4", "3", "2,3,4"),
    )
    unknown = {"inputs": "float[] a, float[] b", "outputs": "float[] y"}
    assert convert.attempt(model("y = Add<broadcast=1>(a, b)", 6, **unknown), {"": 7}).model


@pytest.mark.parametrize(
    ("a", "b", "attributes", "before"),
    [
        ((2, 3), (2, 3), "", ""),
        ((2, 3), (), "<broadcast=1>", ""),
        ((2, 3), (1, 1), "<broadcast=1>", ""),
        ((2, 3, 4, 5), (4, 5), "<broadcast=1>", ""),
        ((2, 3, 4, 5), (1, 5), "<broadcast=1>", "Squeeze<axes=[0]>(b)"),
        ((2, 3, 4, 5), (3, 4, 1), "<axis=1, broadcast=1>", "Squeeze<axes=[2]>(b)"),
        ((2, 3, 4, 5), (1, 3, 1, 1), "<axis=1, broadcast=1>", "Squeeze<axes=[0, 2, 3]>(b)"),
        ((2, 3, 4, 5), (2, 1, 1, 1), "<axis=0, broadcast=1>", "Squeeze<axes=[1, 2, 3]>(b)"),
        ((2, 1, 4), (2, 1, 4), "", ""),
        ((2, 3, 1, 5), (3, 1, 5), "<broadcast=1>", ""),
        ((2, 3, 4), (2, 1, 4), "", "Tile(b, const)"),
    ],
)
@pytest.mark.parametrize("op", BINARY)
def test_a_second_operand_that_fits_is_broadcast_on_request_below_7(op, a, b, attributes, before):
    y = ",".join(map(str, a))
    after = f"t1 = {before}\ny = {op}{attributes}(a, t1)" if before else f"y = {op}{attributes}(a, b)"
    source = model(f"y = {op}(a, b)", 7, **two(op, y, ",".join(map(str, b)), y))
    made = convert.attempt(source, {"": 6})
    assert show(made.model) == after
    feeds = operands(op, a, b)
    np.testing.assert_allclose(legacy.run(made.model, feeds)[0], evaluate(source, feeds)[0], rtol=1e-6)


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize(
    ("a", "b"), [((3,), (2, 3)), ((), (2, 3)), ((2, 1), (1, 3)), ((2, 1), (3,)), ((1, 1), (3,)), ((1,), ())]
)
def test_a_first_operand_that_is_smaller_is_swapped_or_repeated_below_7(op, a, b):
    y = np.broadcast_shapes(a, b)
    names = [",".join(map(str, dims)) for dims in (a, b, y)]
    source = model(f"y = {op}(a, b)", 7, **two(op, *names))
    made = convert.attempt(source, {"": 6})
    feeds = operands(op, a, b)
    np.testing.assert_allclose(legacy.run(made.model, feeds)[0], evaluate(source, feeds)[0], rtol=1e-6)
    assert made.grade == "exact"
    if a == (3,):
        swapped = {"Greater": "Less", "Less": "Greater"}.get(op, op)
        unsqueezed = f"t1 = Unsqueeze<axes=[0]>(a)\nt2 = Tile(t1, const)\ny = {op}(t2, b)"
        assert show(made.model) == (unsqueezed if op in ("Sub", "Div", "Pow") else f"y = {swapped}<broadcast=1>(b, a)")


def test_dimensions_known_at_run_time_are_repeated_below_7():
    source = model("y = Sub(a, b)", 7, **two("Sub", "1,3", "N,1", "N,3"))
    made = convert.attempt(source, {"": 6}).model
    feeds = operands("Sub", (1, 3), (4, 1))
    np.testing.assert_array_equal(legacy.run(made, feeds)[0], feeds["a"] - feeds["b"])
    symbolic = model("y = Add(a, b)", 7, **two("Add", "N,C,H", "C,1", "N,C,H"))
    assert (
        show(convert.attempt(symbolic, {"": 6}).model)
        == "t1 = Squeeze<axes=[1]>(b)\ny = Add<axis=1, broadcast=1>(a, t1)"
    )
    check_unchanged("y = Add(a, b)", 7, 6, **two("Add", "N,M", "N,M", "N,M"))


def test_dimensions_that_may_differ_are_refused_below_7():
    check_refused("y = Add(a, b)", 7, 6, "dimensions N and M may differ", **two("Add", "N,3", "M,3", "K,3"))
    check_refused("y = Add(a, b)", 7, 6, "dimensions N and 4 may differ", **two("Add", "3,N", "4", "3,4"))
    check_refused("y = Add(a, b)", 7, 6, "rank", inputs="float[] a, float[3] b", outputs="float[] y")


def test_a_scalar_takes_any_shape_below_7():
    source = model("y = Mul(a, b)", 7, inputs="float[] a, float b", outputs="float[] y")
    assert show(convert.attempt(source, {"": 6}).model) == "y = Mul<broadcast=1>(a, b)"


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_broadcasting_stays_what_it_was_at_6(op):
    io = {"inputs": "float[2,3,4] a, float[3] b", "outputs": "float[2,3,4] y"}
    source = model(f"y = {op}<axis=1, broadcast=1, consumed_inputs=[0, 0]>(a, b)", 1, **io)
    assert show(convert.attempt(source, {"": 6}).model) == f"y = {op}<axis=1, broadcast=1>(a, b)"
    check_unchanged(f"y = {op}<axis=1, broadcast=1>(a, b)", 6, 1, **io)


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
def test_operands_of_one_shape_stay(op):
    one = {"inputs": "float[N,3] a, float[N,3] b", "outputs": "float[N,3] y"}
    check_unchanged(f"y = {op}(a, b)", 8, 6, **one)
    check_unchanged(f"y = {op}(a, b)", 6, 28, **one)
    check_unchanged(f"y = {op}(a)", 8, 6, **{**one, "inputs": "float[N,3] a"})
