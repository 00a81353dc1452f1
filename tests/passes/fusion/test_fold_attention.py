"""Attention and rotary embeddings, as exporters write them out."""

import numpy as np
import onnx
import pytest
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold, masks
from opshift.passes.model.imports import opsets

from tests.support import check_values, evaluate, model, show

RNG = np.random.default_rng(0)
SHAPES = {"q": (2, 4, 6, 8), "k": (2, 4, 5, 8), "v": (2, 4, 5, 3), "m": (2, 1, 6, 5)}
FEEDS = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
QKV = "float[2,4,6,8] q, float[2,4,5,8] k, float[2,4,5,3] v"
Y = "float[2,4,6,3] y"
TURN = "kt = Transpose<perm=[0,1,3,2]>(k)"


def folded(source):
    kept = source.SerializeToString()
    result = fold.attempt(source)
    assert source.SerializeToString() == kept, "the caller's model was changed"
    onnx.checker.check_model(result.model, full_check=True)
    return result


def check_folds(body, after, *, inputs=QKV, outputs=Y, constants="", feeds=FEEDS, opset=23):
    source = model(body, opset, inputs=inputs, outputs=outputs, constants=constants)
    result = folded(source)
    assert show(result.model) == "\n".join(line.strip() for line in after.strip().splitlines())
    names = {value.name for value in source.graph.input}
    check_values(source, result.model, {n: v for n, v in feeds.items() if n in names}, rtol=2e-5, atol=2e-6)
    return result


def check_stays(body, *, inputs=QKV, outputs=Y, constants="", opset=23):
    source = model(body, opset, inputs=inputs, outputs=outputs, constants=constants)
    result = folded(source)
    assert result.model == source, [change.how for change in result.changes]


# --- attention ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "masks", "after"),
    [
        ("Attention(q, k, v)", "", "Attention(q, k, v)"),
        ("Attention<scale=0.25>(q, k, v)", "", "Attention<scale=0.25>(q, k, v)"),
        ("Attention(q, k, v, m)", ", float[2,4,6,5] m", "Attention(q, k, v, m)"),
        ("Attention(q, k, v, m)", ", bool[6,5] m", "Attention(q, k, v, m)"),
    ],
)
def test_a_definition_becomes_attention_again(call, masks, after):
    source = model(f"y = {call}", 23, inputs=QKV + masks, outputs=Y)
    expanded = convert.attempt(source, opsets(source), ops=[("", "Attention")]).model
    result = folded(expanded)
    assert show(result.model) == f"y = {after}"
    check_values(expanded, result.model, {n: FEEDS[n] for n in "qkv"}, rtol=2e-5, atol=2e-6)


SCALE = "float s = {0.35355339}, float d = {2.8284271}, float[1] h = {0.59460354}, float z = {0}, float w = {-inf}"


@pytest.mark.parametrize(
    "scores",
    [
        f"{TURN} t = MatMul(q, kt) a = Mul(t, s)",
        f"{TURN} t = MatMul(q, kt) a = Div(t, d)",
        f"p = Mul(q, s) {TURN} a = MatMul(p, kt)",
        f"p = Mul(q, h) {TURN} kh = Mul(kt, h) a = MatMul(p, kh)",
        "p = Mul(q, h) r = Mul(h, k) kt = Transpose<perm=[0,1,3,2]>(r) a = MatMul(p, kt)",
    ],
)
def test_the_scale_stands_anywhere(scores):
    check_folds(f"{scores} b = Softmax<axis=3>(a) y = MatMul(b, v)", "y = Attention(q, k, v)", constants=SCALE)


def test_heads_that_are_turned_with_their_rows():
    """torch and Hugging Face take the key apart and turn it in one Transpose."""
    inputs = "float[2,4,6,8] q, float[2,5,32] x, float[2,4,5,3] v"
    body = "r = Reshape(x, to) kt = Transpose<perm=[0,2,3,1]>(r) t = MatMul(q, kt) a = Mul(t, s) b = Softmax(a) "
    after = "t1 = Reshape(x, [0, 0, 4, 8])\nt2 = Transpose<perm=[0, 2, 1, 3]>(t1)\ny = Attention(q, t2, v)"
    feeds = {**FEEDS, "x": RNG.standard_normal((2, 5, 32)).astype(np.float32)}
    constants = f"{SCALE}, int64[4] to = {{0, 0, 4, 8}}"
    check_folds(f"{body} y = MatMul(b, v)", after, inputs=inputs, constants=constants, feeds=feeds)


