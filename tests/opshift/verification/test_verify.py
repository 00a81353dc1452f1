"""Verification finds what differs, and where first."""

import ml_dtypes
import numpy as np
import onnx
import onnx.helper
import onnx.parser
import pytest
from onnx import TensorProto

import opshift
from opshift.jobs import outcome
from opshift.verification.compare import compare
from opshift.verification.feeding.asked import DRAWN
from opshift.verification.feeding.inputs import running
from opshift.verification.side import Side
from opshift.verification.verify import verify_sides
from tests.support import model

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}


def test_equal_models_are_equal_on_every_size_of_a_dynamic_dimension():
    source = model("y = ReduceMax<axes=[1]>(x)", 13, **ROWS)
    found = opshift.verify(source, source)
    assert found.equal
    assert (found.engine, found.runs, found.absolute) == ("onnxruntime", 3, 0.0)
    assert [output.judge for output in found.outputs] == ["bit for bit"]


def test_sizes_that_stand_in_the_model_are_found():
    """Exporters bake some lengths in, though the inputs have symbols for them."""
    source = model(
        "y = Reshape(x, s) z = Reshape(m, t)",
        13,
        constants="int64[3] s = {-1, 7, 3}, int64[2] t = {5, 2}",
        inputs="float[N,S,3] x, float[M,2] m",
        outputs="float[N,7,3] y, float[5,2] z",
    )
    found = opshift.verify(source, source)
    assert found.equal
    assert found.runs == 3
    assert found.inputs[0] == {"x": [3, 7, 3], "m": [5, 2]}


def test_images_that_are_large_enough_are_found():
    source = model("y = MaxPool<kernel_shape=[7,7]>(x)", 13, inputs="float[1,1,H,W] x", outputs="float[1,1,h,w] y")
    (first, *_) = opshift.verify(source, source).inputs
    assert min(first["x"][2:]) >= 7


def test_the_first_tensor_that_differs_is_named():
    before = model("t = Abs(x) u = Neg(t) y = ReduceMax<axes=[1]>(u)", 13, **ROWS)
    after = model("t = Abs(x) u = Neg(x) y = ReduceMax<axes=[1]>(u)", 13, **ROWS)
    found = opshift.verify(before, after)
    assert (found.status, found.tensor) == ("different", "u")
    assert "instead of" in found.why


def test_a_wrong_stamp_does_not_pass():
    """What onnx's converter does to Softmax: flattening to 2-D with axis 1 became one axis, -1."""
    io = {"inputs": "float[2,3,4] x", "outputs": "float[2,3,4] y"}
    assert opshift.verify(model("y = Softmax(x)", 12, **io), model("y = Softmax(x)", 13, **io)).status == "different"


@pytest.mark.usefixtures("loads_to_26")
def test_a_wrong_stamp_does_not_pass_where_onnxruntime_loads_one_side_only():
    """onnx.reference computes the newer Softmax at every opset and would find the two forms equal."""
    io = {"inputs": "float[2,3,4] x", "outputs": "float[2,3,4] y"}
    found = opshift.verify(model("y = Softmax(x)", 12, **io), model("y = Softmax(x)", 28, **io))
    assert found.status == "unverified"
    assert "engines disagree" in found.why


@pytest.mark.usefixtures("loads_to_26")
def test_what_onnxruntime_refuses_to_run_is_not_proved_by_the_reference():
    """A sum of sizes that is not the dimension's: the reference ignores what is left."""
    body, io = "y, z = Split(x, s)", {"inputs": "float[N] x", "outputs": "float[1] y, float[1] z"}
    before, after = (model(body, opset, constants="int64[2] s = {1, 1}", **io) for opset in (28, 13))
    found = opshift.verify(before, after)
    assert found.status == "unverified"
    assert "onnxruntime: the second model fails" in found.why


def test_the_reference_does_not_judge_by_an_older_model():
    """It computes Softmax as it is now; onnxruntime does not load an input too many."""
    io = {"inputs": "float[2,3,4] x", "outputs": "float[2,3,4] y"}
    before = model("t = Softmax(x) y = Clip(t, , , w)", 12, constants="float w = {1}", **io)
    held = "int64[2] s = {2, 12}, int64[3] r = {2, 3, 4}"
    after = model("t = Reshape(x, s) u = Softmax<axis = 1>(t) y = Reshape(u, r)", 13, constants=held, **io)
    found = verify_sides(Side(before), Side(after))
    assert (found.status, found.why) == ("unverified", "onnx.reference runs some older operators as they are now")


