"""Drawn inputs are such as users feed: sizes that fill windows, ids of a whole table, masks of 0 and 1."""

import math
from itertools import pairwise

import numpy as np
import pytest

from opshift.verification.engines import EngineError
from opshift.verification.feeding import inputs
from opshift.verification.feeding.asked import DRAWN, read_options
from opshift.verification.side import Side
from tests.support import model

pytestmark = pytest.mark.posix


def drawn(source, wanted=DRAWN, **how):
    """The sets of inputs that a model runs on."""
    side = Side(source)
    return list(inputs.running(side, side.open().run, wanted, **how))


def shapes(found, name="x"):
    return [one.given[name].shape for one in found]


def ones(**held):
    """Initializers of ones."""
    filled = ((name, shape, ", ".join(["1"] * math.prod(shape))) for name, shape in held.items())
    return ", ".join(f"float{list(shape)} {name} = {{{numbers}}}" for name, shape, numbers in filled)


HALVED = "MaxPool<kernel_shape=[2,2], strides=[2,2]>"


def halved(times, taken="x"):
    names = [taken, *(f"h{k}" for k in range(times))]
    return " ".join(f"{made} = {HALVED}({of})" for of, made in pairwise(names)), names[-1]


# --- sizes --------------------------------------------------------------------------------------------------


def test_sizes_are_those_that_users_feed():
    source = model("y = Relu(x)", 17, inputs="float[N,3,H,W] x", outputs="float[N,3,H,W] y")
    first, second, _ = shapes(drawn(source))
    assert first == (1, 3, 64, 96)
    assert second == (2, 3, 96, 64)


@pytest.mark.parametrize(
    "taken",
    [
        "float[batch,3,height,width] x",
        "float[unk__0,3,?,?] x",
        "float[N,H,W,3] x",
        "float[batch,sequence,16] x",
        "float[batch,80,time] x",
        "float[seq_len,batch,8] x",
        "float[s0,s1] x",
        "float[num_boxes,4] x",
        "float[batch,12,past_sequence_length,64] x",
        "float[channels,height,width] x",
        "float[length] x",
    ],
)
def test_two_runs_differ_in_every_dynamic_size(taken):
    source = model("y = Relu(x)", 17, inputs=taken, outputs="float y")
    first, second = shapes(drawn(source))[:2]
    open_ = [not dim.dim_value for dim in source.graph.input[0].type.tensor_type.shape.dim]
    assert [a != b for a, b in zip(first, second, strict=True)] == open_
    assert math.prod(first) < 2**16


@pytest.mark.parametrize(
    ("taken", "axis"),
    [("float[batch,16] x", 0), ("float[sequence,batch,8] x", 1), ("float[unk__5,3,unk__6,unk__7] x", 0)],
)
def test_one_sample_and_several(taken, axis):
    found = [shape[axis] for shape in shapes(drawn(model("y = Relu(x)", 17, inputs=taken, outputs="float y")))]
    assert found[0] == 1
    assert 1 < max(found) < 5


def test_a_state_has_as_many_samples_as_what_is_fed_beside_it():
    body = "_, y, z = LSTM<hidden_size=2>(x, w, r, , , h, c)"
    held = ones(w=(1, 8, 5), r=(1, 8, 2))
    taken = "float[sequence,batch,5] x, float[1,?,2] h, float[1,?,2] c"
    found = drawn(model(body, 17, inputs=taken, outputs="float y, float z", constants=held))
    assert [one.given["h"].shape[1] for one in found[:2]] == [1, 2] == [one.given["x"].shape[1] for one in found[:2]]


def test_a_large_window_behind_strides_is_filled():
    body, last = halved(5)
    source = model(f"{body} y = Conv<pads=[3,3,3,3]>({last}, w)", 17, inputs="float[N,1,H,W] x", outputs="float y",
                   constants=ones(w=(1, 1, 7, 7)))  # fmt: skip
    found = shapes(drawn(source))
    assert any(min(shape[2:]) >= 7 * 32 for shape in found)
    assert max(max(shape[2:]) for shape in found) < 400, "and it is no larger than that takes"
    assert any(shape[2] != shape[3] for shape in found)