@pytest.mark.parametrize(
    "masked",
    ["n = Where(m, z, w) c = Add(a, n)", "n = Where(m, z, w) c = Add(n, a)", "c = Where(m, a, w)"],
)
@pytest.mark.parametrize("guard", ["g = Identity(b)", "n2 = IsNaN(b) g = Where(n2, z, b)"])
def test_a_boolean_mask(masked, guard):
    inputs = f"{QKV}, bool[2,1,6,5] m"
    body = f"{TURN} t = MatMul(q, kt) a = Mul(t, s) {masked} b = Softmax(c) {guard} y = MatMul(g, v)"
    feeds = {**FEEDS, "m": RNG.random((2, 1, 6, 5)) > 0.3}
    result = check_folds(body, "y = Attention(q, k, v, m)", inputs=inputs, constants=SCALE, feeds=feeds)
    assert "no key yields 0" in result.changes[0].remark


LOWEST = float(np.finfo(np.float32).min)
MASKED = f"{TURN} t = MatMul(q, kt) a = Mul(t, s) {{}} c = Add(a, n) b = Softmax(c) y = MatMul(b, v)"
NUMBERS = f"float s = {{0.35355339}}, float z = {{0}}, float[1] l = {{{LOWEST!r}}}, float i = {{-inf}}"


@pytest.mark.parametrize("mask", ["n = Where(m, z, l)", "h = Not(m) g = Where(h, l, z) n = Expand(g, to)"])
def test_runtimes_agree_on_a_query_whose_keys_have_the_lowest_number(mask):
    """Softmax of such a row is a mean; onnxruntime's Attention takes the number, and no other, for -inf."""
    body, feeds = MASKED.format(mask), {**FEEDS, "m": RNG.random((2, 1, 6, 5)) > 0.5}
    feeds["m"][0, 0, :2] = False
    constants = f"{NUMBERS}, int64[4] to = {{2, 1, 6, 5}}"
    source = model(body, 23, inputs=f"{QKV}, bool[2,1,6,5] m", outputs=Y, constants=constants)
    result = folded(source)
    assert [node.op_type for node in result.model.graph.node][-2:] == ["Max", "Attention"]
    assert "lowest number" in result.changes[0].remark
    (raised,) = (of.input[1] for of in result.model.graph.node if of.op_type == "Max")
    (number,) = (onnx.numpy_helper.to_array(held) for held in result.model.graph.initializer if held.name == raised)
    assert number == np.nextafter(np.float32(LOWEST), np.float32(0))
    check_values(source, result.model, {n: feeds[n] for n in "qkvm"}, rtol=2e-5, atol=2e-6)
    mean = feeds["v"][0].mean(axis=1)
    np.testing.assert_allclose(evaluate(result.model, {n: feeds[n] for n in "qkvm"})[0][0, :, 0], mean, rtol=1e-4)
    again = convert.attempt(result.model, opsets(result.model), ops=[("", "Attention")]).model
    assert [node.op_type for node in folded(again).model.graph.node].count("Max") == 1


@pytest.mark.parametrize("kind", ["double", "float16"])
def test_the_lowest_number_is_that_of_the_type(kind):
    lowest = np.finfo(kind.replace("double", "float64")).min
    inputs = f"{kind}[2,4,6,8] q, {kind}[2,4,5,8] k, {kind}[2,4,5,3] v, bool[2,1,6,5] m"
    source = model(
        "n = Where(m, z, l) y = Attention<scale=0.25>(q, k, v, n)", 23, inputs=inputs, outputs=f"{kind}[2,4,6,3] y"
    )
    for name, value in (("z", 0), ("l", lowest)):
        source.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value, lowest.dtype), name))
    result = folded(convert.attempt(source, opsets(source), ops=[("", "Attention")]).model).model
    assert [node.op_type for node in result.graph.node] == ["Where", "Max", "Attention"]
    (raised,) = (node.input[1] for node in result.graph.node if node.op_type == "Max")
    (number,) = (onnx.numpy_helper.to_array(held) for held in result.graph.initializer if held.name == raised)
    assert number == np.nextafter(lowest, lowest.dtype.type(0))


