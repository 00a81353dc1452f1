"""Channels in blocks, as onnxruntime saves them at its full level: undone at every width, or refused for want of it.

Blocks are made here number by number, as onnxruntime's source says where each of them lies; models that it saves on
this machine, whatever the width is here, are undone, too.
"""

from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest
from opshift.passes.analysis import blocks
from opshift.passes.conversion import convert
from opshift.passes.model import schemas
from opshift.passes.model.schemas import NCHWC

from opshift.cli import main as cli
from opshift.verification import of_blocks
from opshift.verification.engines import OnnxRuntime
from opshift.verification.side import Side
from tests.support import model

RNG = np.random.default_rng(0)
OPS = [(NCHWC, op) for op in schemas.operators(NCHWC)]


def filled_up(count, width):
    return -(-count // width) * width


def in_blocks(weights, width, *, inputs):
    """Output channels in blocks of a width, filled up with zeros; input channels, too, with `inputs`."""
    outer, inner, height, across = weights.shape
    made = np.zeros((filled_up(outer, width), filled_up(inner, width) if inputs else inner, height, across), np.float32)
    flat, deep = made.reshape(-1), made.shape[1]
    for o, i, h, w in product(range(outer), range(inner), range(height), range(across)):
        if inputs:
            place = (o // width * (deep // width) + i // width) * height + h
            place = ((place * across + w) * width + i % width) * width + o % width
        else:
            place = (((o // width * deep + i) * height + h) * across + w) * width + o % width
        flat[place] = weights[o, i, h, w]
    return made


def saved(width, body, plain, weights, *, inputs="float[2,3,6,6] x"):
    """A model as it was and as it is saved: each of `weights` by name, with whether its input channels lie in blocks."""
    domains = '"com.microsoft.nchwc" : 1'
    outputs = "float[?,?,?,?] y"
    before = model(plain, 18, inputs=inputs, outputs=outputs)
    after = model(body.replace("nchwc.", "com.microsoft.nchwc."), 18, inputs=inputs, outputs=outputs, domains=domains)
    for name, (held, inside) in weights.items():
        before.graph.initializer.append(onnx.numpy_helper.from_array(held, name))
        if held.ndim == 4:
            blocked = in_blocks(held, width, inputs=inside)
        else:
            blocked = np.pad(held, (0, filled_up(len(held), width) - len(held)))
        after.graph.initializer.append(onnx.numpy_helper.from_array(blocked, name))
    return before, after


def undone(source, opset=18):
    result = convert.attempt(source, {"": opset}, ops=OPS)
    assert not result.refusals, result.refusals
    assert all(node.domain != NCHWC for node in result.model.graph.node)
    onnx.checker.check_model(result.model, full_check=True)
    return result.model


def same(before, made):
    (value,) = before.graph.input
    x = RNG.standard_normal([d.dim_value or 2 for d in value.type.tensor_type.shape.dim]).astype(np.float32)
    for a, b in zip(OnnxRuntime(before).run({"x": x}), OnnxRuntime(made).run({"x": x}), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture(params=[8, 16])
def width(request):
    return request.param


def evident(width):
    """A number of channels that is filled up to another one at each width."""
    return {8: 20, 16: 4}[width]


def chain(width, *, many=48):
    """A convolution of an image, one of blocks with an addend and an activation, and one for each channel."""
    count = evident(width)
    weights = {
        "v": (random(count, 3, 3, 3), False),
        "b": (random(count), False),
        "w": (random(many, count, 1, 1), count >= width),
        "u": (random(many, 1, 3, 3), False),
        "s": (random(many, many, 1, 1), True),
    }
    direct = count < width
    into = "a" if not direct else "r"
    body = f"""
        a = nchwc.Conv<kernel_shape=[3,3], activation="Relu">(x, v, b)
        {f"r = nchwc.ReorderOutput<channels={count}>(a)" if direct else "z = nchwc.ReorderOutput<channels=20>(a)"}
        c = nchwc.Conv<kernel_shape=[1,1]>({into}, w)
        d = nchwc.Conv<kernel_shape=[3,3], pads=[1,1,1,1], group={filled_up(many, width)}>(c, u)
        e = nchwc.Conv<kernel_shape=[1,1], activation="LeakyRelu", activation_params=[0.1]>(d, s, , c)
        f = Tanh(e) g = nchwc.MaxPool<kernel_shape=[2,2], strides=[2,2]>(f)
        y = nchwc.ReorderOutput<channels={many}>(g)
    """
    plain = f"""
        t = Conv(x, v, b) a = Relu(t) c = Conv(a, w) d = Conv<pads=[1,1,1,1], group={many}>(c, u)
        k = Conv(d, s) l = Add(k, c) e = LeakyRelu<alpha=0.1>(l) f = Tanh(e)
        y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(f)
    """
    return saved(width, body, plain, weights)


def test_convolutions(width):
    before, after = chain(width)
    assert blocks.blocks(after, None).width == width
    made = undone(after)
    same(before, made)
    assert [node.op_type for node in made.graph.node if node.op_type in ("Pad", "Slice", "Transpose")] == []


@pytest.mark.parametrize("opset", [13, 22])
def test_other_opsets(opset, width):
    before, after = chain(width)
    same(before, undone(after, opset))


@pytest.mark.parametrize("many", [40, 20, 33])
def test_what_fills_up_is_left_out(many, width):
    before, after = chain(width, many=many)
    made = undone(after)
    same(before, made)
    (kernel,) = [t for t in made.graph.initializer if list(t.dims) == [many, 1, 3, 3]]
    assert kernel.dims[0] == many


POOLS = {
    "AveragePool": (
        "kernel_shape=[2,2], count_include_pad=1, pads=[1,1,1,1]",
        "kernel_shape=[2,2], count_include_pad=1, pads=[1,1,1,1]",
    ),
    "MaxPool": ("kernel_shape=[2,2], ceil_mode=1, strides=[2,2]", "kernel_shape=[2,2], ceil_mode=1, strides=[2,2]"),
    "GlobalAveragePool": ("", ""),
    "GlobalMaxPool": ("", ""),
}


@pytest.mark.parametrize("op", POOLS)
def test_pools_and_channels_that_come_last(op, width):
    given, own = (f"<{held}>" if held else "" for held in POOLS[op])
    count = {8: 24, 16: 20}[width]
    body = f"""
        r = nchwc.ReorderInput<channels_last=1>(x) c = nchwc.Conv<kernel_shape=[1,1]>(r, w) p = nchwc.{op}{given}(c)
        y = nchwc.ReorderOutput<channels={evident(width)}, channels_last=1>(p)
    """
    plain = f"""
        r = Transpose<perm=[0,3,1,2]>(x) c = Conv(r, w) p = {op}{own}(c) y = Transpose<perm=[0,2,3,1]>(p)
    """
    weights = {"w": (random(evident(width), count, 1, 1), True)}
    before, after = saved(width, body, plain, weights, inputs=f"float[2,5,5,{count}] x")
    same(before, undone(after))


@pytest.mark.parametrize(
    ("mode", "coordinates"), [("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners")]
)
def test_images_that_are_enlarged(mode, coordinates, width):
    body = f"""
        c = nchwc.Conv<kernel_shape=[1,1]>(x, w)
        p = nchwc.Upsample<scales=[1,1,2,3], mode="{mode}", coordinate_transformation_mode="{coordinates}">(c)
        y = nchwc.ReorderOutput<channels={evident(width)}>(p)
    """
    plain = f"""
        c = Conv(x, w) s = Constant<value_floats=[1.0,1.0,2.0,3.0]>()
        y = Resize<mode="{mode}", coordinate_transformation_mode="{coordinates}", nearest_mode="floor">(c, , s)
    """
    before, after = saved(width, body, plain, {"w": (random(evident(width), 3, 1, 1), False)})
    same(before, undone(after))


def test_blocks_with_an_axis_of_their_own(width):
    """onnxruntime adds values of unknown shapes so."""
    count = evident(width)
    full = filled_up(count, width)
    body = f"""
        a = nchwc.Conv<kernel_shape=[1,1]>(x, v) c = nchwc.Conv<kernel_shape=[1,1]>(x, w)
        n = Reshape(a, five) o = Reshape(c, five) p = Add(n, o) q = Reshape(p, four) r = Relu(q)
        y = nchwc.ReorderOutput<channels={count}>(r)
    """
    weights = {name: (random(count, 3, 1, 1), False) for name in "vw"}
    before, after = saved(width, body, "a = Conv(x, v) c = Conv(x, w) p = Add(a, c) y = Relu(p)", weights)
    for name, shape in (("five", [0, full // width, 0, 0, width]), ("four", [0, full, 0, 0])):
        after.graph.initializer.append(onnx.numpy_helper.from_array(np.array(shape), name))
    assert blocks.blocks(after, None).width == width
    same(before, undone(after))


# --- how wide they are --------------------------------------------------------------------------------------


def one(width, outer, inner, *, direct):
    body = "c = nchwc.Conv<kernel_shape=[1,1]>({}, w) y = nchwc.ReorderOutput<channels={}>(c)"
    body = ("" if direct else "r = nchwc.ReorderInput(x) ") + body.format("x" if direct else "r", outer)
    weights = {"w": (random(outer, inner, 1, 1), not direct)}
    return saved(width, body, "y = Conv(x, w)", weights, inputs=f"float[1,{inner},2,2] x")


@pytest.mark.parametrize(
    ("outer", "inner", "direct"),
    [
        (8, 3, True),  # how far it is filled up
        (28, 3, True),  # where the zeros lie
        (32, 8, False),  # that an image of 8 channels is in blocks, or is not
        (32, 24, False),  # how far what it takes is filled up
        (16, 28, False),
    ],
)
def test_evidence(outer, inner, direct, width):
    before, after = one(width, outer, inner, direct=direct or inner < width)
    assert blocks.blocks(after, None).width == width
    same(before, undone(after))


def refusal(source):
    found = {held.why for held in convert.attempt(source, {"": 18}, ops=OPS).refusals}
    assert len(found) == 1
    return found.pop()


def test_without_evidence_the_option_is_named(width):
    before, after = one(width, 32, 3, direct=True)
    assert blocks.blocks(after, None).width == 0
    assert "--nchwc-width 8 (saved on AVX2) or 16 (AVX-512, NEON)" in refusal(after)
    with blocks.assume_width(width):
        same(before, undone(after))


def test_a_width_that_sizes_contradict_is_refused(width):
    _, after = one(width, 8, 3, direct=True)
    with blocks.assume_width(24 - width):
        assert "its sizes do not fit blocks" in refusal(after)


def test_sizes_of_no_blocks_are_refused():
    _, after = one(8, 8, 3, direct=True)
    after.graph.initializer[0].dims[0], after.graph.initializer[0].dims[1] = 6, 4
    assert "its sizes do not fit blocks of 8 or 16" in refusal(after)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("y = nchwc.Conv<kernel_shape=[1,1]>(x, w)", "is an output of the graph"),
        ("c = nchwc.Conv<kernel_shape=[1,1]>(x, w) y = Softmax(c)", "Softmax reads a value in blocked layout"),
        (
            "c = nchwc.Conv<kernel_shape=[1,1]>(x, w) d = Mul(c, k) y = nchwc.ReorderOutput<channels=4>(d)",
            "Mul reads a value in blocked layout",
        ),
        (
            "v = Neg(w) c = nchwc.Conv<kernel_shape=[1,1]>(x, v) y = nchwc.ReorderOutput<channels=4>(c)",
            "are not constant",
        ),
    ],
)
def test_what_knows_no_blocks(body, why):
    weights = {"w": (random(4, 3, 1, 1), False), "k": (random(16), False)}
    assert why in refusal(saved(16, body, "y = Neg(x)", weights)[1])


def test_one_operator_alone_is_never_undone():
    """What is left would read channels in order as blocks."""
    before, after = one(16, 4, 3, direct=True)
    result = convert.attempt(after, {"": 18}, ops=[(NCHWC, "Conv")])
    same(before, result.model)


# --- what onnxruntime saves, and runs -----------------------------------------------------------------------


def test_what_onnxruntime_saves_here_is_undone(tmp_path):
    before, _ = chain(16, many=20)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    onnxruntime.InferenceSession(before.SerializeToString(), options, providers=["CPUExecutionProvider"])
    after = onnx.load(tmp_path / "saved.onnx")
    here = of_blocks._width()
    assert blocks.blocks(after, None).width == here
    if here:
        same(before, undone(after))
        assert of_blocks.running(Side(after)) == (Side(after), ())


@pytest.mark.long
def test_a_model_of_another_width_is_not_run(tmp_path, capsys):
    """It would compute something else here, without a word."""
    other = 8 if of_blocks._width() == 16 else 16
    before, after = chain(other)
    side, (said,) = of_blocks.running(Side(after))
    assert f"its blocks have {other} channels" in said
    same(before, side.model)
    onnx.save(after, tmp_path / "in.onnx")
    assert cli.main(["inline", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--portable"]) == 0
    assert f"remark: {said}" in capsys.readouterr().out
    same(before, onnx.load(tmp_path / "out.onnx"))
    assert cli.main(["convert", str(tmp_path / "in.onnx"), str(tmp_path / "kept.onnx"), "--opset", "13"]) == 0
    kept = onnx.load(tmp_path / "kept.onnx")
    assert {node.op_type for node in kept.graph.node if node.domain == NCHWC} >= {"Conv", "ReorderOutput"}
    assert f"remark: {said}" in capsys.readouterr().out


def test_the_option(tmp_path, width, capsys):
    before, after = one(width, 32, 3, direct=True)
    onnx.save(after, tmp_path / "in.onnx")
    command = ["inline", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--portable"]
    assert cli.main(command) == 3
    out = capsys.readouterr().out
    assert "--nchwc-width" in out
    assert "no vendor operator" not in out
    assert cli.main([*command, "--nchwc-width", str(width)]) == 0
    same(before, onnx.load(tmp_path / "out.onnx"))


RESIZED = """
    s = Shape<start=2>(x) h = Concat<axis=0>(few, s)
    t = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , , h)
    i = Concat<axis=1>(t, x)
"""


def behind_a_resize(width, weights):
    """Channels that no inference tells: sizes are computed, and the first two of them unknown."""
    count = weights.shape[1]
    body = f"""{RESIZED} r = nchwc.ReorderInput(i) a = nchwc.Conv<kernel_shape=[1,1]>(r, w)
        b = nchwc.Conv<kernel_shape=[1,1]>(a, v) y = nchwc.ReorderOutput<channels={evident(width)}>(b)"""
    plain = f"{RESIZED} a = Conv(i, w) y = Conv(a, v)"
    held = {"w": (weights, True), "v": (random(evident(width), weights.shape[0], 1, 1), True)}
    before, after = saved(width, body, plain, held, inputs=f"float[2,{count // 2},6,6] x, int64[2] few")
    return before, after


def test_the_last_channel_has_a_weight_where_all_are_real(width):
    before, after = behind_a_resize(width, random(32, 32, 1, 1))
    made = undone(after)
    x, few = random(2, 16, 6, 6), np.array([2, 16])
    for a, b in zip(
        OnnxRuntime(before).run({"x": x, "few": few}), OnnxRuntime(made).run({"x": x, "few": few}), strict=True
    ):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


def test_a_last_channel_without_a_weight_tells_nothing(width):
    weights = random(32, 32, 1, 1)
    weights[:, -1] = 0
    _, after = behind_a_resize(width, weights)
    (refusal,) = convert.attempt(after, {"": 18}, ops=OPS).refusals
    assert "the number of channels is unknown" in refusal.why
