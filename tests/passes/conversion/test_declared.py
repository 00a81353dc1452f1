"""What a model declares wrongly is mended where a newer opset's inference finds out, and kept where it does not."""

import numpy as np
import onnx
import onnx.parser
import pytest
from opshift.passes.conversion.declared import _TELL_FROM

import opshift
from tests.support import evaluate, model

# the rank of a Reshape to sizes that are computed: inference tells it from opset 14 on
COMPUTED = "s = Shape(x) t = Concat<axis=0>(s, one) y = Reshape(x, t)"
IO = {"inputs": "float[N,M] x", "constants": "int64[1] one = {1}"}


def shapes(found):
    return {
        value.name: [dim.dim_param or dim.dim_value or "?" for dim in value.type.tensor_type.shape.dim]
        for value in (*found.graph.output, *found.graph.value_info)
    }


@pytest.mark.parametrize("target", [14, 17, 23])
def test_a_rank_that_a_newer_opset_finds_out_is_mended(target):
    source = model(COMPUTED, 13, outputs="float[1,K] y", **IO)
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, target)
    onnx.checker.check_model(made, full_check=True)
    assert len(shapes(made)["y"]) == 3
    assert shapes(source)["y"] == [1, "K"]


def test_what_is_declared_of_values_between_is_mended_too():
    source = model(COMPUTED.replace("y =", "z =") + " y = Size(z)", 13, outputs="int64 y", **IO)
    source.graph.value_info.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["A", "B"]))
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, 17)
    onnx.checker.check_model(made, full_check=True)
    assert len(shapes(made)["z"]) == 3


@pytest.mark.parametrize("target", [12, 13])
def test_it_is_kept_where_nobody_finds_out(target):
    source = model(COMPUTED, 13, outputs="float[1,K] y", **IO)
    assert shapes(opshift.convert_version(source, target))["y"] == [1, "K"]


def test_what_is_right_is_kept():
    source = model(COMPUTED, 13, outputs="float[A,B,1] y", **IO)
    assert shapes(opshift.convert_version(source, 17))["y"] == ["A", "B", 1]


def test_it_is_said():
    (change,) = opshift.plan(model(COMPUTED, 13, outputs="float[1,K] y", **IO), 14).changes
    assert "declared" in change.how
    assert "'y': declared [1, K]" in change.remark


def test_a_branch_is_mended():
    inner = COMPUTED.replace("y =", "b =")
    source = model(
        f"y = If(c) <then_branch = t () => (float[1,K] b) {{ {inner} }}, else_branch = e () => (float[A,B,C] d) "
        "{ d = Unsqueeze(x, one) }>",
        13,
        inputs="float[N,M] x, bool c",
        outputs="float[P,Q,R] y",
        constants="int64[1] one = {1}",
    )
    onnx.checker.check_model(source, full_check=True)
    onnx.checker.check_model(opshift.convert_version(source, 17), full_check=True)


@pytest.mark.parametrize(
    ("declared", "asked"),
    [("float[A,B,1] y", True), ("float[A,5] y", False), ("float y", True)],
)
def test_what_the_nodes_nearby_tell_is_not_inferred(declared, asked, monkeypatch):
    """Whether a wide inference looks for what it denies: not where a weight tells the sizes that are declared."""
    source = model(
        "s = Shape(x) r = Reshape(x, s) y = MatMul(r, w)",
        13,
        inputs="float[N,3] x, float[3,5] w",
        outputs=declared,
    )
    if declared == "float y":
        source.graph.output[0].type.tensor_type.shape.SetInParent()
    looked = []
    monkeypatch.setattr(
        "opshift.passes.analysis.inferring.strict_inference.contradiction", lambda *_: looked.append(1) or ""
    )
    opshift.convert_version(source, 17)
    assert bool(looked) == asked


