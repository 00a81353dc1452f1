"""Another number of samples: what computes each alone goes on doing so, what mixes them is refused by name."""

import numpy as np
import onnx
import onnx.parser
import pytest
from opshift.passes.inputs.sizes import batch
from opshift.passes.inputs.wanted import NOTHING, parse_wanted
from opshift.passes.specialization import fixing, rebatching

from opshift.verification.cutting import once_a_sample
from opshift.verification.engines import OnnxRuntime
from tests.passes.specialization.support import drawn, ops, shape
from tests.support import model

W = "float[3,3] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0}, int64[1] one = {1}, int64[1] two = {2}, float[3] v = {1.0,2.0,3.0}"


def rebatched(source, size, fixed=NOTHING):
    """The model with another number of samples, which onnxruntime yields as it does the source's, one after the other."""
    kept = source.SerializeToString()
    result = fixing.attempt(source, fixed, size)
    assert source.SerializeToString() == kept, "the caller's model was changed"
    assert not result.refusals, result.refusals[0]
    made = result.model
    onnx.checker.check_model(made, full_check=True)
    feeds, run = drawn(made), OnnxRuntime(source).run
    expected = once_a_sample(run, feeds, result.batch, [value.name for value in source.graph.output])
    for value, a, b in zip(made.graph.output, expected, OnnxRuntime(made).run(feeds), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]
        assert all(size in (None, there) for size, there in zip(sizes, b.shape, strict=True)), "a size is wrong"
    return made


def refused(source, size=4):
    (refusal,) = fixing.attempt(source, NOTHING, size).refusals
    return refusal


ALONE = [
    "y = Relu(x)",
    "y = MatMul(x, w)",
    "y = Gemm<transB=1>(x, w, v)",
    "y = Softmax<axis=-1>(x)",
    "s = ReduceSum<keepdims=0>(x, one) u = Unsqueeze(s, one) y = Div(x, u)",
    "t = Transpose<perm=[1,0]>(x) u = Neg(t) y = Transpose<perm=[1,0]>(u)",
    "r = Reshape(x, shape) u = Exp(r) y = Reshape(u, back)",
    "r = Reshape(x, rest) y = Neg(r)",
    "r = Reshape<allowzero=1>(x, shape) y = Reshape(r, rest)",
    "s = Shape(x) e = ConstantOfShape(s) y = Add(x, e)",
    "f = Flatten(x) y = Relu(f)",
    "a, b = Split<axis=1>(x, parts) y = Concat<axis=1>(b, a)",
    "c = Concat<axis=1>(x, row) y = Relu(c)",
    "g = Gather<axis=1>(x, two) y = Add(x, g)",
    "p = Pad(x, pads) q = Slice(p, one, many, one) y = Relu(q)",
    "k, i = TopK(x, two) y = Neg(k)",
    "y = Where(mask, x, v)",
    "e = Expand(row, full) y = Add(x, e)",
    "e = Expand(x, full) y = Neg(e)",
    "a = LayerNormalization(x, v) y = Neg(a)",
    "y = CumSum(x, last)",
]
HELD = """
    int64[3] shape = {1, 3, 1}, int64[2] back = {1, 3}, int64[2] rest = {-1, 3}, int64[2] parts = {1, 2},
    float[1,2] row = {5.0, 6.0}, int64[4] pads = {0, 1, 0, 1}, int64[1] many = {99}, bool[3] mask = {1, 0, 1},
    int64[2] full = {1, 1}, int64 last = {1}
"""


@pytest.mark.parametrize("size", [4, "dynamic"])
@pytest.mark.parametrize("body", ALONE)
def test_each_sample_is_computed_alone(body, size):
    row = "e = Expand(row" in body
    held = HELD.replace("float[1,2] row = {5.0, 6.0}", "float[1,1] row = {5.0}") if row else HELD
    source = model(body, 18, inputs="float[1,3] x", outputs="float[?,?] y", constants=f"{W}, {held}")
    made = rebatched(source, size)
    assert shape(made, "x") == [4 if size == 4 else "batch", 3]