def test_a_long_window_of_sound_is_filled():
    body = "u = Unsqueeze(x, a) y = Conv<strides=[160], pads=[200,200]>(u, w)"
    source = model(body, 17, inputs="float[batch,samples] x", outputs="float y",
                   constants=f"int64[1] a = {{1}}, {ones(w=(1, 1, 400))}")  # fmt: skip
    found = shapes(drawn(source))
    assert max(shape[1] for shape in found) >= 400
    assert found[0][1] != found[1][1]


def test_no_size_is_beyond_reason():
    source = model("y = Conv<dilations=[900,900], pads=[1800,1800,1800,1800]>(x, w)", 17,
                   inputs="float[N,1,H,W] x", outputs="float y", constants=ones(w=(1, 1, 5, 5)))  # fmt: skip
    assert max(math.prod(shape) for shape in shapes(drawn(source, read_options(runs=1)))) < 2**21


@pytest.mark.parametrize("times", [2, 6])
def test_sizes_are_multiples_of_the_strides(times):
    """Up and down again: what is halved six times is doubled six times, and added."""
    body, last = halved(times)
    factor = 2**times
    source = model(f'{body} u = Resize<mode="nearest">({last}, , s) y = Add(u, x)', 17, inputs="float[N,1,H,W] x",
                   outputs="float y", constants=f"float[4] s = {{1, 1, {factor}, {factor}}}")  # fmt: skip
    found = shapes(drawn(source))
    assert all(size % factor == 0 for shape in found for size in shape[2:])
    assert all(a != b for a, b in zip(found[0][2:], found[1][2:], strict=True))
    assert any(shape[2] != shape[3] for shape in found)


@pytest.mark.parametrize("heads", [2, 12, 7])
def test_sizes_are_multiples_of_the_heads(heads):
    source = model("y = Reshape(x, s)", 17, inputs="float[batch,sequence,channels] x", outputs="float y",
                   constants=f"int64[4] s = {{0, 0, {heads}, -1}}")  # fmt: skip
    found = shapes(drawn(source))
    assert all(shape[2] % heads == 0 for shape in found)
    assert all(a != b for a, b in zip(*found[:2], strict=True))


@pytest.mark.parametrize(
    ("body", "taken", "held", "expected"),
    [
        (
            "c = Conv<strides=[16,16]>(x, w) r = Reshape(c, s) t = Transpose<perm=[0,2,1]>(r) y = Add(t, p)",
            "float[batch,1,height,width] x",
            {"w": (2, 1, 16, 16), "p": (1, 196, 2)},
            (1, 1, 224, 224),
        ),
        (
            "c = Conv<strides=[2], pads=[1,1]>(x, w) t = Transpose<perm=[0,2,1]>(c) y = Add(t, p)",
            "float[batch,1,frames] x",
            {"w": (2, 1, 3), "p": (1500, 2)},
            (1, 1, 3000),
        ),
    ],
)
def test_sizes_are_those_of_the_positions_that_a_model_has(body, taken, held, expected):
    """A single position would do, too, as it is broadcast."""
    source = model(body, 17, inputs=taken, outputs="float y", constants=f"int64[3] s = {{0, 0, -1}}, {ones(**held)}")
    found = shapes(drawn(source))
    assert found[0] == expected
    assert [shape[0] for shape in found] == [1, 2, 3]


def test_a_past_and_what_comes_make_a_total():
    source = model(
        "k = Concat<axis=1>(p, x) y = Add(k, m)",
        17,
        inputs="float[batch,past_length,4] p, float[batch,seq_length,4] x, float[batch,total_length,1] m",
        outputs="float y",
    )
    found = drawn(source)
    assert [one.given["m"].shape[1] for one in found] == [24, 36, 4]


def test_sizes_that_are_asked_for_are_taken():
    source = model("y = Relu(x)", 17, inputs="float[N,3,H,W] x", outputs="float y")
    found = shapes(drawn(source, read_options(input_shape="H=40")))
    assert {shape[2] for shape in found} == {40}
    assert len({shape[3] for shape in found[:2]}) == 2