def test_a_size_that_a_newer_opset_finds_out_is_mended_beside_others_that_are_told():
    source = model(
        COMPUTED + " z = MatMul(x, w) v = Concat<axis=0>(s, one) u = Reshape(x, v)",
        13,
        inputs="float[N,3] x, float[3,5] w",
        outputs="float[A,5] z, float[B,C,D] y, float[1,K] u",
        constants="int64[1] one = {1}",
    )
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, 17)
    onnx.checker.check_model(made, full_check=True)
    assert len(shapes(made)["u"]) == 3


def declared(value, dims):
    return onnx.helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, dims)


TRANSFORMED = "y = STFT(x, n)"  # inference tells the frames of none without a window
SIGNAL = {"inputs": "float[1,8,1] x", "constants": "int64 n = {8}"}


@pytest.mark.parametrize("place", ["output", "between", "behind", "branch", "scan"])
def test_ranks_that_what_takes_the_place_of_a_call_tells_are_mended(place):
    body, output = {
        "output": (TRANSFORMED, "float[A,B,C] y"),
        "between": (TRANSFORMED.replace("y =", "t =") + " y = Size(t)", "int64 y"),
        "behind": (TRANSFORMED.replace("y =", "t =") + " y = Neg(t)", "float[A,B,C] y"),
        "branch": (
            "y = If(c) <then_branch = t () => (float[A,B,C] u) { u = STFT(x, n) }, else_branch = e () => (float[D,E,F,G] v) "
            "{ v = Unsqueeze(x, one) }>",
            "float[H,I,J,K] y",
        ),
        "scan": (
            "y = Scan<num_scan_inputs = 1, body = b (float[1,8,1] i) => (float[A,B,C] o) { o = STFT(i, n) }>(u)",
            "float[P,Q,R,S] y",
        ),
    }[place]
    io = {"branch": {"inputs": "float[1,8,1] x, bool c", "constants": "int64 n = {8}, int64[1] one = {0}"}}
    io["scan"] = {"inputs": "float[3,1,8,1] u", "constants": "int64 n = {8}"}
    source = model(body, 17, outputs=output, **io.get(place, SIGNAL))
    if place == "between":
        source.graph.value_info.append(declared("t", ["A", "B", "C"]))
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, 16)
    onnx.checker.check_model(made, full_check=True)
    if place in ("output", "behind"):
        assert len(shapes(made)["y"]) == 4


def test_sizes_that_what_takes_the_place_of_a_vendors_call_tells_are_mended():
    source = model(
        "y = com.microsoft.FusedMatMul(a, b)",
        17,
        inputs="float[2,3] a, float[3,5] b",
        outputs="float[2,7] y",
        domains='"com.microsoft" : 1',
    )
    onnx.checker.check_model(source, full_check=True)
    made = opshift.inline(source, ["com.microsoft::FusedMatMul"])
    onnx.checker.check_model(made, full_check=True)
    assert shapes(made)["y"] == [2, 5]


@pytest.mark.parametrize(("body", "opset", "target", "inputs", "declared", "rank"), [
    ("y = MelWeightMatrix(a, a, a, f, f)", 17, 8, "int64 a, float f", "A", 2),
    ("y = Compress<axis=1>(x, c)", 9, 8, "float[2,3] x, bool[N] c", "A", 2),
    ("y = ReduceMax(x, a)", 18, 17, "float[2,2] x, int64[1] a", "A,B,C", 2),
    ("y, z = TopK(x, k)", 10, 9, "float[2,4] x, int64[1] k", "7,7", 2),
    ("y = HannWindow(n)", 17, 16, "int64 n", "A,B", 1),
])  # fmt: skip
def test_what_numbers_that_are_computed_hide_is_mended(body, opset, target, inputs, declared, rank):
    source = model(body, opset, inputs=inputs, outputs=f"float[{declared}] y")
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, target)
    onnx.checker.check_model(made, full_check=True)
    assert len(shapes(made)["y"]) == rank
    assert any("declared" in change.how for change in opshift.plan(source, target).changes)