@pytest.mark.parametrize("size", [4, "dynamic"])
def test_images_and_their_features(size):
    body = """
        a = Conv<kernel_shape=[1,1]>(x, k) b = BatchNormalization(a, c, c, c, c) d = MaxPool<kernel_shape=[2,2]>(b)
        e = GlobalAveragePool(d) f = Flatten(e) y = Reshape(f, flat)
    """
    constants = "float[2,1,1,1] k = {1.0, -1.0}, float[2] c = {1.0, 2.0}, int64[2] flat = {1, 2}"
    source = model(body, 18, inputs="float[1,1,4,4] x", outputs="float[1,2] y", constants=constants)
    made = rebatched(source, size)
    assert shape(made, "y") == [4 if size == 4 else "batch", 2]


RESIZED = [
    ("Resize(x, , scales)", 18, "dynamic"),
    ("Resize<axes=[2,3]>(x, , , sizes)", 18, "dynamic"),
    ("Resize(x, , , all)", 18, 4),
    ("Resize(x, , , all)", 18, "dynamic"),
    ("Resize(x, roi, none, all)", 11, "dynamic"),
    ("Resize(x, roi, scales)", 11, 4),
    ("Upsample(x, scales)", 9, "dynamic"),
]


@pytest.mark.parametrize(("call", "opset", "size"), RESIZED)
def test_images_are_resized_each_alone(call, opset, size):
    constants = (
        "float[4] scales = {1.0,1.0,2.0,2.0}, int64[2] sizes = {4,6}, int64[4] all = {1,1,4,6}"
        ", float[0] roi = {}, float[0] none = {}"
    )
    rebatched(
        model(f"y = {call}", opset, inputs="float[1,1,2,3] x", outputs="float[?,?,?,?] y", constants=constants), size
    )


INDICES = {
    "named and not read": "y, i = MaxPool<kernel_shape=[2,2],strides=[2,2]>(x)",
    "of one image, as PyTorch writes them": """
        p, i = MaxPool<kernel_shape=[2,2],strides=[2,2]>(x) q, j = MaxPool<kernel_shape=[1,1]>(x)
        k = Slice(j, from, to, axes) l = Sub(i, k) m = Cast<to=1>(l) y = Add(p, m)
    """,
    "taken back": "p, i = MaxPool<kernel_shape=[2,2],strides=[2,2]>(x) y = MaxUnpool<kernel_shape=[2,2],strides=[2,2]>(p, i)",
    "taken back to sizes": """
        p, i = MaxPool<kernel_shape=[2,2],strides=[2,2]>(x)
        y = MaxUnpool<kernel_shape=[2,2],strides=[2,2]>(p, i, sizes)
    """,
}
UNPOOLED = (
    "int64[2] from = {0,0}, int64[2] to = {1,1}, int64[2] axes = {2,3}, int64[4] sizes = {1,2,4,6}, int64 one = {1}"
)


def images(body, outputs="float[?,?,?,?] y"):
    return model(body, 18, inputs="float[1,2,4,6] x", outputs=outputs, constants=UNPOOLED)


@pytest.mark.parametrize("size", [4, "dynamic"])
@pytest.mark.parametrize("of", INDICES)
def test_indices_of_the_largest(of, size):
    rebatched(images(INDICES[of]), size)


@pytest.mark.parametrize(
    ("rest", "op", "outputs"),
    [
        ("y = Cast<to=1>(i)", "Cast", "float[?,?,?,?] y"),
        ("k = Add(i, one) y = Cast<to=1>(k)", "Add", "float[?,?,?,?] y"),
        ("k = Sub(one, i) y = Cast<to=1>(k)", "Sub", "float[?,?,?,?] y"),
        ("y = Identity(i)", "output", "int64[?,?,?,?] y"),
        ("n = Neg(p)", "output", "float[?,?,?,?] n, int64[?,?,?,?] i"),
        ("y = MaxUnpool<kernel_shape=[1,1]>(p, i)", "MaxUnpool", "float[?,?,?,?] y"),
    ],
)
def test_indices_that_count_the_elements_of_all_samples_are_refused(rest, op, outputs):
    found = refused(images(f"p, i = MaxPool<kernel_shape=[2,2],strides=[2,2]>(x) {rest}", outputs))
    assert (found.op, found.why) == (
        op,
        "the batch size cannot change: its indices count the elements of the whole batch",
    )


