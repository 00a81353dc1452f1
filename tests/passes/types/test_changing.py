"""What cannot be changed is refused, with what to do."""

import pickle
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from opshift.passes.records import replace
from opshift.passes.types import constants, staying
from opshift.passes.types.changing import change
from opshift.passes.types.reasons import BUDGET, MEASURED, RANGE, Reason
from opshift.passes.types.wanted import Range, Seen, types

from tests.support import model


def convolution(opset):
    source = model("y = Conv(x, w)", opset, inputs="float[1,3,4,4] x", outputs="float[1,2,2,2] y")
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 3, 3, 3), np.float32), "w"))
    return source


@pytest.mark.newest
def test_a_type_that_operators_take_from_a_later_opset_on():
    (refusal,) = change(convolution(17), types("bfloat16"), demanded=True).refusals
    assert "Conv accepts bfloat16 from opset 22 on" in refusal.found
    assert "--opset 22" in refusal.fix
    assert change(convolution(22), types("bfloat16"), demanded=True).model is not None


def weighted(body, **weights):
    source = model(body, 17, inputs="float[2,4] x", outputs="float[2,4] y", domains='"own" : 1')
    for name, held in weights.items():
        source.graph.initializer.append(onnx.numpy_helper.from_array(held, name))
    return source


def test_what_is_suggested_hangs_on_the_kinds_of_reasons_and_not_on_their_words():
    source = weighted(TWO, w=np.ones((4, 8), np.float32), v=np.ones((8, 4), np.float32))
    for kinds, fix in (
        ((BUDGET, MEASURED), "a larger --budget, or --inputs FILE.npz with real data, or --keep op:MatMul to change"),
        ((RANGE,), "--types bfloat16, or --keep op:MatMul to change"),
        ((), "--keep op:MatMul to change"),
    ):
        held = dict.fromkeys(("h", "y"), Reason("up to it, and beyond", *kinds))
        wanted = replace(types("float16"), held=held, seen=Seen())
        (refusal,) = change(source, wanted, demanded=True).refusals
        assert refusal.fix.startswith(fix)
        assert "up to it, and beyond" in refusal.found


def test_a_node_whose_outputs_move_too_far_stays_with_all_in_its_bodies():
    branches = ", ".join(
        f"{name}_branch = g () => (float[2,4] {name}r) {{ {name}h = MatMul(x, w) {name}r = Tanh({name}h) }}"
        for name in ("then", "else")
    )
    source = model(
        f"z = If(c) <{branches}> y = MatMul(z, v)", 17, inputs="float[2,4] x, bool c", outputs="float[2,4] y"
    )
    for name in ("w", "v"):
        source.graph.initializer.append(onnx.numpy_helper.from_array(SMALL, name))
    assert not change(source, types("float16")).types.kept
    held = change(source, replace(types("float16"), held={"z": Reason("it moves")}))
    assert {each.output for each in held.types.kept} == {"z", "thenh", "thenr", "elseh", "elser"}


def test_a_reason_of_a_run_reaches_another_process_with_its_kinds():
    sent = pickle.loads(pickle.dumps(Reason("it moves", BUDGET, opset=3, general="all move")))
    assert (sent, sent.kinds, sent.opset, sent.general) == ("it moves", {BUDGET}, 3, "all move")


LARGE, SMALL = np.full((4, 4), 1e6, np.float32), np.ones((4, 4), np.float32)
TWO = "h = MatMul(x, w) i = Tanh(h) y = MatMul(i, v)"


@pytest.mark.parametrize(
    ("body", "weights", "why", "fix"),
    [
        ("h = MatMul(x, w) y = Tanh(h)", {"w": LARGE}, "its constant 1e+06 is beyond the range", "--types bfloat16"),
        (
            TWO,
            {"w": np.full((4, 8), 1e6, np.float32), "v": np.ones((8, 2), np.float32)},
            "only 33%",
            "--keep op:MatMul",
        ),
        ("h = own.Wide(x, w) y = Tanh(h)", {"w": SMALL}, "it is unknown which types it takes", "--keep op:Wide"),
    ],
)
def test_too_few_weights_that_can_change_are_refused(body, weights, why, fix):
    (refusal,) = change(weighted(body, **weights), types("float16"), demanded=True).refusals
    assert why in refusal.found
    assert fix in refusal.fix


