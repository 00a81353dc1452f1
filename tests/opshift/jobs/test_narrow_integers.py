"""Integers are narrowed from the command line, and proved."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from onnxruntime import InferenceSession

import opshift
from opshift.cli.main import main
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

T = TensorProto
BODY = "a = Add(x, one) b = Mod(a, five) y = Gather(t, b)"
CONSTANTS = "int64 one = {1}, int64 five = {5}, float[5] t = {0, 1, 2, 3, 4}"
SOURCE = model(BODY, 17, inputs="int64[N] x", outputs="float[N] y", constants=CONSTANTS)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(SOURCE, "in.onnx")
    return tmp_path


def test_it_is_told_what_was_assumed_and_how_it_was_proved(here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", "in.onnx", "out.onnx", "--types", "int64=int32"]) == 0
    told = capsys.readouterr().out
    assert "int32: 3 nodes; 0 casts between nodes, 1 at inputs and outputs" in told
    assert 'assumed: "x" lies within 2^20 of 0; --val-range tells otherwise' in told
    assert "grade: narrowed" in told
    assert "with the original types: equal: the same values" in told
    assert "2 kinds of nodes compute the same at the limits of their ranges" in told


def test_inputs_become_int32_where_that_is_asked_for(here: Path, capsys: pytest.CaptureFixture[str]):
    line = "convert in.onnx out.onnx --types int64=int32 --interface narrow --val-range x:[0,4] --format json"
    assert main(line.split()) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["types"]["assumed"] == ['"x" lies in [0.0, 4.0]']
    assert told["verification"]["status"] == "equal"
    assert onnx.load("out.onnx").graph.input[0].type.tensor_type.elem_type == T.INT32


def test_why_nothing_changes_is_told(here: Path, capsys: pytest.CaptureFixture[str]):
    onnx.save(model("y = Mul(x, x)", 17, inputs="int64[N] x", outputs="int64[N] y"), "in.onnx")
    assert main(["convert", "in.onnx", "out.onnx", "--types", "int64=int32"]) == 0
    assert 'keeps its type: 1 x Mul: "y" may be 1099511627776, which is beyond int32' in capsys.readouterr().out


def test_python_has_the_same_word(here: Path):
    result = opshift.convert_version(SOURCE, types="int64=int32", interface="narrow")
    assert result.graph.input[0].type.tensor_type.elem_type == T.INT32
    with pytest.raises(ValueError, match="the model has no input 'z'; it has 'x'"):
        opshift.convert_version(SOURCE, types="int64=int32", val_range={"z": (0, 4)})


CHAIN = """
    s = Shape(x) n = Gather(s, first) t = Concat<axis=0>(n, rest) r = Reshape(x, t)
    a = Add(k, k) y = Gather(r, a)