ALL_OUTPUTS = [
    "y, i = MaxPool<kernel_shape=[2]>(x)",
    "y, m = Dropout(x)",
    "y, m, d = LayerNormalization(x, u)",
    "y, i = TopK(x, one)",
    "t = Transpose<perm=[1,0,2]>(x) h, y = GRU<hidden_size=2>(t, w3, r3)",
    "t = Transpose<perm=[1,0,2]>(x) h, y, c = LSTM<hidden_size=2>(t, w4, r4)",
    pytest.param(
        "y, k, v, q = Attention<q_num_heads=1, kv_num_heads=1>(x, x, x)",
        marks=pytest.mark.newest,  # older kernels return no keys where none are given
    ),
]


@pytest.mark.parametrize("body", ALL_OUTPUTS)
def test_outputs_may_be_named_that_nothing_reads(body):
    constants = "float[3] u = {1,2,3}, int64[1] one = {1}"
    source = model(body, 23, inputs="float[1,3,3] x", outputs="float[?,?,?] y", constants=constants)
    for name, gates, rest in (("w3", 3, 3), ("r3", 3, 2), ("w4", 4, 3), ("r4", 4, 2)):
        held = np.random.default_rng(0).standard_normal((1, 2 * gates, rest)).astype(np.float32)
        if f"{name}," in body or f"{name})" in body:
            source.graph.initializer.append(onnx.numpy_helper.from_array(held, name))
    rebatched(source, 4)


@pytest.mark.parametrize("size", [4, "dynamic"])
def test_elements_are_named_by_numbers_that_are_computed(size):
    """As PyTorch writes the mask of an attention: it counts in floats."""
    body = """from = CastLike(zero, one) by = CastLike(step, one) s = Range(from, one, by) t = Unsqueeze(s, far)
        u = Expand(t, shape) i = Concat<axis=-1>(u, elements) y = GatherND(x, i)"""
    constants = (
        "float zero = {0}, float step = {1}, int64 one = {1}, int64[2] far = {1,2}, int64[3] shape = {1,2,1}"
        ", int64[1,2,1] elements = {3,1}"
    )
    rebatched(model(body, 18, inputs="float[1,4] x", outputs="float[?,?] y", constants=constants), size)


def test_a_refusal_names_the_node_that_is_left_once_constants_are_computed():
    body = """from = CastLike(zero, one) s = Unsqueeze(from, far) i = Concat<axis=-1>(s, elements) g = GatherND(x, i)
        y = ReduceSum(g)"""
    constants = "float zero = {0}, int64 one = {1}, int64[3] far = {0,1,2}, int64[1,1,1] elements = {3}"
    source = model(body, 18, inputs="float[1,4] x", outputs="float[?,?] y", constants=constants)
    assert refused(source).op == "ReduceSum"


GATHERED = [
    ("y = GatherElements<axis=1>(x, i)", "int64[1,2] i"),
    ("y = GatherElements<axis=-1>(x, i)", "int64[2,2] i"),
    ("s = Add(x, x) k = Cast<to=7>(s) m = Abs(k) n = Min(m, two) y = GatherElements<axis=1>(table, n)", ""),
]


@pytest.mark.parametrize("size", [4, "dynamic"])
@pytest.mark.parametrize(("body", "held"), GATHERED)
def test_elements_are_gathered_from_each_sample(body, held, size):
    constants = "float[1,3] table = {1,2,3}, int64 two = {2}"
    batch = 2 if "[2,2]" in held else 1
    if held:
        constants += f", {held} = {{{'0,2,0,2' if batch == 2 else '0,2'}}}"
    rebatched(model(body, 18, inputs=f"float[{batch},3] x", outputs="float[?,?] y", constants=constants), size)


def test_elements_that_are_gathered_along_the_batch_are_refused():
    body = "k = Cast<to=7>(x) y = GatherElements<axis=0>(x, k)"
    assert (
        "computes along the batch axis" in refused(model(body, 18, inputs="float[2,3] x", outputs="float[?,?] y")).why
    )
    body = "y = GatherElements<axis=1>(x, i)"
    own = model(body, 18, inputs="float[2,3] x", outputs="float[?,?] y", constants="int64[2,1] i = {0,2}")
    assert "fixed size on the batch axis" in refused(own).why