@pytest.mark.parametrize(
    "taken", ["float[N,3,H,W] x", "float[?,3,H,W] x, int64[?] z", "float[batch,3,H,W] x, float[batch,4] z"]
)
def test_one_sample_where_that_is_asked_for(taken):
    source = model("y = Relu(x)", 17, inputs=taken, outputs="float y")
    found = drawn(source, single=True)
    assert {value.shape[0] for one in found for value in one.given.values()} == {1}
    assert shapes(found)[:2] == [(1, 3, 64, 96), (1, 3, 96, 64)]
    assert {shape[0] for shape in shapes(drawn(source, read_options(input_shape="x:4,3,8,8"), single=True))} == {4}


def test_one_sample_of_what_has_to_be_looked_for():
    """As many numbers as make 80 to a row: the batch stays one."""
    source = model(
        "y = Reshape(x, s)", 17, inputs="float[N,T] x", outputs="float y", constants="int64[3] s = {1, -1, 80}"
    )
    assert {shape[0] for shape in shapes(drawn(source, single=True))} == {1}


# --- integers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [5, 30, 1000])
def test_ids_spread_over_the_whole_table(rows):
    source = model("y = Gather(w, i)", 17, inputs="int64[batch,sequence] i", outputs="float y",
                   constants=f"float[{rows}] w = {{{', '.join(['0'] * rows)}}}")  # fmt: skip
    for one in drawn(source)[:2]:
        ids = one.given["i"]
        assert (ids.min(), ids.max()) == (0, rows - 1)
        assert len(np.unique(ids)) == min(rows, ids.size)
        assert np.histogram(ids, bins=4, range=(0, rows))[0].min() > 0, "each quarter of the table"


BERT = (
    "e = Gather(w, input_ids) t = Gather(k, token_type_ids) x = Add(e, t) "
    "f = Cast<to=1>({mask}) u = Unsqueeze(f, a) v = Sub(one, u) m = Mul(v, low) "
    "q = Transpose<perm=[0,2,1]>(x) s = MatMul(x, q) b = Add(s, m) p = Softmax(b) y = MatMul(p, x)"
)
TABLES = (
    "float[40,4] w = {"
    + ", ".join(f"{k % 7 - 3}.5" for k in range(160))
    + "}, float[2,4] k = {1, 2, 3, 4, 5, 6, 7, 8}, "
    "int64[1] a = {1}, float one = {1}, float low = {-3.4028235e38}"
)


@pytest.mark.parametrize(
    ("mask", "kind"), [("attention_mask", "int64"), ("x1", "int64"), ("x2", "int32"), ("m1", "float")]
)
def test_a_mask_is_drawn_as_one(mask, kind):
    """Also where nothing but what is done with it tells that it is one."""
    taken = f"int64[batch,sequence] input_ids, int64[batch,sequence] token_type_ids, {kind}[batch,sequence] {mask}"
    found = drawn(model(BERT.format(mask=mask), 17, inputs=taken, outputs="float y", constants=TABLES))
    for one in found:
        assert set(one.given[mask].ravel().tolist()) <= {0, 1}
        assert one.given[mask].any(axis=-1).all()
        assert set(one.given["token_type_ids"].ravel().tolist()) <= {0, 1}
        assert np.isfinite(one.outputs[0]).all()
    assert any((one.given[mask] == 0).any() for one in found)
    assert {one.given["input_ids"].max() for one in found[:2]} == {39}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("int64", "b = Cast<to=9>(x) y = Where(b, c, d)"),
        ("int32", "b = Equal(x, z) y = Where(b, c, d)"),
        ("int64", "u = Unsqueeze(x, a) e = Expand(u, t) b = Cast<to=9>(e) n = Not(b) y = Where(n, c, d)"),
    ],
)
def test_what_chooses_is_a_mask(kind, body):
    zero = f"{kind} z = {{0}}, float c = {{1}}, float d = {{2}}, int64[1] a = {{1}}, int64[3] t = {{1, 2, 1}}"
    found = drawn(model(body, 17, inputs=f"{kind}[batch,sequence] x", outputs="float y", constants=zero))
    assert {number for one in found for number in one.given["x"].ravel().tolist()} == {0, 1}