"""
SIZED = model(
    CHAIN,
    17,
    inputs="float[N, 2, 3] x, int64[1] k",
    outputs="float[A, 6] y",
    constants="int64[1] first = {0}, int64[1] rest = {-1}",
)


@pytest.mark.long
def test_a_target_that_reads_no_int64_gets_none_but_constants(here: Path, capsys: pytest.CaptureFixture[str]):
    onnx.save(SIZED, "in.onnx")
    assert main(["inspect", "in.onnx", "--target", "tensorrt-8.6"]) == 0
    assert "tensorrt-8.6 keeps int64 in int32; --types target makes that explicit" in capsys.readouterr().out
    line = ["convert", "in.onnx", "out.onnx", "--target", "tensorrt-8.6", "--types", "target"]
    assert main(line) == 3
    told = capsys.readouterr().out
    assert 'Reshape "r": "t" is a size that is computed; tensorrt-8.6 keeps int64 in int32; try --fix-shape' in told
    assert told.endswith("try --fix-shape x:?,2,3 with a number for each ?\n")
    assert main([*line, "--fix-shape", "N=4", "--val-range", "k:[0,1]"]) == 0
    made = onnx.load("out.onnx")
    assert [node.op_type for node in made.graph.node] == ["Cast", "Reshape", "Add", "Gather"]


def test_numbers_that_may_not_fit_are_refused_for_such_a_target():
    source = model("y = Mul(x, x)", 17, inputs="int64[2] x", outputs="int64[2] y")
    with pytest.raises(opshift.Refused, match=r"beyond int32; mnn-3\.6 keeps int64 in int32"):
        opshift.convert_version(source, "mnn", types="target")
    result = opshift.convert_version(source, "mnn", types="target", val_range="x:[0,9]")
    assert [node.op_type for node in result.graph.node] == ["Cast", "Mul", "Cast"]


@pytest.mark.parametrize("target", ["tensorrt-11", "onnxruntime", "tract"])
def test_a_target_that_reads_int64_changes_nothing(target: str):
    assert opshift.convert_version(SOURCE, target, types="target").graph.node == SOURCE.graph.node


def test_a_target_that_casts_more_needs_two_commands():
    source = model("y = Cast<to = 7>(x)", 17, inputs="double[2] x", outputs="int64[2] y")
    with pytest.raises(
        ValueError,
        match=r"two changes of types \(--types int64=int32 and --types float64=float32\); use one command for each",
    ):
        opshift.convert_version(source, "tensorrt-8.6", types="target")
    with pytest.raises(ValueError, match="--types target needs --target"):
        opshift.convert_version(source, types="target")


def test_types_that_the_target_lacks_become_wider():
    source = model("y = Abs(x)", 22, inputs="bfloat16[2] x", outputs="bfloat16[2] y")
    made = opshift.convert_version(source, "tract", types="target", interface="narrow")
    assert made.graph.output[0].type.tensor_type.elem_type == T.FLOAT


def test_sizes_that_are_given_bound_what_is_computed_of_them():
    body = "s = Size(x) a = Mul(s, k) y = Cast<to=1>(a)"
    source = model(body, 17, inputs="float[N, M] x, int64[1] k", outputs="float y")
    asked = {"types": "int64=int32", "val_range": "k:[0,100]"}
    free = opshift.convert_version(source, **asked)
    bounded = opshift.convert_version(source, input_shape={"N": 10, "M": 20}, **asked)
    assert [node.op_type for node in bounded.graph.node] == ["Cast", "Size", "Cast", "Mul", "Cast"]
    assert free.graph.node == source.graph.node


def test_inspect_says_what_would_become_narrow_and_what_stays(here: Path, capsys: pytest.CaptureFixture[str]):
    body = "s = Shape(x) r = Reshape(x, s) a = Add(r, tiny) b = Sqrt(a) c = MatMul(b, w) k = ArgMax(c) y = Add(k, k)"
    constants = "float tiny = {1e-12}, float[2, 2] w = {1, 2, 3, 4}"
    onnx.save(model(body, 17, inputs="float[N, 2] x", outputs="int64[1, 2] y", constants=constants), "in.onnx")
    assert main(["inspect", "in.onnx"]) == 0
    told = capsys.readouterr().out
    assert "nodes by type: float 6, int64 4" in told
    assert "int64: 4 nodes; 1 could have int32 (--types int64=int32)" in told
    assert "int64 stays: 3: the operator takes no other type" in told
    assert "float: 6 nodes; 3 could have float16 (--types float16)" in told
    assert "float stays: 2: 1e-12, which keeps it from 0, would become 0 in float16" in told
    assert main(["inspect", "in.onnx", "--format", "json"]) == 0
    held = json.loads(capsys.readouterr().out)["contents"]
    assert held["types"] == {"float": 6, "int64": 4}
    assert (held["float16"]["nodes"], held["float16"]["narrow"]) == (6, 3)


def test_sizes_may_be_fixed_at_once(here: Path):
    """The sizes that are to be fixed are none of the model that is measured."""
    onnx.save(model("y = Relu(x)", 17, inputs="float[N] x", outputs="float[N] y"), "in.onnx")
    assert main(["convert", "in.onnx", "out.onnx", "--types", "float16", "--fix-shape", "N=3"]) == 0
    onnx.save(SOURCE, "in.onnx")
    assert main(["convert", "in.onnx", "out.onnx", "--types", "int64=int32", "--fix-shape", "N=3"]) == 0


def test_constants_that_may_have_either_type_are_put_back(here: Path):
    """Gather takes indices of both types, whatever else it reads."""
    body = "s = Shape(x) n = Sub(s, k) g = Gather(x, n) h = Gather(x, n) y = Add(g, h)"
    source = model(body, 17, inputs="float[N] x", outputs="float[1] y", constants="int64[1] k = {1}")
    onnx.save(source, "in.onnx")
    line = ["convert", "in.onnx", "out.onnx", "--target", "tensorrt-8.6", "--types", "target", "--fix-shape", "N=3"]
    assert main(line) == 0
    assert {tensor.data_type for tensor in onnx.load("out.onnx").graph.initializer} == {T.INT32}


COMPARED = "{0} = Reshape(x, shape) {1} = Equal({0}, classes) {2} = Slice(f, starts, ends) {3} = Cast<to=1>({1})"
BRANCHED = (
    """
    y, p = If(c) <
        then_branch = g () => (float[2, 4, 3] w, float[d] r) { """
    + COMPARED.format("e", "h", "r", "w")
    + """ },
        else_branch = k () => (float[2, 4, 3] v, float[d] q) { """
    + COMPARED.format("o", "m", "q", "v")
    + """ }
    >