@pytest.mark.parametrize("size", [3, "dynamic"])
def test_states_that_are_the_same_for_all_samples_are_repeated(size):
    body = "y, h, c = LSTM<hidden_size=1>(x, w, r, , , s, s)"
    constants = "float[1,4,1] w = {1.0,2.0,3.0,4.0}, float[1,4,1] r = {1.0,2.0,3.0,4.0}, float[1,1,1] s = {0.5}"
    source = model(f"t = Transpose<perm=[1,0,2]>(x0) {body.replace('(x,', '(t,')}", 18, inputs="float[1,5,1] x0",
                   outputs="float[?,?,?,?] y, float[?,?,?] h", constants=constants)  # fmt: skip
    assert ops(rebatched(source, size)).count("Expand") == 2


def test_states_that_are_given_sample_by_sample():
    body = "t = Transpose<perm=[1,0,2]>(x) y, h = GRU<hidden_size=1>(t, w, r, , , s)"
    constants = "float[1,3,1] w = {1.0,2.0,3.0}, float[1,3,1] r = {1.0,2.0,3.0}"
    inputs, outputs = "float[2,5,1] x, float[1,2,1] s", "float[?,?,?,?] y, float[?,?,?] h"
    made = rebatched(model(body, 18, inputs=inputs, outputs=outputs, constants=constants), 3)
    assert [shape(made, name) for name in "xsh"] == [[3, 5, 1], [1, 3, 1], [1, 3, 1]]


def test_what_only_looks_like_a_state_is_the_same_for_all_samples():
    source = model("y = Add(x, m)", 18, inputs="float[2,3,4] x, float[3,2,4] m", outputs="float[?,?,?] y")
    assert refused(source).op == "Add"
    source = model("y = MatMul(x, m)", 18, inputs="float[1,3,4] x, float[4,1,4,2] m", outputs="float[?,?,?,?] y")
    assert shape(rebatched(source, 3), "m") == [4, 1, 4, 2]


def test_an_open_batch_gets_a_number_wherever_its_name_stands():
    source = model("y = Concat<axis=2>(x, z)", 18, inputs="float[N,2,3] x, float[N,2,1] z", outputs="float[N,2,4] y")
    made = rebatched(source, 4)
    assert [shape(made, name) for name in "xzy"] == [[4, 2, 3], [4, 2, 1], [4, 2, 4]]


def test_inputs_of_other_sizes_are_the_same_for_all_samples():
    source = model("y = Add(x, z)", 18, inputs="float[1,3] x, float[3] z", outputs="float[1,3] y")
    made = rebatched(source, "dynamic")
    assert [shape(made, name) for name in "xzy"] == [["batch", 3], [3], ["batch", 3]]


def test_what_is_fixed_is_fixed_before():
    source = model("y = Mul(x, s)", 18, inputs="float[N,C] x, float s", outputs="float[N,C] y")
    result = fixing.attempt(source, parse_wanted("N=1,C=3", {"s": 2}), 4)
    assert [shape(result.model, name) for name in "xy"] == [[4, 3], [4, 3]]
    assert result.batch.size == 1
    assert [change.how for change in result.changes if change.op == "input"][-1] == "Changed the batch size from 1 to 4"


def test_a_batch_of_several_becomes_a_larger_one():
    source = model(
        "r = Reshape(x, shape) y = Neg(r)",
        18,
        inputs="float[2,3] x",
        outputs="float[?,?,?] y",
        constants="int64[3] shape = {2, 1, 3}",
    )
    assert shape(rebatched(source, 5), "y") == [5, 1, 3]


MIXING = [
    ("y = ReduceMean(x)", "ReduceMean"),
    ("y = ReduceMean(x, zero)", "ReduceMean"),
    ("y = Softmax<axis=0>(x)", "Softmax"),
    ("y = Reshape(x, flat)", "Reshape"),
    ("y = Reshape(x, turned)", "Reshape"),
    ("y = Concat<axis=0>(x, x)", "Concat"),
    ("t = Transpose(x) y = MatMul(x, t)", "MatMul"),
    ("t = Transpose(x) y = MatMul(w, t) z = MatMul(t, x)", "MatMul"),
    ("y = Slice(x, zero, one, zero)", "Slice"),
    ("y = Gather(x, zero)", "Gather"),
    ("y, m, v2 = BatchNormalization<training_mode=1>(x, v, v, v, v)", "BatchNormalization"),
    ("q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)", "DynamicQuantizeLinear"),
    ("y = Flatten<axis=0>(x)", "Flatten"),
    ("y = Squeeze(x, zero)", "Squeeze"),
    ("y = Tile(x, twice)", "Tile"),
    ("y = NonZero(x)", "NonZero"),
    ("y = CumSum(x, first)", "CumSum"),
    (
        "y = If <then_branch = g () => (float[?,?] t) { t = Neg(x) }, else_branch = h () => (float[?,?] f) { f = Abs(x) }> (c)",
        "If",
    ),
]


