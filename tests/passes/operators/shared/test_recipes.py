"""Changes that happen to many operators."""

import pytest
from opshift.passes.conversion import convert

from tests.support import check_refused, check_unchanged, model, show

X = {"inputs": "{0}[3] x", "outputs": "{0}[3] y"}
UNARY = [
    *("Abs", "Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log", "Max", "Mean", "Min", "Neg"),
    *("Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sum", "Tanh"),
]


def of(kind):
    return {key: text.format(kind) for key, text in X.items()}


@pytest.mark.parametrize("op", UNARY)
def test_the_hint_goes_at_6(op):
    source = model(f"y = {op}<consumed_inputs=[0]>(x)", 1, **of("float"))
    assert show(convert.attempt(source, {"": 6}).model) == f"y = {op}(x)"
    check_unchanged(f"y = {op}(x)", 1, 6, **of("float"))
    check_unchanged(f"y = {op}(x)", 6, 1, **of("float"))


# --- axes beyond the rank: some versions take them as they come, and inference of the next one refuses the model ---

IO = {"inputs": "float[1,2] x, bool[2] c, int64[1,2] i", "outputs": "float[A,B] y"}
CALLS = [
    ("y = ReduceSum<axes=[0, {}]>(x)", "ReduceSum", 2),
    ("y = ReduceMax<axes=[{}]>(x)", "ReduceMax", 2),
    ("y = Unsqueeze<axes=[0, {}]>(x)", "Unsqueeze", 4),
    ("y = Compress<axis={}>(x, c)", "Compress", 2),
    ("y = Scatter<axis={}>(x, i, x)", "ScatterElements", 2),
]


@pytest.mark.parametrize(("call", "op", "rank"), CALLS, ids=lambda value: str(value)[:12])
def test_an_axis_is_one_of_the_data(call, op, rank):
    if op != "ScatterElements":
        check_unchanged(call.format(rank - 1), 10, 11, **IO)
    check_refused(call.format(rank), 10, 11, f"axis {rank} is out of range for rank {rank}", **IO)


def test_an_axis_of_a_place():
    io = IO | {"outputs": "int64[A,B] y"}
    check_unchanged("y = ArgMax<axis=1>(x)", 10, 11, **io)
    check_refused("y = ArgMax<axis=2>(x)", 10, 11, "axis 2 is out of range for rank 2", **io)


def test_what_has_no_axis_or_no_known_rank_goes_up():
    check_unchanged("y = Compress(x, c)", 10, 11, **IO | {"outputs": "float[A] y"})
    behind = "r = Reshape(x, s)\ny = ReduceSum<axes=[5]>(r)"
    check_unchanged(behind, 10, 11, inputs="float[1] x, int64[R] s", outputs="float[A] y")