@pytest.mark.parametrize(
    "mask",
    [
        "g = Where(m, z, l) h = Where(m, z, l) n = Add(g, h)",
        "g = Where(m, z, l) n = Where(m, g, i)",
        "f = Cast<to=1>(m) g = Cast<to=7>(f) h = Cast<to=1>(g) n = Mul(h, l)",
    ],
    ids=["twice", "with -inf", "times what may be more than 1"],
)
def test_rows_of_the_lowest_number_and_less_stay(mask):
    check_stays(MASKED.format(mask), inputs=f"{QKV}, bool[2,1,6,5] m", constants=NUMBERS)


def test_what_a_caller_fills_a_mask_with_is_not_known():
    text = '<ir_version: 10, opset_import: ["": 23, "local": 1]> g (int64[2] to, bool[6,5] m) => (float[6,5] n) '
    text += (
        '{ n = local.f<fill = float[1] {0}>(to, m) } <domain: "local", opset_import: ["": 23]> f <fill> (to, m) => (n) '
    )
    text += "{ low = ConstantOfShape<value: tensor = @fill>(to) l = Constant<value = float {LOWEST}>() n = Where(m, low, l) }"
    source = onnx.parser.parse_model(text.replace("LOWEST", repr(LOWEST)))
    scope = Scope(source.functions[0], Context(source, source), 23, path=None)
    assert masks.remedy(scope, ["n"], onnx.TensorProto.FLOAT) is masks.MaskRemedy.NO


@pytest.mark.parametrize("row", [[LOWEST] * 5, [LOWEST] * 4 + [0.0], [LOWEST] * 4 + [-np.inf]])
def test_a_constant_mask_is_looked_at_row_by_row(row):
    source = model(MASKED.format(""), 23, inputs=QKV, outputs=Y, constants=NUMBERS)
    values = np.array([[0.0] * 5] * 5 + [row], np.float32)
    source.graph.initializer.append(onnx.numpy_helper.from_array(values, "n"))
    ops = [node.op_type for node in folded(source).model.graph.node]
    tail = {0.0: ["Attention"], LOWEST: ["Max", "Attention"], -np.inf: ["Softmax", "MatMul"]}[row[-1]]
    assert ops[-len(tail) :] == tail
    assert ("Max" in ops) == ("Max" in tail)
    check_values(source, folded(source).model, {n: FEEDS[n] for n in "qkv"}, rtol=2e-5, atol=2e-6)


def test_a_mask_without_rows_gets_them():
    """Runtimes take no mask that is broadcast along the queries."""
    inputs = f"{QKV}, float[2,1,1,5] m"
    body = f"{TURN} t = MatMul(q, kt) a = Mul(t, s) c = Add(a, m) b = Softmax(c) y = MatMul(b, v)"
    feeds = {**FEEDS, "m": FEEDS["m"][:, :, :1]}
    after = "t1 = Expand(m, [6, 1])\ny = Attention(q, k, v, t1)"
    check_folds(body, after, inputs=inputs, constants=SCALE, feeds=feeds)


def test_products_that_einsum_writes():
    body = 't = Einsum<equation="bhqd,bhkd->bhqk">(q, k) a = Mul(t, s) b = Softmax(a) '
    body += 'y = Einsum<equation="bhqk,bhkd->bhqd">(b, v)'
    check_folds(body, "y = Attention(q, k, v)", constants=SCALE)


def test_two_biases_are_added_before():
    inputs = f"{QKV}, float[2,1,6,5] m, float[1,4,6,5] p"
    body = f"{TURN} t = MatMul(q, kt) a = Mul(t, s) c = Add(a, m) e = Add(c, p) b = Softmax(e) y = MatMul(b, v)"
    feeds = {**FEEDS, "p": RNG.standard_normal((1, 4, 6, 5)).astype(np.float32)}
    result = folded(model(body, 23, inputs=inputs, outputs=Y, constants=SCALE)).model
    assert [node.op_type for node in result.graph.node] == ["Add", "Attention"]
    check_values(model(body, 23, inputs=inputs, outputs=Y, constants=SCALE), result, feeds, rtol=2e-5, atol=2e-6)