@pytest.mark.parametrize("size", [4, "dynamic"])
@pytest.mark.parametrize(("body", "op"), MIXING)
def test_what_mixes_samples_is_refused_by_name(body, op, size):
    constants = f"{W}, int64[1] zero = {{0}}, int64[1] flat = {{3}}, int64[2] turned = {{3, 1}}, int64[2] twice = {{2, 1}}, int64 first = {{0}}, bool c = {{1}}"
    inputs = "float[1,3] x, bool c" if op == "If" else "float[1,3] x"
    constants = constants.replace(", bool c = {1}", "") if op == "If" else constants
    source = model(body, 18, inputs=inputs, outputs="float[?,?] y", constants=constants)
    found = refused(source, size)
    assert found.op == op
    assert "the batch size cannot change" in found.why


def test_an_operand_of_its_own_for_each_sample_is_refused():
    assert (
        refused(model("y = Add(x, w)", 18, inputs="float[3,3] x", outputs="float[3,3] y", constants=W), 4).op == "Add"
    )


SHARED = "float[2,3] rows = {1,2,3,1,2,3}, int64[2,1,3,2] each = {0,2, 0,0, 0,1, 1,2, 1,0, 1,1}, int64[2] first = {0,0}"


@pytest.mark.parametrize("size", [4, "dynamic"])
@pytest.mark.parametrize(
    "body",
    [
        "y = Add(x, rows)",
        "u = Unsqueeze(x, one) h = Expand(w, whole) m = MatMul(u, h) y = Squeeze(m, one)",
        "s = Neg(rows) e = Neg(s) y = Sub(x, e)",
        "h = Reshape(x, heads) j = Reshape(h, joined) t = Transpose<perm=[0,2,1]>(j) d = Reshape(t, apart) y = Reshape(d, rest)",
        "y = Gemm(x, w, rows)",
        "c = Concat<axis=1>(x, rows) y = Neg(c)",
        "g = GatherND(x, each) y = Squeeze(g, one)",
    ],
)
def test_constants_that_are_the_same_for_each_sample_are_for_all(body, size):
    sizes = "int64[3] whole = {2,3,3}, int64[4] heads = {2,3,1,1}, int64[3] joined = {-1,1,1}, int64[4] apart = {2,3,1,1}, int64[2] rest = {2,3}"
    source = model(body, 18, inputs="float[2,3] x", outputs="float[?,?] y", constants=f"{W}, {SHARED}, {sizes}")
    assert shape(rebatched(source, size), "x") == [4 if size == 4 else "batch", 3]


ROWS = """
    float[4,4] w = {1,2,3,4, 5,6,7,8, 1,3,5,7, 2,4,6,8}, float[6,4] table = {1,2,3,4, 5,6,7,8, 1,3,5,7, 1,2,3,4, 5,6,7,8, 1,3,5,7},
    int64[2] flat = {-1,4}, int64[2] stated = {6,4}, int64[1] all = {-1}, int64[3] back = {2,3,4}, int64[3] turned = {3,2,4},
    int64[4] heads = {2,3,2,2}, int64[3] pairs = {-1,3,2}, int64[4] apart = {2,2,3,2}, int64[2,2] picked = {2,0, 5,3},
    int64[2,2] negative = {-4,2, -1,5}, int64[2,2] others = {2,3, 5,0}, int64[2,2] various = {2,0, 5,4}, int64[1] zero = {0}
"""


