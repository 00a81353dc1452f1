"""What dynamic dimensions are taken for, and the sizes that two models take."""

import pytest
from opshift.passes.inputs.interface import required_inputs

from opshift.verification.engines import EngineError
from opshift.verification.feeding import inputs
from opshift.verification.feeding.asked import DRAWN
from opshift.verification.feeding.sizes import TYPICAL, unite
from opshift.verification.side import Side
from tests.support import model


def plan(taken, body="y = Relu(x)", constants=""):
    source = model(body, 17, inputs=taken, outputs="float y", constants=constants)
    return inputs._plan(Side(source), inputs.problem_of(source, DRAWN))


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ("float[batch,3,height,width] x", "batch height width"),
        ("float[N,3,H,W] x", "batch height width"),
        ("float[B,C,T] x", "batch sequence sequence"),
        ("float[unk_0,3,unk_1,unk_2] x", "batch height width"),
        ("float[unk_0,3,48,unk_1] x", "batch width"),
        ("float[unk_0,unk_1,unk_2,3] x", "batch height width"),
        ("float[unk_0,16,unk_1,unk_2] x", "batch height width"),
        ("float[unk_0,12,unk_1,64] x", "batch sequence"),
        ("float[unk_0,3,unk_1,unk_2,unk_3] x", "batch sequence height width"),
        ("int64[unk_0,3,unk_1,unk_2] x", "batch sequence sequence"),
        ("float[3,unk_0,unk_1] x", "height width"),
        ("float[80,unk_0,unk_1] x", "sequence sequence"),
        ("float[1,unk_0,80] x", "sequence"),
        ("float[s0,s1] x", "batch sequence"),
        ("float[unk_0] x", "sequence"),
        ("float[unk_0] x, float[unk_1,2] z", "batch batch"),
        ("float[2,unk_0,128] x, float[unk_1,unk_2] z", "batch batch sequence"),
        ("float[seq_len,batch_size,8] x", "sequence batch"),
        ("float[batch,12,past_sequence_length,64] x", "batch past"),
        ("float[batch,num_boxes,4] x", "batch count"),
        ("float[1,n,4] x, float[1,80,n] z", "sequence"),
        ("float[seq,n,8] x, float[1,n,8] h", "sequence batch"),
        ("float[total_length] x", "sequence"),
        ("float[past_length] x, float[total_length] z", "past total"),
        ("float[num_frames] x", "sequence"),
        ("string[unk_0,unk_1] x", "batch sequence"),
    ],
)
def test_what_dimensions_are(taken, expected):
    assert " ".join(plan(taken).roles.values()) == expected


def test_what_is_past_and_what_comes_add_up():
    past, sequence, total = (TYPICAL[role] for role in ("past", "sequence", "total"))
    assert total == tuple(a + b for a, b in zip(past, sequence, strict=True))


def test_sizes_that_follow_from_others_are_left_to_these():
    source = model("y = Relu(x)", 17, inputs="float[P,T] x, float[N,S] m", outputs="float y")
    source.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "P + T"
    made = inputs._plan(Side(source), inputs.problem_of(source, DRAWN))
    assert list(made.roles) == ["P", "T", "N"]


def test_a_run_has_other_sizes_than_the_one_before():
    made = plan("float[batch,3,height,width] x")
    first, second, third = (next(made.sizes(number)) for number in range(3))
    assert list(first.values()) == [1, 64, 96]
    assert list(second.values()) == [2, 96, 64]
    assert list(third.values()) == [3, 37, 53]
    assert all(len(set(sizes[:3])) == 3 for sizes in TYPICAL.values())


def test_what_has_another_name_has_another_size_in_the_second_run():
    made = plan("float[batch,source,8] x, float[batch,target_seq,8] z, float[batch,memory_len,8] u")
    assert set(made.roles.values()) == {"batch", "sequence"}
    assert list(next(made.sizes(0)).values()) == [1, 16, 16, 16]
    assert list(next(made.sizes(1)).values()) == [2, 24, 32, 40]
    assert list(list(made.sizes(1))[1].values()) == [2, 24, 24, 24], "or the same, where it has to be"


def test_what_is_larger_differs_from_the_second_run():
    made = plan("float[N,1,H,W] x", "y = MaxPool<kernel_shape=[96,1]>(x)")
    assert [tuple(next(made.sizes(number)).values())[1:] for number in range(2)] == [(128, 192), (96, 64)]


def test_windows_that_want_too_much_are_left_aside():
    body = "a = MaxPool<kernel_shape=[150,150]>(x) b = MaxPool<kernel_shape=[9999,9999]>(x) y = Sum(a, b)"
    assert tuple(next(plan("float[N,1,H,W] x", body).sizes(0)).values())[1:] == (192, 288)


def test_large_models_are_run_on_smaller_images(monkeypatch):
    monkeypatch.setattr(Side, "is_large", True)
    made = plan("float[N,1,H,W] x", "y = MaxPool<kernel_shape=[40,40]>(x)")
    assert [tuple(next(made.sizes(number)).values()) for number in range(2)] == [(1, 32, 48), (2, 48, 32)]


# --- two models ---------------------------------------------------------------------------------------------


def shapes(one, other):
    taken, others = (required_inputs(model("y = Relu(x)", 17, inputs=text, outputs="float y")) for text in (one, other))
    return [
        [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in kind.tensor_type.shape.dim]
        for kind in unite(taken, others).values()
    ]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("float[N,3] x", "float[M,3] x", [["N", 3]]),
        ("float[N,3] x", "float[7,M] x", [[7, 3]]),
        ("float[N,M] x", "float[K,K] x", [["N", "N"]]),
        ("float[N,M] x", "float[?,?] x", [["N", "M"]]),
        ("float[?,?] x", "float[K,K] x", [["", "x\n0"]]),
        ("float[?,N] x", "float[K,K] x", [["N", "N"]]),
        ("float[N] x, float[N] z", "float[4] x, float[K] z", [[4], [4]]),
        ("float[N] x, float[M] z", "float[K] x, float[K] z", [["N"], ["N"]]),
        ("float[N] x, float[M] z, float[M] u", "float[K] x, float[K] z, float[5] u", [[5], [5], [5]]),
        ("float[N] x, float[M] z", "float[4] a, float[5] b", [[4], [5]]),
        ("float[N] x, float[M] z", "float[4] a, float[5] x", [[5], [4]]),
    ],
)
def test_sizes_that_both_take(one, other, expected):
    assert [[("" if dim in ("?", "") else dim) for dim in dims] for dims in shapes(one, other)] == expected


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("float[N,3] x", "float[N,4] x", 'axis 1 of input "x" has size 3, in the second model 4'),
        ("float[N,N] x", "float[3,4] x", 'axis 1 of input "x" has size 3, in the second model 4'),
        ("float[N,3] x", "float[N] x", 'input "x" has 2 dimensions, in the second model 1'),
        ("float[N] x", "float[N] x, float[N] z", "the first model has 1 inputs, the second 2"),
    ],
)
def test_sizes_that_contradict_each_other(one, other, why):
    with pytest.raises(EngineError) as told:
        shapes(one, other)
    assert str(told.value) == why
