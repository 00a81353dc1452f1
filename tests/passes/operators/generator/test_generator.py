"""Constants and random numbers: what a Constant may hold, where it lives."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_unchanged, evaluate, model, show

ONE = {"inputs": "float[3] x", "outputs": "float[3] y"}


@pytest.mark.parametrize(
    ("short", "shape", "tensor"),
    [
        ("value_int=7", "int64", "7"),
        ("value_ints=[7, -8]", "int64[2]", "[7, -8]"),
        ("value_ints: ints=[]", "int64[0]", "[]"),
        ("value_float=0.5", "float", "0.5"),
        ("value_floats=[0.5, -1.0]", "float[2]", "[0.5, -1.0]"),
        ('value_string="a"', "string", "object:a"),
        ('value_strings=["a", ""]', "string[2]", "object:['a', '']"),
    ],
)
def test_short_forms_become_a_tensor_below_12(short, shape, tensor):
    body = f"c = Constant<{short}>() y = Identity(c)"
    made = check(body, 13, f"y = Identity({tensor})", 11, inputs="float[1] x", outputs=f"{shape} y")
    assert [a.name for a in made.graph.node[0].attribute] == ["value"]


def test_constants_that_may_stay():
    check_unchanged(
        "c = Constant<value = float[2] {1, 2}>() y = Identity(c)",
        13,
        1,
        inputs="float x",
        outputs="float[2] y",
    )
    body = "c = Constant<value = int64[2] {1, 2}>() y = Identity(c)"
    check_unchanged(body, 12, 9, inputs="float x", outputs="int64[2] y")


def test_constants_other_than_floats_become_initializers_below_9():
    body = "c = Constant<value = int64[2] {3, 1}>() y = Reshape(x, c)"
    made = check(body, 12, "y = Reshape(x, c)", 8, inputs="float[3] x", outputs="float[3,1] y")
    assert [t.name for t in made.graph.initializer] == ["c"]
    body, io = "y = Constant<value = int64[1] {3}>()", {"inputs": "float x", "outputs": "int64[1] y"}
    made = check(body, 12, "y = Identity(y_1)", 8, **io)
    assert [t.name for t in made.graph.initializer] == ["y_1"]


def test_constants_inside_a_branch_become_initializers_below_9():
    body = """
    y = If (c) <
        then_branch = t () => (float[3,1] a) { s = Constant<value = int64[2] {3, 1}>() a = Reshape(x, s) },
        else_branch = e () => (float[3,1] b) { s = Constant<value = int64[2] {-1, 1}>() b = Reshape(x, s) }
    >
    """
    made = model(body, 11, inputs="float[3] x, bool c", outputs="float[3,1] y")
    result = convert.attempt(made, {"": 8}).model
    assert [n.op_type for a in result.graph.node[0].attribute for n in a.g.node] == [
        *("Identity", "Reshape", "Identity", "Reshape")
    ]
    for chosen in (True, False):
        feeds = {"x": np.arange(3, dtype=np.float32), "c": np.array(chosen)}
        np.testing.assert_array_equal(evaluate(result, feeds)[0], evaluate(made, feeds)[0])


def sparse(values, indices, dims, kind):
    value = onnx.helper.make_tensor("v", kind, [len(values)], values)
    positions = onnx.helper.make_tensor("i", onnx.TensorProto.INT64, np.shape(indices), np.ravel(indices))
    made = model("y = Identity(x)", 11, inputs="float[2,3] x", outputs="float[2,3] y")
    held = onnx.helper.make_sparse_tensor(value, positions, dims)
    made.graph.node[0].CopyFrom(onnx.helper.make_node("Constant", [], ["y"], sparse_value=held))
    del made.graph.output[:]
    made.graph.output.append(onnx.helper.make_tensor_value_info("y", kind, dims))
    return made


@pytest.mark.parametrize(
    ("values", "indices", "dims", "kind", "dense"),
    [
        ([1.5, -2.0], [1, 5], [2, 3], onnx.TensorProto.FLOAT, [[0, 1.5, 0], [0, 0, -2.0]]),
        ([1.5, -2.0], [[0, 1], [1, 2]], [2, 3], onnx.TensorProto.FLOAT, [[0, 1.5, 0], [0, 0, -2.0]]),
        ([7], [2], [3], onnx.TensorProto.INT64, [0, 0, 7]),
    ],
)
def test_sparse_constants_are_written_out_below_11(values, indices, dims, kind, dense):
    result = convert.attempt(sparse(values, indices, dims, kind), {"": 10}).model
    assert [a.name for a in result.graph.node[0].attribute] == ["value"]
    np.testing.assert_array_equal(evaluate(result, {})[0], dense)


def test_sparse_constants_too_large_to_write_out_are_refused():
    refusals = convert.attempt(sparse([1.0], [5], [2**20, 2**20], onnx.TensorProto.FLOAT), {"": 10}).refusals
    assert "too large" in str(refusals[0])


@pytest.mark.parametrize(("kind", "saturate"), [("bfloat16", ""), ("float8e5m2", "saturate=0, ")])
def test_values_that_cannot_be_filled_in_are_cast_below_20(kind, saturate):
    to = onnx.TensorProto.DataType.Value(kind.upper())
    held = onnx.helper.make_tensor("v", to, [1], [1.5])
    source = model("y = Identity(s)", 20, inputs="int64[2] s", outputs=f"{kind}[2,3] y")
    source.graph.node[0].CopyFrom(onnx.helper.make_node("ConstantOfShape", ["s"], ["y"], value=held))
    made = convert.attempt(source, {"": 19}).model
    assert show(made) == f"t1 = ConstantOfShape<value=[1.5]>(s)\ny = Cast<{saturate}to={to}>(t1)"
    onnx.checker.check_model(made, full_check=True)
    (found,) = evaluate(made, {"s": np.array([2, 3])}) if kind != "bfloat16" else (np.full((2, 3), 1.5),)
    np.testing.assert_array_equal(found.astype(np.float32), np.full((2, 3), 1.5))


def test_values_that_can_be_filled_in_stay():
    io = {"inputs": "int64[2] s", "outputs": "int32[A,B] y"}
    check_unchanged("y = ConstantOfShape<value = int32[1] {7}>(s)", 25, 9, **io)
    check_unchanged("y = ConstantOfShape(s)", 9, 25, inputs="int64[2] s", outputs="float[A,B] y")


def test_bfloat16_is_made_in_float32_below_22():
    io = {"inputs": "bfloat16[3,3] x", "outputs": "bfloat16[3,3] y"}  # which no engine takes
    after = "t1 = Cast<to=1>(x)\nt2 = EyeLike<dtype=1, k=1>(t1)\ny = Cast<to=16>(t2)"
    check("y = EyeLike<k=1>(x)", 22, after, 21, run=False, **io)
    after = "t1 = RandomUniform<dtype=1, shape=[3, 3]>()\ny = Cast<to=16>(t1)"
    check("y = RandomUniform<dtype=16, shape=[3, 3]>()", 22, after, 21, run=False, grade="close", **io)
    after = "t1 = Cast<to=1>(x)\nt2 = RandomNormalLike<dtype=1>(t1)\ny = Cast<to=16>(t2)"
    check("y = RandomNormalLike(x)", 22, after, 21, run=False, grade="close", **io)
    after = "t1 = Cast<to=1>(x)\ny = Bernoulli<dtype=16>(t1)"
    check("y = Bernoulli(x)", 22, after, 21, run=False, **io)
    io["outputs"] = "int32[3,1] y"
    check("y = Multinomial(x)", 22, "t1 = Cast<to=1>(x)\ny = Multinomial(t1)", 21, run=False, **io)


@pytest.mark.parametrize(
    "body", ["EyeLike<dtype=1>(x)", "RandomNormalLike(x)", "Bernoulli(x)", "RandomNormal<shape=[3]>()"]
)
def test_generators_of_older_types_stay(body):
    check_unchanged(f"y = {body}", 22, 15, inputs="float[3,3] x", outputs="float y")


def test_sixteen_bits_are_counted_in_the_stash_type_below_27():
    io = {"inputs": "float16 a, float16 b, float16 c", "outputs": "float16[N] y"}
    casts = (
        "t1 = Cast<to={0}>(a)\nt2 = Cast<to={0}>(b)\nt3 = Cast<to={0}>(c)\nt4 = Range(t1, t2, t3)\ny = Cast<to=10>(t4)"
    )
    feeds = {name: np.array(value, np.float16) for name, value in zip("abc", (2047, 2052.0, 0.75), strict=True)}
    for stash, carrier in (("", 1), ("<stash_type=1>", 1), ("<stash_type=11>", 11)):
        source = model(f"y = Range{stash}(a, b, c)", 27, **io)
        made = convert.attempt(source, {"": 26}).model
        assert show(made) == casts.format(carrier)
        expected = np.arange(2047, 2052, 0.75).astype(np.float16)
        np.testing.assert_array_equal(evaluate(made, feeds)[0], expected)
    check_refused("y = Range<stash_type=10>(a, b, c)", 27, 26, "stash_type=10; 1 and 11", **io)


def test_other_ranges_lose_the_stash_type_below_27():
    io = {"inputs": "int64 a, int64 b, int64 c", "outputs": "int64[N] y"}
    check("y = Range<stash_type=10>(a, b, c)", 27, "y = Range(a, b, c)", 11, run=False, **io)  # ORT has no 27
    check_unchanged("y = Range(a, b, c)", 11, 28, **io)