@pytest.mark.parametrize(
    ("body", "weights", "options"),
    [
        ("h = Exp(x) y = Add(h, e)", {"e": np.array(1e6, np.float32)}, {}),  # a single number is no weight
        (TWO, {"w": LARGE, "v": SMALL}, {}),  # half of them
        (TWO, {"w": LARGE, "v": np.ones((4, 2), np.float32)}, {"keep": "value:h"}),  # it is the user who keeps more
        (TWO, {"w": LARGE, "v": np.ones((4, 2), np.float32)}, {"only": "value:y"}),
    ],
)
def test_enough_weights_change(body, weights, options):
    source = weighted(body, **weights)
    made = change(source, types("float16", **options), demanded=True).model
    assert TensorProto.FLOAT16 in {attribute.i for node in made.graph.node for attribute in node.attribute}


def test_the_share_of_the_weights_leaves_out_integers_and_what_an_operator_takes_in_float32_alone():
    source = weighted(
        "h = MatMul(x, w) i = Add(h, b) j = MatMul(i, v) s = Reshape(j, l) r = Resize(s, , z) y = Reshape(r, t)",
        w=np.ones((4, 4), np.float32),
        b=np.ones((4,), np.float32),
        v=np.full((4, 4), 1e6, np.float32),
        z=np.ones((2,), np.float32),
        l=np.array([2, 4], np.int64),
        t=np.array([2, 4], np.int64),
    )
    result = change(source, types("float16"), demanded=True)
    assert result.types.share == pytest.approx(20 / 36)
    kept = change(source, types("float16", keep="op:Add"), demanded=True)
    assert kept.types.share == pytest.approx(16 / 36)


def test_small_constants_need_no_numpy(tmp_path):
    source = weighted("h = MatMul(x, w) i = Mul(h, two) y = Tanh(i)", w=SMALL, two=np.array(2, np.float32))
    onnx.save(source, tmp_path / "in.onnx")
    code = (
        "import sys; from opshift.cli.main import main; "
        "code = main(['convert', 'in.onnx', 'out.onnx', '--types', 'float16', '--no-verify']); "
        "assert 'numpy' not in sys.modules; sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    weights = {tensor.name: tensor for tensor in onnx.load(tmp_path / "out.onnx").graph.initializer}
    assert onnx.numpy_helper.to_array(weights["w"]).tolist() == np.ones((4, 4)).tolist()
    assert onnx.numpy_helper.to_array(weights["two"]).dtype == np.float16


def test_a_model_that_is_half_already_is_not_refused():
    body = "c = Cast<to=10>(x) h = MatMul(c, v) f = Cast<to=1>(h) y = MatMul(f, w)"
    source = weighted(body, v=np.ones((4, 8), np.float16), w=np.full((8, 4), 1e6, np.float32))
    made = change(source, types("float16"), demanded=True)
    assert [node.op_type for node in made.model.graph.node] == ["Cast", "MatMul", "Cast", "MatMul"]


def test_a_type_that_no_operator_has_at_an_opset():
    """The opset that is named is not one at which the same model is refused again."""
    source = weighted("h = MatMul(x, w) y = Tanh(h)", w=SMALL)
    source.opset_import[0].version = 12
    for given, opset in ((source, 13), (convolution(12), 22)):
        (refusal,) = change(given, types("bfloat16")).refusals
        assert refusal.why == f"opset 12 has no bfloat16; try --opset {opset}"


def test_graphs_for_training():
    source = convolution(17)
    source.training_info.add()
    assert "training" in change(source, types("float16")).refusals[0].why


def test_nothing_to_change_is_the_model_itself():
    source = model("y = Add(x, x)", 17, inputs="int64[2] x", outputs="int64[2] y")
    assert change(source, types("float16")).model is source


def test_a_weight_of_both_types_is_stored_wide_and_cast_and_a_small_constant_twice():
    source = model(
        "h = MatMul(x, w)\n m = own.Wide(w)\n z = Add(h, c)\n y = own.Wide(c)",
        17,
        inputs="float[2,64] x",
        outputs="float[2,64] z, float[64,64] m, float[64] y",
        domains='"own" : 1',
    )
    for name, shape in (("w", (64, 64)), ("c", (64,))):
        source.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(shape, np.float32), name))
    made = change(source, types("float16")).model
    held = {tensor.name: tensor.data_type for tensor in made.graph.initializer}
    assert held == {"w": TensorProto.FLOAT, "c": TensorProto.FLOAT, "c/float16": TensorProto.FLOAT16}
    assert [node.input[0] for node in made.graph.node if node.op_type == "Cast"] == ["x", "w", "z/float16"]