def test_nothing_is_inferred_where_functions_alone_are_inlined(monkeypatch):
    source = model("y = own.F(x)", 17, inputs="float[2] x", outputs="float[A] y", domains='"own" : 1')
    source.functions.append(
        onnx.parser.parse_function('<opset_import: ["" : 17], domain: "own"> F (x) => (y) { y = Neg(x) }')
    )
    monkeypatch.setattr(
        "opshift.passes.analysis.inferring.strict_inference.contradiction", lambda *_: pytest.fail("it was looked for")
    )
    opshift.inline(source, ["own::F"])


def test_what_is_right_of_a_call_that_is_replaced_is_kept():
    source = model(TRANSFORMED, 17, outputs="float[1,A,5,2] y", **SIGNAL)
    assert shapes(opshift.convert_version(source, 16))["y"] == [1, "A", 5, 2]


def test_what_a_branch_yields_is_left_open_where_nothing_tells_that_it_is_so():
    """By a size that is false, onnxruntime made room in the branch."""
    source = model(
        "y = If(c) <then_branch = t () => (float[7,7] a) { a = Slice(x, s, e) }, else_branch = e () => (float[P,Q] b) { b = Slice(x, e, s) }>",
        10, inputs="float[N,M] x, int64[2] s, int64[2] e, bool c", outputs="float[A,B] y",
    )  # fmt: skip
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, 9)
    then, other = (a.g.output[0].type.tensor_type.shape.dim for a in made.graph.node[-1].attribute)
    assert [dim.HasField("dim_value") for dim in (*then, *other)] == [False] * 4
    feeds = {"x": np.ones((2, 3), np.float32), "s": np.zeros(2, int), "e": np.array([2, 1]), "c": np.array(True)}
    assert evaluate(made, feeds)[0].shape == (2, 1)
    kept = opshift.convert_version(source, 11)
    assert kept.graph.node[-1].attribute[0].g.output[0] == source.graph.node[-1].attribute[0].g.output[0]


def test_operators_of_which_inference_tells_nothing_at_first_are_all_in_the_table():
    found = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found.setdefault(schema.name, {})[schema.since_version] = schema.has_type_and_shape_inference_function
    silent = {name: [since for since, tells in held.items() if not tells] for name, held in found.items()}
    telling = {name: [since for since, tells in held.items() if tells] for name, held in found.items()}
    bodies = {"GreaterOrEqual", "LessOrEqual"}  # inference looks into these
    first = {
        name: min(since for since in telling[name] if since > min(held))
        for name, held in silent.items()
        if held and telling[name] and max(telling[name]) > min(held) and name not in bodies
    }
    assert first.items() - _TELL_FROM.items() == {("GRU", 3)}, "which tells of shapes from 7 on, as LSTM and RNN do"


