"""The proof of other element types: nothing but types may differ, and outputs may move no further than allowed."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from opshift.passes.goals import Goal, with_types
from opshift.passes.records import replace
from opshift.passes.types.door import Range, Seen, types

from opshift.cli.main import main
from opshift.jobs import measuring
from opshift.jobs.measuring import _combine, _Settling, deviation
from opshift.jobs.narrowing import narrow, verify
from opshift.verification import isolation
from opshift.verification.feeding.asked import DRAWN
from opshift.verification.side import Side
from opshift.verification.verify import verify_apart
from tests.exported import store
from tests.support import model
from tests.types import cases as _cases  # noqa: F401  adds them
from tests.types.case import CASES


def narrowed(source, kind="float16"):
    return narrow(
        with_types(Goal(), kind), source, lambda goal, allowance: goal.run(source, None, allowance), None, DRAWN
    )


def proved(source, result, held):
    def prove(after):
        return verify_apart(Side(source), after, grade="close", promise=True)

    return verify(Side(source), Side(result.model), result.types, held, prove, DRAWN)


@pytest.fixture
def source():
    found = model("h = MatMul(x, w)\n r = Relu(h)\n y = Add(r, b)", 17, inputs="float[2,3] x", outputs="float[2,4] y")
    for name, shape in (("w", (3, 4)), ("b", (4,))):
        array = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
        found.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return found


def test_nothing_but_types_differs(source):
    result, held = narrowed(source)
    assert proved(source, result, held).status == "equal"
    assert result.grade == "narrowed"


def test_another_operator_differs(source):
    result, held = narrowed(source)
    next(node for node in result.model.graph.node if node.op_type == "Relu").op_type = "Abs"
    assert proved(source, result, held).status == "different"


def test_a_constant_that_is_not_its_source_differs(source):
    result, held = narrowed(source)
    weight = next(tensor for tensor in result.model.graph.initializer if tensor.name == "w")
    array = onnx.numpy_helper.to_array(weight).copy()
    array[0, 0] *= 1.001
    weight.CopyFrom(onnx.numpy_helper.from_array(array, "w"))
    found = proved(source, result, held)
    assert (found.status, found.tensor) == ("different", "w")


def test_an_output_that_moves_too_far_differs(source):
    source.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.zeros(4, np.float32), "b"))
    result, held = narrow(
        with_types(Goal(), "float16", "narrow", budget="1e-9"),
        source,
        lambda goal, allowance: goal.run(source, None, allowance),
        None,
        DRAWN,
    )
    assert proved(source, result, held).status == "different"


def test_less_than_half_of_the_weights_is_refused(source):
    result, _ = narrow(
        with_types(Goal(), "float16", budget="1e-9"),
        source,
        lambda goal, allowance: goal.run(source, None, allowance),
        None,
        DRAWN,
    )
    assert result.model is None
    assert "a larger --budget" in result.refusals[0].why


def test_back_again_is_equal(source):
    result, _ = narrowed(source)
    back, held = narrowed(result.model, "float32")
    assert proved(result.model, back, held).status == "equal"
    assert not any(node.op_type == "Cast" for node in back.model.graph.node)


@pytest.mark.parametrize(
    ("expected", "actual", "error"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([3.0, 4.0], [3.0, 4.5], 0.1),
        ([0.0, 0.0], [0.0, 0.1], np.inf),
        ([1.0, np.inf], [1.0, np.inf], 0.0),
        ([1.0, 2.0], [1.0, np.inf], np.inf),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
    ],
)
def test_how_far_an_output_moved(expected, actual, error):
    found = deviation("y", np.array(expected), np.array(actual), 0.01)
    assert found.error == pytest.approx(error)
    assert found.holds is (error <= 0.01)


def test_of_integers_the_share_that_differs():
    assert deviation("y", np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5]), 0.01).error == 0.25


def test_each_run_counts_alike():
    loud, quiet, silent = (deviation("y", np.array([one]), np.array([one + 0.02]), 0.01) for one in (10.0, 2.0, 0.001))
    assert _combine([loud]).error == pytest.approx(0.002)
    assert _combine([loud, quiet]).error == pytest.approx(np.sqrt((0.002**2 + 0.01**2) / 2))
    assert _combine([loud, silent]).error == pytest.approx(np.sqrt((0.002**2 + 0.02**2) / 2)), "a tenth of the loud one"
    assert _combine([loud, quiet, silent]).largest == pytest.approx(0.02)
    nothing = deviation("y", np.zeros(1), np.zeros(1), 0.01)
    assert (_combine([nothing, nothing]).error, _combine([loud, nothing]).error) == (0, pytest.approx(0.002 / 2**0.5))
    assert _combine([nothing, deviation("y", np.zeros(1), np.ones(1), 0.01)]).error == np.inf


def test_a_detector_that_finds_nothing_becomes_narrow(source):
    source.graph.node[2].output[0] = "logits"
    source.graph.node.append(onnx.helper.make_node("Sigmoid", ["logits"], ["y"]))
    source.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.full(4, -18, np.float32), "b"))
    result, held = narrowed(source)
    assert not held.types.held
    assert result.types.share == 1.0
    assert deviation("y", np.array([0.1]), np.array([0.1 + 1e-6]), 0.01, 2**-22).error == pytest.approx(1e-5)


def test_options_from_the_shell(source, tmp_path, capsys):
    onnx.save(source, tmp_path / "in.onnx")
    command = ["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--types", "float16"]
    assert main([*command, "--keep", "op:Relu", "--budget", "y:0.02"]) == 0
    told = capsys.readouterr().out
    assert "keeps its type: 1 x Relu: --keep op:Relu" in told
    assert 'output "y" moves by' in told
    assert "allowed 0.02" in told
    assert "with the original types: equal: the same values" in told
    made = onnx.load(tmp_path / "out.onnx")
    assert {tensor.name: tensor.data_type for tensor in made.graph.initializer} == {
        "w": TensorProto.FLOAT16,
        "b": TensorProto.FLOAT16,
    }
    assert main([*command[:3], "--opset", "18", "--keep", "op:Relu"]) == 2
    assert "needs --types" in capsys.readouterr().err


def test_an_output_that_is_empty_is_not_called_close(tmp_path, capsys):
    body = "h = MatMul(x, w) r = ReduceMax<axes=[1], keepdims=0>(h) g = Greater(r, most) y = Compress<axis=0>(h, g)"
    source = model(body, 17, inputs="float[5,8] x", outputs="float[n,8] y", constants="float most = {10000}")
    weights = np.random.default_rng(5).standard_normal((8, 8)).astype(np.float32)
    source.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(source, tmp_path / "in.onnx")
    assert main(["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--types", "float16"]) == 0
    told = capsys.readouterr().out
    assert 'output "y" was empty or 0 in each run, so it was not measured; --inputs FILE.npz' in told
    assert "moves by" not in told


def test_a_run_that_takes_too_long_is_not_called_no_run(source, tmp_path, capsys, monkeypatch):
    onnx.save(source, tmp_path / "in.onnx")
    command = ["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--types", "float16"]

    def call(*_):
        raise isolation.Ended(isolation._LATE)

    monkeypatch.setattr(measuring, "isolation", SimpleNamespace(call=call, Ended=isolation.Ended))
    assert main([*command, "--keep", "op:Relu"]) == 0
    told = capsys.readouterr().out
    assert "ranges and outputs were not measured: it took more than 600 s" in told
    assert "no model ran" not in told
    assert main([*command, "--keep", "op:Relu", "--no-verify"]) == 0
    assert "ranges were not measured, as no model ran" in capsys.readouterr().out


def test_a_second_time_tells_no_share_of_what_is_left(source, tmp_path, capsys):
    onnx.save(source, tmp_path / "in.onnx")
    options = ["--types", "float16", "--keep", "op:Relu"]
    assert main(["convert", str(tmp_path / "in.onnx"), str(tmp_path / "one.onnx"), *options]) == 0
    assert "100% of the float weights" in capsys.readouterr().out
    assert main(["convert", str(tmp_path / "one.onnx"), str(tmp_path / "two.onnx"), *options]) == 0
    told = capsys.readouterr().out
    assert "the model is already as you asked" in told
    assert "keeps its type: 1 x Relu: --keep op:Relu" in told
    assert not any(words in told for words in ("of the float weights", "no model ran", "moves by"))


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("f = Cast<to=1>(mask) i = Sub(one, f) b = Mul(i, low)", "int64"),
        ("t = Not(mask) f = Cast<to=1>(t) b = Mul(f, low)", "bool"),
        ("f = Cast<to=1>(mask) b = Mul(f, low)", "bool"),  # true leaves out
        ("b = Where(mask, zero, low)", "bool"),
    ],
)
@pytest.mark.parametrize("by", [20.0, np.inf])  # which leaves too much, and which gives NaN
def test_rows_are_masked_wholly_partly_and_not_at_all(monkeypatch, made, kind, by):
    """A mask of -20 leaves out what a row of others holds, but is no -1e9 where nothing else is left."""
    weights = np.random.default_rng(5).standard_normal((5, 8)).astype(np.float32)
    body = f"{made} a = Add(s, b) p = Softmax(a) y = MatMul(p, w)"
    constants = "float one = {1}, float zero = {0}, float low = {-1000000000}"
    source = model(body, 17, inputs=f"float[1,5] s, {kind}[1,5] mask", outputs="float[1,8] y", constants=constants)
    source.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    right, _ = narrowed(source)
    assert right.types.replaced == {"low": 24576.0}
    assert right.types.masks == ("mask",)
    monkeypatch.setattr("opshift.passes.types.masks.replacement", lambda *_: by)
    wrong, _ = narrowed(source)
    assert wrong.types.replaced == {}


@pytest.mark.long
def test_parts_are_measured_where_outputs_move():
    """-10000 fits float16, but leaves no room for scores in a row that is masked wholly, which other runs do not show."""
    name = "tensorflow/encoder.dynamic/tf2onnx-17"
    source = next(export.model for export in store.read("tensorflow") if export.name == name)
    result, held = narrowed(source)
    assert [each.op for each in result.types.kept] == ["Add", "Softmax"]
    assert held.measured.holds


@pytest.mark.parametrize("interface", ["keep", "narrow"])
@pytest.mark.parametrize("wrong", [False, True])
def test_inputs_in_bfloat16_do_not_stand_in_the_way(interface, wrong):
    """Numpy has no bfloat16: both forms run in float32, with each value rounded."""
    source = model(
        "a = Mul(x, k) e = Exp(a) y = Add(e, a)",
        22,
        inputs="bfloat16[N,8] x",
        outputs="bfloat16[N,8] y",
        constants="bfloat16[1] k = {16000}",
    )
    goal = with_types(Goal(), "float32", interface)
    result, held = narrow(goal, source, lambda goal, allowance: goal.run(source, None, allowance), None, DRAWN)
    if wrong:
        next(node for node in result.model.graph.node if node.op_type == "Exp").op_type = "Abs"
    assert proved(source, result, held).status == ("different" if wrong else "equal")


@pytest.mark.parametrize(("k", "status"), [(20, "equal"), (160, "different")])
def test_back_from_bfloat16_its_rounding_is_allowed_to_go(k, status):
    """It is 0.019 where the angle is 20 x, and 0.147 where it is 160 x."""
    source = model(
        "a = Mul(x, k) b = Sin(a) c = Mul(b, j) y = Add(c, x)",
        22,
        inputs="bfloat16[8,64] x",
        outputs="bfloat16[8,64] y",
        constants=f"bfloat16[1] k = {{{np.float32(k).view(np.uint32) >> 16}}}, bfloat16[1] j = {{16256}}",
    )
    back, held = narrowed(source, "float32")
    found = proved(source, back, held)
    assert found.status == status
    assert [remark.startswith('output "y" moves by 0.0') for remark in found.remarks] == [True] * found.equal


def test_a_mask_keeps_its_number_where_scores_are_larger_than_they_were_seen():
    """A row that is masked wholly is uniform in float32; beside 24576, differences of scores beyond 8 are left."""
    side = Side(CASES["mask_added"].model)
    seen = Seen({"s": Range(1.0)})
    runs = [(given, side.open().run(given)) for given in CASES["mask_added"].feeds]
    assert max(np.abs(side.open(more=["s"]).run(given, ["s"])[0]).max() for given, _ in runs) > 8
    measured = _Settling(side, replace(types("float16"), seen=seen), runs).settle()
    assert measured.holds
    assert measured.types.seen.exact_masks
    assert not measured.types.held
    assert measured.runs == 2