@pytest.mark.usefixtures("loads_to_26")
def test_a_difference_across_engines_is_a_difference():
    before = model("y = ReduceMax<axes=[1]>(x)", 13, **ROWS)
    after = model("y = ReduceMin(x, a)", 28, constants="int64[1] a = {1}", **ROWS)
    assert opshift.verify(before, after).status == "different"


def test_a_shape_that_differs_for_some_batch_only():
    before = model("y = Relu(x)", 13, inputs="float[N,3] x", outputs="float[N,3] y")
    after = model(
        "y = Reshape(x, s)",
        13,
        constants="int64[2] s = {3, 3}",
        inputs="float[N,3] x",
        outputs="float[A,B] y",
    )
    assert opshift.verify(before, after).status == "different"


def test_another_interface_is_another_model():
    one = model("y = Relu(x)", 13, inputs="float[3] x", outputs="float[3] y")
    assert (
        "outputs are ['z']"
        in opshift.verify(one, model("z = Relu(x)", 13, inputs="float[3] x", outputs="float[3] z")).why
    )
    assert (
        "inputs are ['w']"
        in opshift.verify(one, model("y = Relu(w)", 13, inputs="float[3] w", outputs="float[3] y")).why
    )


@pytest.mark.usefixtures("loads_to_26")
def test_what_only_the_reference_loads():
    source = model("y = ReduceMax<axes=[1]>(x)", 13, **ROWS)
    found = opshift.verify(source, opshift.convert_version(source, 28))
    assert (found.status, found.engine) == ("equal", "onnxruntime and onnx.reference")


@pytest.mark.usefixtures("loads_to_26")
def test_the_reference_alone_judges_what_onnxruntime_loads_on_neither_side():
    source = model("y = ReduceMax(x, a)", 28, constants="int64[1] a = {1}", **ROWS)
    found = opshift.verify(source, source)
    assert (found.status, found.engine) == ("equal", "onnx.reference")


def test_what_nobody_runs_is_unverified():
    source = model("y = my.Thing(x)", 13, domains='"my" : 1', **ROWS)
    found = opshift.verify(source, source)
    assert found.status == "unverified"
    assert "onnxruntime" in found.why
    assert "onnx.reference" in found.why


def test_random_outputs_are_compared_by_shape():
    source = model("y = RandomNormalLike(x)", 13, inputs="float[4] x", outputs="float[4] y")
    assert opshift.verify(source, source).equal
    wider = model("t = Concat<axis=0>(x, x) y = RandomNormalLike(t)", 13, inputs="float[4] x", outputs="float[N] y")
    assert not opshift.verify(source, wider).equal


@pytest.mark.usefixtures("loads_to_26")
@pytest.mark.parametrize(("opset", "target"), [(15, 14), (15, 7), (28, 14)])
@pytest.mark.parametrize("body", ["Bernoulli<seed=3.0>(x)", "Bernoulli(x)", "Dropout<seed=3>(x, r, t)"])
def test_what_is_drawn_otherwise_is_compared_by_shape_whatever_the_seed(body, opset, target):
    io = {"inputs": "float[40,30] x", "outputs": "float[40,30] y", "constants": "float r = {0.5}, bool t = {1}"}
    source = model(f"p = Sigmoid(x) y = {body.replace('(x', '(p')}", opset, **io)
    found = opshift.verify(source, opshift.convert_version(source, target), grade="close")
    unchanged = body.startswith("Dropout") and (opset, target) == (15, 14)
    assert (found.status, found.drawn, found.absolute) == ("equal", () if unchanged else ("y",), 0)
    assert ("drawn at random, compared by type and shape alone: y" in outcome.verdict(found)) is not unchanged
    wider = model("y = Concat<axis=0>(x, x)", target, inputs="float[40,30] x", outputs="float[N,30] y")
    assert not opshift.verify(source, wider, grade="close").equal


def test_a_seed_hides_no_difference_elsewhere():
    io = {"inputs": "float[4] x", "outputs": "float[4] y"}
    added, subtracted = (model(f"r = RandomUniformLike<seed=1.0>(x) y = {op}(r, x)", 13, **io) for op in ("Add", "Sub"))
    assert opshift.verify(added, added).equal
    assert opshift.verify(added, subtracted).status == "different"


