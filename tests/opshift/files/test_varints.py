"""Numbers of varying length that a message has no room for are verified all the same; texts are not, and that is said."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import TensorProto as T

from opshift.cli import main as cli
from opshift.files import external, model_file, varints
from opshift.jobs import exit_codes
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

COUNT = 1000
KINDS = [
    (T.INT64, "int64_data", [-(2**63), -1, 0, 1, 127, 128, 2**63 - 1]),
    (T.INT32, "int32_data", [-(2**31), -1, 0, 1, 127, 128, 2**31 - 1]),
    (T.INT16, "int32_data", [-32768, -1, 0, 32767]),
    (T.INT8, "int32_data", [-128, -1, 0, 127]),
    (T.UINT8, "int32_data", [0, 255, 128]),
    (T.BOOL, "int32_data", [0, 1, 1]),
    (T.FLOAT16, "int32_data", [0, 0x3C00, 0xBC00, 0xFC00]),
    (T.BFLOAT16, "int32_data", [0, 0x3F80, 0xBF80]),
    (T.UINT32, "uint64_data", [0, 2**32 - 1, 300]),
    (T.UINT64, "uint64_data", [0, 2**64 - 1, 300]),
    (T.FLOAT, "float_data", [0.5, -1.0, np.inf]),
]


def holding(kind, field, values):
    """A model whose output is a weight of some kind, cast, beside something that changes below opset 18."""
    made = model(
        "y = ReduceMax(x, a) t = Cast<to = 1>(w) z = ReduceSum(t, a)",
        18,
        inputs="float[3] x",
        outputs="float[N] y, float[M] z",
        constants="int64[1] a = {0}",
    )
    weight = made.graph.initializer.add(name="w", data_type=kind, dims=[COUNT])
    getattr(weight, field).extend((values * COUNT)[:COUNT])
    return made


@pytest.fixture
def narrow(monkeypatch):
    """A message has no room for more than the graph."""
    read = model_file.read
    monkeypatch.setattr(model_file, "read", lambda path, **_: read(path, whole=0, large=64))
    monkeypatch.setattr(external, "MOST", 900)


@pytest.mark.parametrize("part", [1 << 20, 11])
@pytest.mark.parametrize(("kind", "field", "values"), KINDS)
def test_values_are_those_that_onnx_reads(kind, field, values, part, tmp_path, monkeypatch):
    monkeypatch.setattr(varints, "_PART", part)
    made = holding(kind, field, values)
    expected = onnx.numpy_helper.to_array(made.graph.initializer[-1])
    onnx.save(made, tmp_path / "in.onnx")
    held = model_file.read(tmp_path / "in.onnx", whole=0, large=64).graph.initializer[-1]
    found = varints.values(held, str(tmp_path))
    assert found.shape == (COUNT,)
    assert found.tobytes() == expected.tobytes()


def test_values_in_several_fields_lie_one_behind_the_other(tmp_path):
    parts = [T(int64_data=[5, -5, 300] * 50).SerializeToString() for _ in range(3)]
    between = T(doc_string="between").SerializeToString()
    data = T(name="w", data_type=T.INT64, dims=[450]).SerializeToString() + parts[0] + between + parts[1] + parts[2]
    (tmp_path / "in.onnx").write_bytes(wrapped(0x3A, wrapped(0x2A, data)))
    held = model_file.read(tmp_path / "in.onnx", whole=0, large=64).graph.initializer[-1]
    found = varints.values(held, str(tmp_path))
    assert found.tobytes() == onnx.numpy_helper.to_array(T.FromString(data)).tobytes()


def wrapped(tag, data):
    """A field that holds a message."""
    length = len(data)
    return bytes([tag, length & 127 | 128, length >> 7 & 127 | 128, length >> 14]) + data


def test_what_is_not_unpacked(tmp_path):
    for made in (holding(T.STRING, "string_data", [b"abc"]), holding(T.INT64, "int64_data", [1])):
        made.graph.initializer[-1].dims[0] += 1 if made.graph.initializer[-1].int64_data else 0
        onnx.save(made, tmp_path / "in.onnx")
        held = model_file.read(tmp_path / "in.onnx", whole=0, large=64).graph.initializer[-1]
        assert varints.values(held, str(tmp_path)) is None


@pytest.mark.parametrize(("kind", "field", "values"), KINDS[:-1])
def test_what_no_message_holds_is_verified(kind, field, values, tmp_path, narrow, capsys):
    onnx.save(holding(kind, field, values), tmp_path / "in.onnx")
    code = cli.main(["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--opset", "13"])
    assert "equal: the same " in capsys.readouterr().out
    assert code == exit_codes.DONE


def test_another_weight_is_noticed(tmp_path, narrow, capsys):
    for name, value in (("a", 1), ("b", 2)):
        onnx.save(holding(T.INT64, "int64_data", [value]), tmp_path / f"{name}.onnx")
    assert cli.main(["verify", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")]) == exit_codes.DIFFERENT
    assert "DIFFERENT" in capsys.readouterr().out


def test_texts_that_no_message_holds_are_not_verified_but_converted(tmp_path, narrow, capsys):
    made = holding(T.STRING, "string_data", [b"abc", b""])
    del made.graph.node[1:], made.graph.output[1:]
    made.graph.node.add(op_type="Identity", input=["w"], output=["z"])
    made.graph.output.add(name="z").type.tensor_type.elem_type = T.STRING
    onnx.save(made, tmp_path / "in.onnx")
    command = ["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--opset", "13"]
    assert cli.main(command) == exit_codes.REFUSED
    assert "not proved: " in capsys.readouterr().out
    assert not (tmp_path / "out.onnx").exists()
    assert cli.main([*command, "--no-verify"]) == exit_codes.DONE
    assert onnx.load(tmp_path / "out.onnx").graph.initializer[-1] == made.graph.initializer[-1]