def test_casts_to_the_type_that_a_value_has_go_where_that_type_changes():
    """Exporters write them. One that is an output stays, and what stays wide keeps its own."""
    body = "h = MatMul(x, w) a = Cast<to=1>(h) b = Cast<to=1>(a) c = Relu(b) y = own.Wide(d) d = Cast<to=1>(k)"
    source = model(body, 17, inputs="float[2,64] x, float k", outputs="float[2,64] c, float y", domains='"own" : 1')
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    made = change(source, types("float16", "narrow")).model
    assert [node.op_type for node in made.graph.node if node.output[0] in ("a", "b", "c")] == ["Relu"]
    assert change(source, types("float16", keep="op:*")).model.graph.node[1].op_type == "Cast"


MULTIPLIED = "float f = {{{}}}", "y = Mul(h, f)"
NORMALIZED = "float[2] o = {{1, 1}}, float[2] f = {{1, {}}}", "y = BatchNormalization<epsilon=0.0001>(h, f, o, o, v)"


@pytest.mark.parametrize(
    ("weight", "bias", "scaling", "factor", "wide"),
    [
        (1, 1e-9, MULTIPLIED, 100, False),
        (1e-9, 1, MULTIPLIED, 2, False),
        (1e-9, 1, MULTIPLIED, 100, True),
        (1e-9, 1, NORMALIZED, 1, True),
        (1e-9, 1, NORMALIZED, 1e-6, False),
    ],
)
def test_a_channel_that_vanishes_counts_where_it_is_multiplied_and_made_large(weight, bias, scaling, factor, wide):
    constants, node = scaling
    source = model(
        f"h = Conv(x, w, b) {node}",
        17,
        inputs="float[1,3,4,4] x",
        outputs="float[1,2,2,2] y",
        constants=f"{constants.format(factor)}, float[2] v = {{1, 0}}",
    )
    for name, array in (("w", np.ones((2, 3, 3, 3))), ("b", np.ones(2))):
        array[1] *= weight if name == "w" else bias
        source.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    kept = change(source, types("float16")).types.kept
    assert any("channel" in each.why for each in kept) is wide


@pytest.mark.parametrize("shape", [(4,), (2, 2), (16, 16)])
def test_numbers_of_small_constants_are_those_of_large_ones(shape):
    """Small ones are read without numpy."""
    ends = [65519.996, 65504, 1e-8, 2.9802322e-08, 2.9802326e-08, 6.1e-05, -1e-40, 0.0, -0.0, np.inf, -np.inf, np.nan]
    for start in ends:
        array = np.resize(np.array([start, 0.1, -3, 2.0009766], np.float32), shape)
        held = onnx.numpy_helper.from_array(array, "w")
        made = constants.convert_constant(held, TensorProto.FLOAT16, None)
        assert made.raw_data == array.astype(np.float16).tobytes()
        found = constants.numbers(held, TensorProto.FLOAT16, None)
        size = np.abs(array[np.isfinite(array)])
        small = size[(size > 0) & (size < 2.0**-14)]
        assert (found.most, found.least) == (size.max(), small.min(initial=np.inf))
        assert found.lost == np.count_nonzero(small.astype(np.float16) == 0)


def test_names_and_metadata_of_the_model_survive():
    source = convolution(17)
    helper.set_model_props(source, {"author": "me"})
    made = change(source, types("float16")).model
    assert made.metadata_props[0].value == "me"
    assert [value.name for value in (*made.graph.input, *made.graph.output)] == ["x", "y"]


