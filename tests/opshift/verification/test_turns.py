"""Of large models one form at a time is in memory, and the verdict is the same."""

import weakref

import numpy as np
import pytest

from opshift.verification import engines, side
from opshift.verification.engines import OnnxRuntime
from opshift.verification.side import Side
from opshift.verification.turns import Turns
from opshift.verification.verify import verify_sides
from tests.support import model

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y", "constants": "float[3] w = {0.5, 2, -1}"}
ONE = model("a = Mul(x, w) b = Sin(a) y = Add(b, x)", 17, **IO)


@pytest.fixture
def together(monkeypatch):
    """How many models with weights were open at once."""
    alive, counts, init = weakref.WeakSet(), [], OnnxRuntime.__init__

    def opened(self, held, *arguments, **named):
        init(self, held, *arguments, **named)
        if held.graph.initializer:
            alive.add(self)
            counts.append(len(alive))

    monkeypatch.setattr(OnnxRuntime, "__init__", opened)
    return counts


@pytest.mark.parametrize(
    ("body", "opset", "grade", "status"),
    [
        ("a = Mul(x, w) b = Sin(a) y = Add(b, x)", 13, "exact", "equal"),
        ("a = Mul(w, x) c = Sin(a) y = Add(x, c)", 17, "close", "equal"),
        ("a = Mul(x, w) b = Cos(a) y = Add(b, x)", 17, "exact", "different"),
        ("t = Mul(w, w) u = Mul(x, t) a = Div(u, w) b = Sin(a) y = Add(b, x)", 17, "close", "equal"),
        ("a = Mul(x, w) b = Sin(a) c = Abs(b) d = Sign(b) e = Mul(c, d) y = Add(e, x)", 17, "exact", "equal"),
        (
            "a = Mul(x, w) b = Sin(a) s = Shape(x) t = Slice(s, k, l) y0 = Add(b, x) y = Reshape(y0, t)",
            17,
            "exact",
            "different",
        ),
    ],
)
def test_one_form_at_a_time(monkeypatch, together, body, opset, grade, status):
    io = {**IO, "constants": IO["constants"] + ", int64[1] k = {0}, int64[1] l = {1}"}
    other = model(body, opset, **io)
    small = verify_sides(Side(ONE), Side(other), grade=grade)
    assert max(together) > 1
    together.clear()
    for room in (engines, side):
        monkeypatch.setattr(room, "LARGE", 0)
    large = verify_sides(Side(ONE), Side(other), grade=grade)
    assert max(together) == 1
    assert (large.status, large.runs, large.tensor, large.why) == (small.status, small.runs, small.tensor, small.why)
    assert (large.status, large.outputs) == (status, small.outputs)


@pytest.mark.usefixtures("loads_to_26")
def test_what_only_the_reference_loads_is_large_too(monkeypatch):
    monkeypatch.setattr(side, "LARGE", 0)
    found = verify_sides(Side(ONE), Side(model("a = Mul(x, w) b = Sin(a) y = Add(b, x)", 28, **IO)))
    assert (found.status, found.engine) == ("equal", "onnxruntime and onnx.reference")


def test_special_numbers_are_tried_and_an_engine_asked_for_its_opinion_of_a_part(monkeypatch, together):
    """x * 0 is not 0 where x is infinite."""
    io = {
        "inputs": "float[N,3] x",
        "outputs": "float[N,3] y",
        "constants": "float[3] w = {0, 0, 0}, float[3] v = {1, 2, 3}",
    }
    before, after = (
        model(body, 17, **io)
        for body in ("u = Add(x, v) a = Mul(u, w) y = Neg(a)", "u = Add(x, v) s = Shape(u) a = Expand(w, s) y = Neg(a)")
    )
    for room in (engines, side):
        monkeypatch.setattr(room, "LARGE", 0)
    found = verify_sides(Side(before), Side(after))
    assert (found.status, found.tensor) == ("different", "y")
    assert found.why.startswith("with infinities, ")
    assert max(together) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_in_a_file_are_widened_block_by_block(tmp_path, monkeypatch, dtype):
    import onnx

    from opshift.files import model_file
    from opshift.verification.twins import values
    from opshift.verification.twins.twin import Twin

    monkeypatch.setattr(values, "_BLOCK", 5)
    weight = np.linspace(-3, 3, 21).astype(dtype).reshape(7, 3)
    held = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]>\ng (int64[2] i) => (y, z) { y = Gather(w, i) z = Neg(w) }'
    )
    held.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(held, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
    read = model_file.read(tmp_path / "m.onnx")
    rows, all_of_it = Twin(read, str(tmp_path)).run({"i": np.array([6, 2])})
    assert rows.dtype == all_of_it.dtype == np.float64
    np.testing.assert_array_equal(rows, weight[[6, 2]].astype(np.float64))
    np.testing.assert_array_equal(all_of_it, -weight.astype(np.float64))


def test_small_forms_are_opened_at_once_and_large_ones_in_their_turn():
    broken = model("y = my.Thing(x)", 17, inputs="float[3] x", outputs="float[3] y", domains='"my" : 1')
    one, other = Side(ONE), Side(broken)
    with pytest.raises(engines.EngineError, match="onnxruntime: "):
        Turns(one, other).open()
    turns = Turns(one, other)
    turns.alone = True
    turns.open()
    held = turns.session(0)
    assert turns.session(0) is held
    turns.rest()
    assert turns.session(0) is not held
    turns.alone = False
    held = turns.session(0)
    turns.rest()
    assert turns.session(0) is held


def test_what_is_watched_is_known_by_the_outputs_beside_it():
    shown = model("a = Mul(x, w) b = Sin(a) y = Add(b, x)", 17, **IO)
    turns = Turns(Side(ONE), Side(ONE), Side(shown), ["a", "b"])
    given = {"x": np.ones((1, 3), np.float32)}
    nothing = {"x": np.zeros((1, 3), np.float32)}
    first, second = turns.first(given), turns.first(nothing)
    assert [len(first), len(second)] == [1, 1]
    assert turns.seen(first, nothing)[0].tolist() == [[0.5, 2, -1]]
    assert turns.seen(second, given)[0].tolist() == [[0, 0, 0]]
    assert turns.seen([], given)[0].tolist() == [[0.5, 2, -1]], "what another process has seen is run once more"
    more = Turns(Side(ONE), Side(ONE), Side(shown), ["a"], (["b", "y"], []))
    assert [value.tolist() for value in more.first(given)] == [first[0].tolist()], "what may be asked for is not told"
    assert [value.tolist() for value in more.seen([], given)] == [[[0.5, 2, -1]]]
    held = more.session(0)
    assert more.values(0, ["y", "b"], nothing)["b"].tolist() == [[0, 0, 0]]
    assert more.values(0, ["a"], given)["a"].tolist() == [[0.5, 2, -1]], "what was not foreseen is run once more"
    assert more.session(0) is held
    assert more.values(1, [], given) == {}
    lost = Turns(Side(ONE), Side(ONE), Side(shown), ["a"], (["nothing"], []))
    assert lost.seen(lost.first(given), given)[0].tolist() == [[0.5, 2, -1]], "what nobody has takes nothing else away"
    plain = Turns(Side(ONE), Side(ONE), Side(shown), ["nothing"])
    assert plain.first(given)[0].tolist() == first[0].tolist()
    assert plain.seen(first, given) == []