def test_truths_are_true_and_false_in_each_row():
    source = model("y = Where(x, c, d)", 17, inputs="bool[sequence,sequence] x", outputs="float y",
                   constants="float c = {1}, float d = {2}")  # fmt: skip
    for one in drawn(source)[:2]:
        assert one.given["x"].any(axis=-1).all()
        assert not one.given["x"].all()


def test_lengths_go_up_to_the_size_of_their_axis():
    body = "_, y = RNN<hidden_size=1>(x, w, r, , lens)"
    held = ones(w=(1, 1, 3), r=(1, 1, 1))
    found = drawn(model(body, 17, inputs="float[seq,batch,3] x, int32[batch] lens", outputs="float y", constants=held))
    assert all(one.given["lens"].min() >= 1 for one in found)
    assert all(one.given["lens"].max() == one.given["x"].shape[0] for one in found)
    assert any(one.given["lens"].min() < one.given["x"].shape[0] for one in found)


def test_lengths_are_known_by_their_name():
    source = model("c = Cast<to=1>(x_length) s = ReduceSum(x, a) y = Div(s, c)", 17,
                   inputs="float[batch,time] x, int64[batch] x_length", outputs="float y",
                   constants="int64[1] a = {1}")  # fmt: skip
    source.graph.node[1].attribute.add(name="keepdims", type=2, i=0)
    found = drawn(source)
    assert all(one.given["x_length"].max() == one.given["x"].shape[1] for one in found)
    assert all(one.given["x_length"].min() >= 1 for one in found)


# --- what comes out -----------------------------------------------------------------------------------------


def test_other_inputs_are_drawn_where_nothing_but_nan_comes_out():
    """All but small numbers make NaN of everything."""
    source = model("a = Abs(x) m = ReduceMax<keepdims=0>(a) b = Greater(m, t) y = Where(b, n, x)", 17,
                   inputs="float[4,8] x", outputs="float[4,8] y",
                   constants="float t = {6}, float n = {1}")  # fmt: skip
    source.graph.initializer[1].float_data[:] = [math.nan]
    assert all(np.isfinite(one.outputs[0]).all() for one in drawn(source))


def test_what_is_nan_for_all_inputs_is_told_as_it_is():
    source = model("n = Div(x, z) m = Sub(n, n) y = Add(m, n)", 17, inputs="float[4] x", outputs="float y",
                   constants="float z = {0}")  # fmt: skip
    assert all(np.isnan(one.outputs[0]).all() for one in drawn(source))


# --- two models ---------------------------------------------------------------------------------------------


def test_sizes_are_those_of_the_second_model_where_it_has_some():
    one = model("y = Relu(x)", 17, inputs="float[N,3,H,W] x, float[H] z", outputs="float y")
    other = model("y = Relu(x)", 17, inputs="float[N,3,40,W] x, float[M] z", outputs="float y")
    found = drawn(one, beside=other)
    assert {shape[2:3] for shape in shapes(found)} == {(40,)}
    assert set(shapes(found, "z")) == {(40,)}
    assert len({shape[3] for shape in shapes(found)[:2]}) == 2


def test_sizes_that_the_second_model_calls_alike_are_alike():
    one = model("y = Relu(x)", 17, inputs="float[N,A] x, float[B] z", outputs="float y")
    other = model("y = Relu(x)", 17, inputs="float[N,T] x, float[T] z", outputs="float y")
    found = drawn(one, beside=other)
    assert [shape[1:] for shape in shapes(found)] == shapes(found, "z")


def test_inputs_of_another_name_are_taken_by_their_place():
    one = model("y = Relu(x)", 17, inputs="float[N,A] x", outputs="float y")
    other = model("y = Relu(input)", 17, inputs="float[N,7] input", outputs="float y")
    assert {shape[1] for shape in shapes(drawn(one, beside=other))} == {7}


@pytest.mark.parametrize("taken", ["float[2,4] x", "float[2,3,1] x", "float[2,3] x, float[1] more"])
def test_sizes_that_contradict_each_other_are_told(taken):
    one = model("y = Relu(x)", 17, inputs="float[2,3] x", outputs="float y")
    other = model("y = Relu(x)", 17, inputs=taken, outputs="float y")
    with pytest.raises(EngineError, match="the second"):
        drawn(one, beside=other)