FOUND = {
    "the default of an input, which keeps its type": (
        *("float16", "narrow"),
        '<ir_version: 4, opset_import: ["": 8]> g (float[1] x, float[N] z) => (float[N] y) <float[1] x = {1}>'
        "{ y = Sub(x, z) }",
    ),
    "a Cast that spells its type": (
        *("float16", "keep"),
        '<ir_version: 3, opset_import: ["": 5]> g (int32[2, 2] x) => (float[2, 2] y) <float[2, 2] a>'
        '{ a = Cast<to = "FLOAT">(x) b = Sqrt(a) y = MatMul(b, b) }',
    ),
    "integers below opset 6": (
        *("int64=int32", "keep"),
        '<ir_version: 8, opset_import: ["": 2]> g (int64[1, 2] x) => (int64[1] y)'
        "{ y = ReduceMax<axes = [1], keepdims = 0>(x) }",
    ),
    "a Loop that does not take the type": (
        *("bfloat16", "narrow"),
        '<ir_version: 8, opset_import: ["": 13]> g (float[2, 2] x, int64 n) => (float[2, 2] y, float[M, 2, 2] z)'
        "{ y, z = Loop(n, , x) <body = b (int64 i, bool c, float[2, 2] v) => (bool d, float[2, 2] w, float[2, 2] s)"
        "{ d = Identity(c) w = MatMul(v, v) s = Add(w, v) }> }",
    ),
    "a text that is compared": (
        *("float16", "keep"),
        '<ir_version: 9, opset_import: ["": 19]> g (string[2] s, float[2, 2] x) => (bool[2] z, float[2, 2] y)'
        '<string[1] t = {"a"}> { z = Equal(s, t) y = MatMul(x, x) }',
    ),
    "an argument that a call leaves out": (
        *("float16", "narrow"),
        '<ir_version: 8, opset_import: ["": 13, "f": 1]> g (float[1, 1, 2] x, float[1, 1, 1] w) => (float[1, 1, 2] y)'
        '{ y = f.C(x, , w) } <opset_import: ["": 13], domain: "f"> C (x, b, w) => (y) { y = Conv(x, w, b) }',
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_random_models_found_stays_valid(name):
    asked, interface, text = FOUND[name]
    result = change(onnx.parser.parse_model(text), types(asked, interface))
    assert result.model is not None
    assert result.changes
    onnx.checker.check_model(result.model, full_check=True)
    assert not any("" in node.input for function in result.model.functions for node in function.node)


def test_a_weight_that_was_read_in_both_types_is_read_without_a_cast_again():
    source = model(TWO.replace("v)", "w)"), 17, inputs="float[2,64] x", outputs="float[2,64] y")
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    narrow = change(source, types("float16", keep=["value:h"])).model
    assert ["w"] in [list(node.input) for node in narrow.graph.node if node.op_type == "Cast"]
    back = change(narrow, types("float32")).model
    onnx.checker.check_model(back, full_check=True)
    assert [node.op_type for node in back.graph.node] == ["MatMul", "Tanh", "MatMul"]
    assert [node.input[1] for node in back.graph.node if node.op_type == "MatMul"] == ["w", "w"]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(("size", "kept"), [(64, False), (128, True)])
def test_sums_of_many_numbers_are_found_by_declared_sizes_or_by_inference(declared, size, kept, monkeypatch):
    body = "h = Relu(x) s = GlobalAveragePool(h) y = Tanh(s)"
    source = model(body, 17, inputs=f"float[1,3,{size},{size}] x", outputs="float[1,3,1,1] y")
    if declared:
        source.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, 3, size, size]))
        source.graph.value_info.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [1, 3, 1, 1]))
        monkeypatch.setattr(staying.scopes, "open_main_graph", None)  # which takes longer than all else
    found = change(source, types("float16"))
    assert (
        ("GlobalAveragePool", f"it adds up {size * size} numbers") in {(k.op, k.why) for k in found.types.kept}
    ) == kept


@pytest.mark.parametrize(("scale", "kept"), [(1e-6, True), (0.01, False)])
def test_a_scale_among_the_least_numbers_keeps_its_type(scale, kept):
    """1e-6 is 17 steps of 6e-8 in float16: the nearest is 1.3 % away."""
    body = "a = DequantizeLinear(q, s) y = MatMul(x, a)"
    source = weighted(body, q=np.ones((4, 4), np.int8), s=np.array(scale, np.float32))
    source.opset_import[0].version = 19
    found = change(source, types("float16"))
    held = {tensor.name: tensor.data_type for tensor in found.model.graph.initializer}
    assert (held.get("s") == TensorProto.FLOAT) == kept
    assert any(each.why == "its scale loses precision in float16" for each in found.types.kept) == kept


def test_where_an_image_is_sampled_stays_float32():
    body = "a = Relu(x) b = Tanh(g) y = GridSample(a, b)"
    source = model(body, 16, inputs="float[1,1,512,512] x, float[1,9,9,2] g", outputs="float[1,1,9,9] y")
    made = change(source, types("float16")).model
    sample = next(node for node in made.graph.node if node.op_type == "GridSample")
    half = {node.output[0] for node in made.graph.node if node.op_type == "Cast" and node.attribute[0].i == 10}
    assert sample.input[1] == "b"
    assert not half & {"g/float16", "b"}


@pytest.mark.parametrize(("most", "kept"), [(500.0, True), (10.0, False)])
def test_boxes_in_pixels_stay_float32(most, kept):
    body = "a = Relu(x) c = Abs(r) y = RoiAlign<output_height=2, output_width=2>(a, c, i)"
    source = model(body, 16, inputs="float[1,1,64,64] x, float[3,4] r, int64[3] i", outputs="float[3,1,2,2] y")
    seen = Seen({"r": Range(most), "c": Range(most)})
    found = change(source, replace(types("float16"), seen=seen))
    assert any(each.op == "RoiAlign" and "coordinates" in each.why for each in found.types.kept) == kept