def test_lengths_that_are_known_by_name_alone():
    inputs = "float[B,4,S,8] q, float[B,4,T,8] k, float[B,4,T,3] v"
    body = f"{TURN} t = MatMul(q, kt) a = Mul(t, s) b = Softmax(a) y = MatMul(b, v)"
    check_folds(body, "y = Attention(q, k, v)", inputs=inputs, outputs="float[B,4,S,3] y", constants=SCALE)


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        (f"{TURN} a = MatMul(q, kt) b = Softmax<axis=2>(a) y = MatMul(b, v)", QKV),
        (f"{TURN} a = MatMul(q, kt) b = Softmax(a) y = MatMul(b, v)", QKV.replace("[2,4,5,8]", "[1,4,5,8]")),
        (f"{TURN} a = MatMul(q, kt) b = Softmax(a) y = MatMul(b, v)", QKV.replace("[2,4,6,8]", "[N,4,6,8]")),
        (f"{TURN} a = MatMul(q, kt) c = Add(a, m) b = Softmax(c) y = MatMul(b, v)", f"{QKV}, float[6,1] m"),
        (f"{TURN} a = MatMul(q, kt) c = Add(a, m) b = Softmax(c) y = MatMul(b, v)", f"{QKV}, float[1,2,4,6,5] m"),
        (f"{TURN} n = Neg(q) a = MatMul(n, kt) b = Softmax(a) y = MatMul(b, v)", QKV),
    ],
    ids=["axis", "keys of one batch", "batches", "columns", "rank", "negative"],
)  # fmt: skip
def test_what_attention_does_not_do_stays(body, inputs):
    check_stays(body, inputs=inputs, outputs="float[1,2,4,6,3] y" if "[1,2,4,6,5]" in inputs else Y)


def test_shares_that_others_read_stay():
    body = f"{TURN} a = MatMul(q, kt) b = Softmax(a) y = MatMul(b, v)"
    check_stays(body, outputs=f"{Y}, float[2,4,6,5] b")


def test_softmax_without_nans_is_not_softmax():
    """0 for NaN is a part of attention, and of nothing else."""
    body = (
        "h = ReduceMax(x, i) d = Sub(x, h) e = Exp(d) t = ReduceSum(e, i) b = Div(e, t) n = IsNaN(b) y = Where(n, z, b)"
    )
    source = model(
        body, 18, inputs="float[2,3] x", outputs="float[2,3] y", constants="int64[1] i = {-1}, float z = {0}"
    )
    result = folded(source)
    assert [node.op_type for node in result.model.graph.node] == ["Softmax", "IsNaN", "Where"]


# --- rotary embeddings ------------------------------------------------------------------------------------------


def rotated(x="x", n=""):
    """x * cos + (-x2, x1) * sin, with names that end in `n`."""
    body = f"p{n} = Mul({x}, cos) a{n} = Slice({x}, i0, i4, i3) b{n} = Slice({x}, i4, end, i3) n{n} = Neg(b{n}) "
    return body + f"r{n} = Concat<axis=-1>(n{n}, a{n}) o{n} = Mul(r{n}, sin) y{n} = Add(p{n}, o{n})"


ROTATED = rotated()
PLACES = "int64[1] i0 = {0}, int64[1] i4 = {4}, int64[1] end = {9223372036854775807}, int64[1] i3 = {3}, "
PLACES += "int64[1] i1 = {1}"
X = {"x": RNG.standard_normal((2, 4, 6, 8)).astype(np.float32), "f": RNG.standard_normal((2, 6, 4)).astype(np.float32)}
ANGLES = "e = Concat<axis=-1>(f, f) c = Cos(e) s = Sin(e) cos = Unsqueeze(c, i1) sin = Unsqueeze(s, i1)"
IMAGES = {"inputs": "float[2,4,6,8] x, float[2,6,4] f", "outputs": "float[2,4,6,8] y"}


def test_the_definition_becomes_a_rotary_embedding_again():
    inputs = "float[2,4,6,8] x, float[2,6,4] c, float[2,6,4] s"
    source = model("y = RotaryEmbedding(x, c, s)", 23, inputs=inputs, outputs="float[2,4,6,8] y")
    expanded = convert.attempt(source, opsets(source), ops=[("", "RotaryEmbedding")]).model
    assert show(folded(expanded).model) == "y = RotaryEmbedding(x, c, s)"


def test_angles_that_are_computed():
    after = "t1 = Cos(f)\nt2 = Sin(f)\ny = RotaryEmbedding(x, t1, t2)"
    check_folds(f"{ANGLES} {ROTATED}", after, **IMAGES, constants=PLACES, feeds=X)


