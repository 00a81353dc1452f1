"""Weights are taken out of a model, and others like them drawn: names, types, dims and spread stay."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from opshift.passes.errors import InvalidModel

from opshift.files import stripping
from opshift.verification.engines import OnnxRuntime
from tests.support import model

RANDOM = np.random.default_rng(7)
KINDS = {
    "normal": RANDOM.normal(0.5, 0.02, (64, 65)).astype(np.float32),
    "positive": np.abs(RANDOM.normal(0, 2, 4096)).astype(np.float32),
    "half": RANDOM.normal(0, 1, 4096).astype(np.float16),
    "double": RANDOM.normal(-3, 1, 4096),
    "int8": RANDOM.integers(-90, 91, 4096).astype(np.int8),
    "int64": RANDOM.integers(0, 2**40, 4096),
    "places": np.arange(5, 2005, 2),
    "zeros": np.zeros(4096, np.float32),
    "mask": np.where(np.tri(64), 0, -3.4028235e38).astype(np.float32),
    "infinite": np.where(np.tri(64), 0, -np.inf).astype(np.float32),
    "flags": RANDOM.random(4096) < 0.25,
}


def held(values):
    source = model("y = Identity(x)", 17, inputs="float[2] x", outputs="float[2] y")
    source.graph.initializer.append(numpy_helper.from_array(values, "w"))
    return source


def drawn(values, tmp_path):
    done = stripping.strip(held(values), None)
    assert (done.tensors, done.bytes) == (1, values.nbytes)
    assert done.model.ByteSize() < 400
    made, count = stripping.fill(done.model, tmp_path)
    assert count == 1
    tensor = made.graph.initializer[0]
    raw = (tmp_path / "drawn").read_bytes()
    assert (tensor.name, list(tensor.dims)) == ("w", list(values.shape))
    return np.frombuffer(raw, values.dtype).reshape(values.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_are_drawn_are_like_those_that_were_there(kind, tmp_path):
    values = KINDS[kind]
    found = drawn(values, tmp_path)
    if kind in ("places", "zeros"):
        np.testing.assert_array_equal(found, values)
        return
    assert found.min() >= values.min() - 1e-8
    assert found.max() <= values.max() + 1e-8
    if kind in ("mask", "infinite", "flags"):
        assert set(np.unique(found)) == set(np.unique(values))
        assert abs((found == values.max()).mean() - (values == values.max()).mean()) < 0.05
    elif kind != "positive":  # of which half a bell is left
        spread = values.astype(np.float64).std()
        assert abs(found.astype(np.float64).mean() - values.astype(np.float64).mean()) < 0.2 * spread
        assert 0.8 * spread < found.astype(np.float64).std() < 1.2 * spread


def test_the_same_numbers_are_drawn_each_time(tmp_path):
    done = stripping.strip(held(KINDS["normal"]), None).model
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        stripping.fill(done, tmp_path / name)
        found.append((tmp_path / name / "drawn").read_bytes())
    assert found[0] == found[1]


def test_small_tensors_texts_and_what_has_no_weights_stay():
    source = held(np.ones(63, np.float32))
    source.graph.initializer.append(helper.make_tensor("s", TensorProto.STRING, [200], [b"text"] * 200))
    done = stripping.strip(source, None)
    assert done.tensors == 0
    assert done.model.SerializeToString() == source.SerializeToString()


def test_a_tensor_of_a_type_that_numpy_lacks_is_drawn_too(tmp_path):
    source = held(np.ones(4, np.float32))
    tensor = TensorProto(name="b", data_type=TensorProto.BFLOAT16, dims=[512], raw_data=bytes(1024))
    source.graph.initializer.append(tensor)
    eight = TensorProto(name="f", data_type=TensorProto.FLOAT8E4M3FN, dims=[512], raw_data=bytes(512))
    source.graph.initializer.append(eight)
    made, count = stripping.fill(stripping.strip(source, None).model, tmp_path)
    assert count == 2
    assert (tmp_path / "drawn").stat().st_size == 1536
    assert [tensor.data_type for tensor in made.graph.initializer[1:]] == [tensor.data_type, eight.data_type]


def test_stack_traces_go():
    source = held(KINDS["normal"])
    source.graph.node[0].doc_string = "/home/me/secret.py"
    if hasattr(source.graph.node[0], "metadata_props"):
        source.graph.node[0].metadata_props.add(key="trace", value="/home/me/secret.py")
    assert b"secret" not in stripping.strip(source, None).model.SerializeToString()
    assert source.graph.node[0].doc_string


def test_weights_of_nodes_and_of_branches_go_too(tmp_path):
    weights = helper.make_tensor("", 1, [512], list(range(512)))
    source = model("y = Add(x, c)", 17, inputs="float[512] x", outputs="float[512] y")
    source.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=weights))
    done = stripping.strip(source, None)
    assert done.tensors == 1
    assert stripping.is_stripped(done.model.graph.node[0].attribute[0].t)


def test_a_note_that_nobody_can_read_is_told(tmp_path):
    done = stripping.strip(held(KINDS["normal"]), None).model
    for note in ("", "normal", "few x", "unheard 1 2", "normal a b c d e", "bytes"):
        done.graph.initializer[0].external_data[1].value = note
        with pytest.raises(InvalidModel):
            stripping.fill(done, tmp_path)


def test_what_is_drawn_runs(tmp_path):
    from opshift import fill, strip

    weights = np.abs(RANDOM.normal(1, 0.1, (4, 512))).astype(np.float32)
    source = model("y = BatchNormalization(x, a, b, c, d)", 15, inputs="float[N,512] x", outputs="float[N,512] y")
    source.graph.initializer.extend(
        numpy_helper.from_array(row, name) for name, row in zip("abcd", weights, strict=True)
    )
    made = fill(strip(source))
    onnx.checker.check_model(made, full_check=True)
    (y,) = OnnxRuntime(made).run({"x": np.ones((2, 512), np.float32)})
    assert np.isfinite(y).all()