@pytest.mark.parametrize("size", [4, "dynamic"])
@pytest.mark.parametrize(
    "body",
    [
        "f = Reshape(x, flat) m = Gemm(f, w) y = Reshape(m, back)",
        "f = Reshape(x, stated) m = MatMul(f, w) s = Softmax<axis=-1>(m) y = Reshape(s, back)",
        "f = Reshape(x, all) n = Neg(f) y = Reshape(n, back)",
        "t = Transpose<perm=[1,0,2]>(x) f = Reshape(t, flat) m = MatMul(f, w) r = Reshape(m, turned) y = Transpose<perm=[1,0,2]>(r)",
        """h = Reshape(x, heads) t = Transpose<perm=[0,2,1,3]>(h) q = Reshape(t, pairs) k = Transpose<perm=[0,2,1]>(q)
        s = MatMul(q, k) m = MatMul(s, q) a = Reshape(m, apart) u = Transpose<perm=[0,2,1,3]>(a) y = Reshape(u, back)""",
        "f = Flatten<axis=2>(x) s = Shape(f) e = ConstantOfShape(s) a = Add(f, e) y = Reshape(a, back)",
        "f = Flatten<axis=2>(x) y = Gather(f, picked)",
        "f = Reshape(x, stated) y = Gather(f, negative)",
        "f = Flatten<axis=0>(x) n = Neg(f) y = Reshape(n, back)",
    ],
)  # fmt: skip
def test_samples_stay_apart_in_an_axis_that_is_merged_and_split_again(body, size):
    source = model(body, 18, inputs="float[2,3,4] x", outputs="float[?,?,?] y", constants=ROWS)
    assert shape(rebatched(source, size), "x") == [4 if size == 4 else "batch", 3, 4]


def test_a_mask_of_attention_that_is_the_same_for_each_sample_is_for_all():
    mask = "float[2,1,3,3] mask = {0,-9,-9,0,0,-9,0,0,0, 0,-9,-9,0,0,-9,0,0,0}"
    body, sizes = "y = Attention(x, x, x, mask)", "float[2,1,3,4] x"
    assert shape(rebatched(model(body, 23, inputs=sizes, outputs="float[?,?,?,?] y", constants=mask), 3), "x")[0] == 3


@pytest.mark.parametrize(
    "body",
    [
        "y = Reshape(x, stated)",
        "f = Reshape(x, stated) y = Gather(f, others)",
        "f = Reshape(x, stated) y = Gather(f, various)",
        "f = Reshape(x, stated) y = ReduceMean(f, zero)",
        "f = Reshape(x, stated) a = Add(f, table) y = Reshape(a, back)",
        "t = Transpose<perm=[1,0,2]>(x) y = Reshape(t, back)",
        "t = Transpose<perm=[1,0,2]>(x) f = Reshape(t, stated) y = Reshape(f, back)",
        "t = Transpose<perm=[1,0,2]>(x) f = Reshape(t, stated) y = Gather(f, picked)",
        "t = Transpose<perm=[1,0,2]>(x) f = Reshape(t, stated) g = Reshape(x, stated) a = Add(f, g) y = Reshape(a, back)",
    ],
)
def test_rows_of_several_samples_are_not_mixed(body):
    source = model(body, 18, inputs="float[2,3,4] x", outputs="float[?,?,?] y", constants=ROWS)
    assert "the batch size cannot change" in refused(source).why


@pytest.mark.parametrize(
    ("body", "inputs", "constants"),
    [
        ("y = Add(x, w)", "float[3,3] x", ""),
        ("y = Add(x, rows)", "float[1,3] x", ""),
        ("y = Add(x, zeros)", "float[2,1] x", ", float[2,1] zeros = {0.0, -0.0}"),
        ("y = GatherND(x, each)", "float[2,2] x", ", int64[2,1,2] each = {1,0, 0,0}"),
        ("y = GatherND(x, each)", "float[2,2] x", ", int64[2,1,2] each = {0,0, 1,1}"),
        ("y = GatherND(x, each)", "float[2,2] x", ", int64[1,1,2] each = {1,0}"),
        ("y = GatherND<batch_dims=1>(x, each)", "float[2,2,2] x", ", int64[2,1,2] each = {0,0, 1,0}"),
    ],
)
def test_constants_that_differ_from_sample_to_sample_are_refused(body, inputs, constants):
    held = f"{W}, float[2,3] rows = {{1,2,3,1,2,3}}{constants}"
    assert refused(model(body, 18, inputs=inputs, outputs="float[?,?] y", constants=held)).op in ("Add", "GatherND")


def test_how_many_samples_there_are_is_no_output():
    source = model("y = Relu(x) n = Shape(x)", 18, inputs="float[N,3] x", outputs="float[N,3] y, int64[2] n")
    (refusal,) = rebatching.attempt(source, rebatching.places(source), "dynamic").refusals
    assert refusal.node == "n"