def test_angles_that_several_use_are_computed_once():
    inputs, outputs = f"{IMAGES['inputs']}, float[2,2,6,8] z", f"{IMAGES['outputs']}, float[2,2,6,8] y2"
    source = model(f"{ANGLES} {ROTATED} {rotated('z', 2)}", 23, inputs=inputs, outputs=outputs, constants=PLACES)
    result = folded(source)
    assert sorted(n.op_type for n in result.model.graph.node) == ["Cos", "RotaryEmbedding", "RotaryEmbedding", "Sin"]
    feeds = {**X, "z": X["x"][:, :2]}
    check_values(source, result.model, feeds, rtol=1e-5, atol=1e-5)


def test_angles_of_all_batches_are_repeated():
    after = "t1 = Cos(f)\nt2 = Sin(f)\nt3 = Shape<end=1, start=0>(x)\nt4 = Concat<axis=0>(t3, [1, 1])\n"
    after += "t5 = Expand(t1, t4)\nt6 = Expand(t2, t4)\ny = RotaryEmbedding(x, t5, t6)"
    feeds = {**X, "f": X["f"][:1]}
    images = {"inputs": "float[N,4,6,8] x, float[1,6,4] f", "outputs": "float[N,4,6,8] y"}
    check_folds(f"{ANGLES} {ROTATED}", after, **images, constants=PLACES, feeds=feeds)


def test_pieces_of_a_sequence_and_numbers_of_their_type():
    """What torch's exporter writes before it optimizes: the scale has the type of a value within the attention."""
    body = "q4 = SplitToSequence<axis=-1>(x, eight) q = SequenceAt(q4, z0) k = SequenceAt(q4, z1) "
    body += f"v = SequenceAt(q4, z2) {TURN} s2 = CastLike(s, kt) u = Mul(kt, s2) a = MatMul(q, u) b = Softmax(a) "
    constants = f"{SCALE}, int64 eight = {{8}}, int64 z0 = {{0}}, int64 z1 = {{1}}, int64 z2 = {{2}}"
    io = {"inputs": "float[2,4,6,24] x", "outputs": "float[2,4,6,8] y"}
    source = model(f"{body} y = MatMul(b, v)", 23, constants=constants, **io)
    result = folded(source).model
    assert [node.op_type for node in result.graph.node] == ["SplitToSequence", *["SequenceAt"] * 3, "Attention"]
    feeds = {"x": RNG.standard_normal((2, 4, 6, 24)).astype(np.float32)}
    check_values(source, result, feeds, rtol=2e-5, atol=2e-6)


def table(values, twice=True):
    angles = np.linspace(0, 3, 24, dtype=np.float32).reshape(6, 4)
    held = values(np.concatenate([angles, angles if twice else angles + 1], -1))[None, None]
    return onnx.numpy_helper.from_array(held.astype(np.float32))


@pytest.mark.parametrize("twice", [True, False])
def test_angles_that_are_held_in_a_table(twice):
    source = model(ROTATED, 23, inputs="float[2,4,6,8] x", outputs="float[2,4,6,8] y", constants=PLACES)
    for name, values in (("cos", np.cos), ("sin", np.sin)):
        source.graph.initializer.add().CopyFrom(table(values, twice))
        source.graph.initializer[-1].name = name
    result = folded(source)
    if not twice:  # the halves have angles of their own
        assert result.model == source
        return
    assert [node.op_type for node in result.model.graph.node] == ["RotaryEmbedding"]
    assert not {"cos", "sin"} & {tensor.name for tensor in result.model.graph.initializer}
    check_values(source, result.model, {"x": X["x"]}, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n = Neg(b)", "n = Identity(b)"),
        ("r = Concat<axis=-1>(n, a)", "r = Concat<axis=-1>(a, n)"),
        ("y = Add(p, o)", "y = Sub(p, o)"),
        ("e = Concat<axis=-1>(f, f)", "g = Neg(f) e = Concat<axis=-1>(f, g)"),
        ("cos = Unsqueeze(c, i1)", "cos = Unsqueeze(c, i0)"),
    ],
)
def test_what_rotates_otherwise_stays(old, new):
    body = f"{ANGLES} {ROTATED}"
    assert old in body
    sixes = {"inputs": "float[6,6,6,8] x, float[6,6,4] f", "outputs": "float[6,6,6,8] y"}
    check_stays(body.replace(old, new), **(sixes if "i0)" in new else IMAGES), constants=PLACES)