"""
)


@pytest.mark.parametrize("body", [COMPARED.format("e", "h", "p", "y"), BRANCHED], ids=["main", "branch"])
def test_comparisons_that_read_int32_already_keep_reading_it(here: Path, body: str):
    """Jax exports a table of bytes as Equal of int32: no output tells what type it reads."""
    given = "int64[3] shape = {-1, 4, 1}, int32[3] classes = {0, 1, 2}, int64[1] starts = {1}, int64[1] ends = {5}"
    inputs, outputs = "int32[2, 4] x, float[8] f, bool c", "float[2, 4, 3] y, float[d] p"
    onnx.save(model(body, 17, inputs=inputs, outputs=outputs, constants=given), "in.onnx")
    assert main(["convert", "in.onnx", "out.onnx", "--types", "int64=int32"]) == 0
    starts = [each for each in onnx.load("out.onnx").graph.initializer if each.name == "starts"]
    assert [each.data_type for each in starts] == [T.INT32]


BOXES = """
    r = NonMaxSuppression(b, s, n) c = Gather<axis=1>(r, last) m = Mul(c, k) y = Cast<to=1>(m)
"""
BOX_INPUTS = "float[1,2,4] b, float[1,50,2] s"


@pytest.mark.parametrize(
    ("body", "inputs", "constants"),
    [
        (
            "i = Slice(x, at0, at1, at1) e = Gather(t, i) v = Slice(x, at1, at2, at1) m = Mul(v, k) y = Cast<to=1>(m)",
            "int64[N,2] x",
            "int64[1] at0 = {0}, int64[1] at1 = {1}, int64[1] at2 = {2}, int64 k = {100000}, float[4] t = {0, 1, 2, 3}",
        ),
        *(
            (
                f'u = Mul(x, k) m = Scatter{kind}<reduction="{how}">(z, at, u) y = Cast<to=1>(m)',
                f"int64[3] x, int64[{size}] at",
                "int64 k = {1000}, int64[2] z = {1, 1}",
            )
            for kind, size in (("Elements", "3"), ("ND", "3,1"))
            for how in ("add", "mul")
        ),
        (BOXES, BOX_INPUTS, "int64 n = {2}, int64 last = {1}, int64 k = {100000000}"),
        (
            "u = Cast<to=2>(x) d = Sub(u, two) c = Cast<to=7>(d) m = Mul(c, k) y = Cast<to=1>(m)",
            "bool[N] x",
            "uint8 two = {2}, int64 k = {20000000}",
        ),
    ],
    ids=["other column", "scatter add", "scatter mul", "scatternd add", "scatternd mul", "classes of boxes", "uint8"],
)
def test_products_that_may_overflow_stay(body: str, inputs: str, constants: str):
    source = model(body, 18, inputs=inputs, outputs="float[K] y", constants=constants)
    result = opshift.convert_version(source, types="int64=int32", interface="keep")
    types = {v.name: v.type.tensor_type.elem_type for v in onnx.shape_inference.infer_shapes(result).graph.value_info}
    assert types["m"] == T.INT64


@pytest.mark.parametrize("types", ["int64=int32", "float16"])
def test_indices_of_boxes_are_int64(types: str):
    source = model(
        BOXES, 18, inputs=BOX_INPUTS, outputs="float[K] y", constants="int64 n = {2}, int64 last = {1}, int64 k = {3}"
    )
    result = opshift.convert_version(source, types=types, interface="keep")
    onnx.shape_inference.infer_shapes(result, check_type=True, strict_mode=True)
    InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])


def test_counts_of_scattered_ones_become_int32():
    source = model(
        'c = ScatterElements<reduction="add">(z, x, one) m = Mul(c, k) y = Cast<to=1>(m)',
        18,
        inputs="int64[3] x",
        outputs="float[2] y",
        constants="int64[2] z = {0, 0}, int64[3] one = {1, 1, 1}, int64 k = {1000}",
    )
    result = opshift.convert_version(source, types="int64=int32", interface="narrow")
    types = {v.name: v.type.tensor_type.elem_type for v in onnx.shape_inference.infer_shapes(result).graph.value_info}
    assert types["m"] == T.INT32


@pytest.mark.parametrize("types", ["int64=int32", "float16"])
def test_types_and_the_batch_change_at_once(here: Path, capsys: pytest.CaptureFixture[str], types: str):
    source = model(
        "o = Mul(x, k) a = Mul(z, w) y = HardSwish(a)",
        17,
        inputs="int64[1] x, float[1,4] z",
        outputs="int64[1] o, float[1,4] y",
        constants="int64 k = {2}, float[1] w = {2}",
    )
    onnx.save(source, "in.onnx")
    assert main(f"convert in.onnx out.onnx --rebatch 5 --types {types} --format json".split()) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["grade"], told["verification"]["status"]) == ("narrowed", "equal")
    assert [each.type.tensor_type.shape.dim[0].dim_value for each in onnx.load("out.onnx").graph.input] == [5, 5]
    if types == "int64=int32":
        assert "at the limits of their ranges" in str(told["verification"])
        assert "not compared" not in str(told["verification"])