@pytest.mark.parametrize(
    ("body", "io"),
    [
        ("y = Gather(x, i)", {"inputs": "float[N,3] x, int64[4] i", "outputs": "float[A,B] y"}),
        ("y = ReduceSum(x, i)", {"inputs": "float[N,3] x, int64[k] i", "outputs": "float[A,B] y"}),
        ("y = Reshape(x, i)", {"inputs": "float[N,3] x, int64[2] i", "outputs": "float[A,B] y"}),
        ("y = Slice(x, i, j)", {"inputs": "float[N,3] x, int64[2] i, int64[2] j", "outputs": "float[A,B] y"}),
        ("y = Unsqueeze(x, i)", {"inputs": "float[N,3] x, int64[1] i", "outputs": "float[A,B,C] y"}),
        ("y = Tile(x, i)", {"inputs": "float[N,3] x, int64[2] i", "outputs": "float[A,B] y"}),
        (
            "y, j = TopK(x, i)",
            {"inputs": "float[N,3] x, int64[1] i", "outputs": "float[A,B] y, int64[A,B] j"},
        ),
    ],
)
def test_integer_inputs_are_valid_where_they_are_used(body, io):
    source = model(body, 13, **io)
    assert opshift.verify(source, source).runs > 0


def test_feeds_are_seeded():
    source = model("y = Relu(x)", 13, inputs="float[N,3] x", outputs="float[N,3] y")
    side = Side(source)
    first, again = ([fed.given["x"] for fed in running(side, side.open().run, DRAWN)] for _ in range(2))
    assert [x.shape for x in first] == [(3, 3), (1, 3), (4, 3)]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sequences_and_strings():
    text = (
        '<ir_version: 8, opset_import: ["" : 13]> g (seq(float[2]) s, int64 i) => (float[2] y) { y = SequenceAt(s, i) }'
    )
    source = onnx.parser.parse_model(text)
    found = opshift.verify(source, source)
    assert found.equal
    assert found.inputs[0] == {"s": [[2], [2]], "i": found.inputs[0]["i"]}
    words = model("y = Identity(x)", 13, inputs="string[3] x", outputs="string[3] y")
    assert opshift.verify(words, words).equal


# --- comparison ----------------------------------------------------------------------------------------------

F32 = np.float32


@pytest.mark.parametrize(
    ("a", "b", "grade", "equal"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], "exact", True),
        ([1.0, np.nan], [1.0, 1.0], "exact", False),
        ([np.inf], [-np.inf], "exact", False),
        ([np.inf], [3e38], "close", False),
        ([1.0, 2.0], [1.0, 2.0 + 1e-6], "exact", True),
        ([1.0, 2.0], [1.0, 2.0 + 1e-4], "exact", False),
        ([1.0, 2.0], [1.0, 2.0 + 1e-4], "close", True),
        ([1.0, 2.0], [1.0, 2.01], "close", False),
        ([1000.0, 1e-6], [1000.0, 2e-6], "exact", True),  # within the rounding of what it was summed from
        ([0.0], [-0.0], "exact", True),
        ([0.0], [1e-3], "close", False),
    ],
)
def test_floats(a, b, grade, equal):
    assert compare(np.array(a, F32), np.array(b, F32), grade).equal is equal


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        (np.zeros(2, F32), np.zeros(3, F32), "shape"),
        (np.zeros(2, F32), np.zeros(2), "type"),
        (np.array([1, 2]), np.array([1, 3]), "3 instead of 2 at [1], 1 of 2"),
        (np.array(["a"], object), np.array(["b"], object), "instead of"),
        (np.array([True]), np.array([False]), "instead of"),
        ([np.zeros(2, F32)], [], "elements"),
        (None, np.zeros(1), "only one"),
        ({"a": 1}, {"a": 2}, "maps"),
    ],
)
def test_what_is_not_equal(a, b, why):
    assert why in compare(a, b).why


def test_small_floats_are_compared_in_their_own_precision():
    a = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert compare(a, np.array([1.0, 2.015625], ml_dtypes.bfloat16)).equal
    assert not compare(a, np.array([1.0, 3.0], ml_dtypes.bfloat16)).equal
    for kind in (ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn):
        assert compare(a.astype(kind), a.astype(kind)).equal