@pytest.mark.parametrize(
    ("body", "inputs", "rank"),
    [
        ("y = Add<axis=0, broadcast=1>(x, z)", "float[5,2] x, float[5] z", 2),
        ("r = Concat<axis=0>(x, z) y = Abs(r)", "float[5,2] x, float[1,2] z", 2),
        ("y = Gemm(x, z, z)", "float[2,2] x, float[2,2] z", 2),
        ("r = Relu(x) y = Mul(r, z)", "float[5,2] x, float[5,2] z", 2),
        ("y = If(c) <then_branch = t () => (float[2] a) { a = Exp(x) }, else_branch = e () => (float[2] b) { b = Exp(z) }>",
         "bool c, float[5,2] x, float[5,2] z", 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", [8, 13])
def test_what_inference_tells_nothing_of_below_6_is_mended_above(body, inputs, rank, target):
    source = model(body, 5, inputs=inputs, outputs="float[2] y")
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, target)
    onnx.checker.check_model(made, full_check=True)
    assert len(shapes(made)["y"]) == rank


def test_what_inference_tells_nothing_of_is_kept():
    source = model("y = Add(x, z)", 4, inputs="float[5,2] x, float[5,2] z", outputs="float[2] y")
    assert shapes(opshift.convert_version(source, 5))["y"] == [2]


def test_what_is_right_of_what_inference_told_nothing_of_is_kept():
    source = model("y = Add(x, z)", 5, inputs="float[5,2] x, float[5,2] z", outputs="float[A,B] y")
    assert shapes(opshift.convert_version(source, 13))["y"] == ["A", "B"]


ATTENDED = "float[2,2,3,4] q, float[2,2,K,4] k, float[2,2,K,5] v"
PAST = {"q": (2, 2, 3, 4), "k": (2, 2, 4, 4), "v": (2, 2, 4, 5), "p": (2, 2, 2, 4), "r": (2, 2, 2, 5)}


@pytest.mark.parametrize(
    ("inputs", "call", "told", "keys"),
    [
        (ATTENDED, 'y, "", "", z = Attention(q, k, v)', 0, 4),
        (ATTENDED.replace("K", "4") + ", float[2,2,2,4] p, float[2,2,2,5] r", 'y, "", "", z = Attention(q, k, v, "", p, r)', 4, 6),
    ],
)  # fmt: skip
def test_keys_of_attention_that_inference_miscounts_are_mended(inputs, call, told, keys):
    source = model(call, 23, inputs=inputs, outputs=f"float[2,2,3,5] y, float[2,2,3,{told}] z")
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, 22)
    onnx.checker.check_model(made, full_check=True)
    assert shapes(made)["z"][:3] == [2, 2, 3]
    assert shapes(made)["z"][3] != told
    feeds = {value.name: np.ones(PAST[value.name], np.float32) for value in source.graph.input}
    assert evaluate(made, feeds)[1].shape == (2, 2, 3, keys)


@pytest.mark.parametrize("target", [7, 10])
def test_what_inference_makes_of_a_resize_that_crops_is_mended(target):
    body = 'y = Resize<coordinate_transformation_mode="tf_crop_and_resize", mode="linear">(x, r, s)'
    held = "float[6] r = {0, 0, -0.2, 1, 1, 1.2}, float[3] s = {1, 1, 0.6}"
    source = model(body, 13, inputs="float[2,1,5] x", outputs="float[2,1,3] y", constants=held)
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, target)
    onnx.checker.check_model(made, full_check=True)
    assert shapes(made)["y"] == [2, 1, 4]  # floor(5 * (1.2 - -0.2) * 0.6), as the text has it
    (y,) = evaluate(made, {"x": np.ones((2, 1, 5), np.float32)})
    assert y.shape == (2, 1, 4)


def test_the_sizes_of_a_resize_of_all_are_kept():
    held = "float[0] r = {}, float[3] s = {1, 1, 0.6}"
    source = model('y = Resize<mode="linear">(x, r, s)', 13, inputs="float[2,1,5] x", outputs="float[2,1,K] y", constants=held)  # fmt: skip
    assert shapes(opshift.convert_version(source, 10))["y"] == [2, 1, "K"]


@pytest.mark.parametrize("verb", ["convert", "inline"])
def test_what_contradicts_and_nothing_tells_of_is_left_open(verb):
    """How many keys there are only the mask tells, which is added to scores of which a model declares otherwise."""
    inputs = "float[B,H,S,4] q, float[2,3,K,4] k, float[B,C,K,D] v, float[S,2] m"
    source = model(
        'y, "", "", z = Attention(q, k, v, m)', 23, inputs=inputs, outputs="float[B,H,S,D] y, float[B,H,S,0] z"
    )
    onnx.checker.check_model(source, full_check=True)
    made = opshift.convert_version(source, 22) if verb == "convert" else opshift.inline(source, ["Attention"])
    onnx.checker.check_model(made, full_check=True)
    assert shapes(made) == {"y": ["B", "H", "S", "D"], "z": ["B", "H", "S", "?"]}
    sizes = {"q": (2, 6, 1, 4), "k": (2, 3, 2, 4), "v": (2, 3, 2, 5), "m": (1, 2)}
    assert evaluate(made, {name: np.ones(size, np.float32) for name, size in sizes.items()})[1].shape == (2, 6, 1, 2)
