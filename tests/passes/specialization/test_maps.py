"""Maps at the ends of a model as tensors, against what onnxruntime makes of the maps."""

import numpy as np
import onnx
import onnx.helper
import pytest
from onnx import TensorProto as T
from opshift.passes.goals import Goal, with_tensors
from opshift.passes.specialization.maps import as_tensors

from opshift.verification.engines import OnnxRuntime, runtime
from tests.passes.operators.shared.classical.ensembles import ML, listed, model, stump

ROWS = np.array([[-1, 0], [1, 0]], np.float32)


def zipped(labels, between=False):
    """A classifier whose scores go into ZipMap."""
    strings = isinstance(labels[0], str)
    votes = [(place, 0.25 * place) for place in range(len(labels))], [(place, 1.0) for place in range(len(labels))]
    name = "classlabels_strings" if strings else "classlabels_int64s"
    source = model("TreeEnsembleClassifier", np.float32, 2, {name: labels, **listed([stump(*votes)], "class")}, 3)
    source.graph.node.append(onnx.helper.make_node("ZipMap", ["z"], ["maps"], name="zip", domain=ML, **{name: labels}))
    kind = onnx.helper.make_map_type_proto(
        T.STRING if strings else T.INT64, onnx.helper.make_tensor_type_proto(T.FLOAT, [])
    )
    value = onnx.helper.make_value_info("maps", onnx.helper.make_sequence_type_proto(kind))
    if not between:
        del source.graph.output[1]
    source.graph.output.append(value)
    return source


def run(source, feeds):
    return runtime().InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize("labels", [[7, 8, 9], ["a", "b", "c"]])
@pytest.mark.parametrize("seen", [False, True])
def test_the_scores_of_zipmap_are_its_output(labels, seen):
    source = zipped(labels, seen)
    result, changes = as_tensors(source, zipmap=True, maps=False)
    onnx.checker.check_model(result, full_check=True)
    assert "a matrix with a column for" in changes[0].how
    scores = OnnxRuntime(result).run({"x": ROWS})[-1]
    maps = run(source, {"x": ROWS})[-1]
    assert scores.tolist() == [[held[label] for label in labels] for held in maps]
    assert [value.name for value in result.graph.output] == [value.name for value in source.graph.output]
    assert len(result.graph.node) == (2 if seen else 1)


def dictionary(op, key, value, **attributes):
    kind = onnx.helper.make_map_type_proto(key, onnx.helper.make_tensor_type_proto(value, []))
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, ["x"], ["y"], name="d", domain=ML, **attributes)], "g",
        [onnx.helper.make_value_info("x", kind)],
        [onnx.helper.make_tensor_value_info("y", T.INT64 if attributes.get("cast_to") == "TO_INT64" else value, [1, None])],
    )  # fmt: skip
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(ML, 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize(
    ("source", "given", "row"),
    [
        (dictionary("DictVectorizer", T.STRING, T.FLOAT, string_vocabulary=["a", "c", "b"]), {"a": 4.0, "c": 8.0}, [4.0, 8.0, 0.0]),
        (dictionary("DictVectorizer", T.INT64, T.FLOAT, int64_vocabulary=[5, 3]), {3: 1.5, 5: 2.5}, [2.5, 1.5]),
        (dictionary("CastMap", T.INT64, T.FLOAT, cast_to="TO_INT64"), {5: 2.75, 3: 1.5}, [1.5, 2.75]),
        (dictionary("CastMap", T.INT64, T.FLOAT), {5: 2.75, 3: 1.5}, [1.5, 2.75]),
        (dictionary("CastMap", T.INT64, T.FLOAT, map_form="SPARSE", max_map=4), {2: 2.75, 0: 1.5}, [1.5, 0, 2.75, 0]),
    ],
)  # fmt: skip
def test_a_map_that_is_read_is_a_row(source, given, row):
    (expected,) = run(source, {"x": given})
    result, changes = as_tensors(source, zipmap=False, maps=True)
    assert "was a map and becomes a row" in changes[0].how
    (actual,) = run(result, {"x": np.array([row], np.float32)})
    assert (actual.dtype, actual.shape, actual.tolist()) == (expected.dtype, expected.shape, expected.tolist())


def test_without_the_option_maps_stay():
    source = zipped([7, 8, 9])
    assert as_tensors(source, zipmap=False, maps=True) == (source, ())
    assert Goal().with_ends(source) is source
    result = Goal(portable=True).run(source)
    assert "--zipmap tensor" in str(result.refusals[0])
    result = Goal(portable=True).run(dictionary("CastMap", T.INT64, T.FLOAT))
    assert "--map tensor" in str(result.refusals[0])


def test_maps_become_tensors_or_nothing_else():
    with pytest.raises(ValueError, match="--zipmap must be tensor"):
        with_tensors(Goal(), "array", None)