def test_empty_tensors_are_equal():
    assert compare(np.zeros((0, 3), F32), np.zeros((0, 3), F32)).equal


def test_optional_inputs():
    value = onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("OptionalGetElement", ["x"], ["y"])],
        "g",
        [onnx.helper.make_value_info("x", onnx.helper.make_optional_type_proto(value))],
        [onnx.helper.make_value_info("y", value)],
    )
    source = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    assert opshift.verify(source, source).status == "equal"


GENERATED = {"inputs": "float[40,30] x", "outputs": "float[40,30] y", "constants": "float r = {0.5}, bool t = {1}"}
FORMS = [("Neg", 1.5), ("Neg", 2.5), ("Abs", 2.5)]


@pytest.mark.parametrize(
    "drawing",
    [
        "d = RandomNormalLike<seed = {}>(x)",
        "p = Sigmoid(x) d = Bernoulli<seed = {}>(p)",
        "d, m = Dropout<seed = {:.0f}>(x, r, t)",
    ],
)
def test_what_lies_behind_a_generator_is_compared_by_value(drawing):
    one, same, other = (model(f"{drawing.format(seed)} y = {op}(d)", 15, **GENERATED) for op, seed in FORMS)
    assert opshift.verify(one, same, grade="close") == opshift.verify(one, one, grade="close")
    found = opshift.verify(one, other, grade="close")
    assert (found.status, found.tensor) == ("different", "y")


def test_what_lies_before_a_generator_is_compared_by_value():
    body = "p = Sigmoid({}) y = Bernoulli<seed = {}>(p)"
    one, same, other = (
        model(f"n = Neg(x) {body.format(of, seed)}", 15, **GENERATED)
        for of, seed in [("x", 1.5), ("x", 2.5), ("n", 2.5)]
    )
    assert opshift.verify(one, same, grade="close").drawn == ("y",)
    found = opshift.verify(one, other, grade="close")
    assert (found.status, found.tensor) == ("different", "p")


def test_what_is_drawn_has_a_type_and_a_shape():
    one = model("d = RandomNormalLike(x) n = ReduceSum(d) y = Mul(x, n)", 15, **GENERATED)
    other = model("s = Transpose(x) d = RandomNormalLike(s) n = ReduceSum(d) y = Mul(x, n)", 15, **GENERATED)
    found = opshift.verify(one, other, grade="close")
    assert (found.status, found.tensor) == ("different", "d")


def test_what_is_drawn_out_of_sight_is_compared_by_shape():
    text = """c = ReduceMax<keepdims = 0>(x) b = Cast<to = 9>(c) y = If(b) <
        then_branch = t () => (float[40,30] v) {{ d = RandomNormalLike<seed = {1}>(x) v = {0}(d) }},
        else_branch = e () => (float[40,30] u) {{ u = RandomNormalLike(x) }}>"""
    one, same, other = (model(text.format(op, seed), 15, **GENERATED) for op, seed in FORMS)
    assert opshift.verify(one, same, grade="close").drawn == ("y",)
    assert opshift.verify(one, other, grade="close").drawn == ("y",)


@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "uint2"])
def test_narrow_integers_are_compared_as_integers(kind):
    one, other = (np.array(values).astype(getattr(ml_dtypes, kind)) for values in ([0, 1], [1, 1]))
    assert compare(one, one).equal
    assert "1 instead of 0" in compare(one, other).why


@pytest.mark.parametrize(("size", "status"), [(4, "equal"), (1, "different")])
def test_where_two_engines_part_it_is_said_that_one_model_parts_them(size, status):
    """A window that is larger than the data has no place by the text, and one in onnxruntime."""
    io = {"inputs": f"float[1,1,{size},4] x", "outputs": "float[1,1,A,2] y"}
    one = model("y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)", 17, **io)
    found = opshift.verify(one, one, engine=("onnxruntime", "reference"))
    assert found.status == status
    told = "the engines disagree on one and the same model"
    assert (told in found.remarks) == (status == "different")
    other = model("n = Neg(x) y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(n)", 17, **io)
    wrong = opshift.verify(one, other, engine=("onnxruntime", "reference"))
    assert (wrong.status, told in wrong.remarks) == ("different", size == 1)