OPEN = {
    "attention of any number of rows": "r = Reshape(x, heads) t = Transpose<perm=[0,2,1]>(r) y = Reshape(t, rows)",
    "it computes with the number": "s = Shape(x) c = Cast<to=1>(s) t = ReduceProd(c) y = Mul(x, t)",
    "it mixes samples": "m = ReduceMean(x) y = Sub(x, m)",
}


@pytest.mark.parametrize("inputs", ["float[N,2,6] x", "float[?,2,6] x"])
@pytest.mark.parametrize("body", OPEN.values(), ids=OPEN)
def test_a_model_that_takes_any_number_of_samples_is_not_refused(body, inputs):
    """There is nothing to do, or a number becomes a size: nothing has to be known of how the samples are computed."""
    constants = "int64[3] heads = {-1,3,2}, int64[3] rows = {-1,2,6}"
    source = model(body, 18, inputs=inputs, outputs=inputs.replace("x", "y"), constants=constants)
    same = fixing.attempt(source, NOTHING, "dynamic")
    assert (same.model, same.changes, same.refusals) == (source, (), ())
    result = fixing.attempt(source, NOTHING, 4)
    assert [shape(result.model, name) for name in "xy"] == [[4, 2, 6], [4, 2, 6]]
    assert result.batch == (4, {"x": 0}, {})
    onnx.checker.check_model(result.model, full_check=True)
    feeds = drawn(result.model)
    for a, b in zip(OnnxRuntime(source).run(feeds), OnnxRuntime(result.model).run(feeds), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_number_that_it_does_not_take_is_no_size_of_it():
    source = model("y = Add(x, w)", 18, inputs="float[N,3] x", outputs="float[N,3] y", constants=W)
    with pytest.raises(ValueError, match="cannot run at the sizes that are fixed"):
        fixing.attempt(source, NOTHING, 4)


def test_a_rank_that_is_declared_is_assumed_where_it_is_not_known():
    branches = "then_branch = g () => (float[3] t) { t = Neg(v) }, else_branch = h () => (float[1,3] f) { f = Unsqueeze(v, zero) }"
    constants = f"{W}, int64[1] zero = {{0}}"
    source = model(
        f"z = If<{branches}>(c) y = Add(x, z)",
        18,
        inputs="float[1,3] x, bool c",
        outputs="float[?,3] y",
        constants=constants,
    )
    del source.graph.value_info[:]
    assert refused(source).why.endswith(
        "the rank of its input is unknown; try --fix-shape, or a value_info that declares it"
    )
    source.graph.value_info.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [3]))
    result = fixing.attempt(source, NOTHING, 4)
    assert ("z", "Assumed a declared rank") in [(change.node, change.how) for change in result.changes]
    assert shape(result.model, "y") == [4, 3]


def test_the_shape_of_a_normalization_of_groups_is_known():
    """ONNX's inference knows nothing of it from opset 21 on."""
    body = "g = GroupNormalization<num_groups=1>(x, u, u) s = Sigmoid(g) y = Mul(g, s)"
    for opset in (21, 23):
        source = model(body, opset, inputs="float[1,2,3] x", outputs="float[?,?,?] y", constants="float[2] u = {1,2}")
        assert shape(rebatched(source, 4), "y") == [4, 2, 3]


def test_numbers_that_hang_on_how_many_there_are_are_refused():
    body = "s = Shape(x) c = Cast<to=1>(s) t = ReduceProd(c) y = Mul(x, t)"
    assert shape(rebatched(model(body, 18, inputs="float[1,3] x", outputs="float[1,3] y"), 4), "y") == [4, 3]


def test_what_a_function_does_with_samples_is_not_known():
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 18, "own" : 1]> g (float[1,3] x) => (float[1,3] y) { y = own.F(x) }
        <domain: "own", opset_import: ["" : 18]> F (a) => (b) { b = Neg(a) }
    """)
    assert refused(source).op == "F"


def test_without_an_axis_there_are_no_samples():
    with pytest.raises(ValueError, match="has a batch axis"):
        fixing.attempt(model("y = Neg(x)", 18, inputs="float x", outputs="float y"), NOTHING, 4)


@pytest.mark.parametrize("size", [0, -1, "many", True, 1.5])
def test_a_batch_is_a_number_or_dynamic(size):
    with pytest.raises(ValueError, match="dynamic"):
        batch(size)


def test_numbers_may_be_typed():
    assert [batch(given) for given in ("8", 8, "dynamic", None)] == [8, 8, "dynamic", None]
