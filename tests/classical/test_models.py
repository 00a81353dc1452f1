"""Small models of scikit-learn, LightGBM and XGBoost without ai.onnx.ml: equal in onnxruntime, and run by OpenVINO."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto
from opshift.passes.errors import InvalidModel
from opshift.passes.goals import Goal, inlining
from opshift.passes.stages.reach import own_opset
from opshift.passes.targets import find_backend

from opshift.verification.engines import OnnxRuntime
from tests import pairs
from tests.classical import store

SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 2.0**24 + 1, 1e-40]
OF_STRINGS = {"extra_trees", "forest_zipmap", "logistic_named", "ordinal_words", "tree_named", "words"}
TREES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")


def lowered(model: ModelProto, opset: int | None = None, target: str = "") -> tuple[ModelProto, ModelProto]:
    """The model with tensors for maps, and without ai.onnx.ml, at its own opset, another one, or that of a backend."""
    goal = Goal(
        {"": opset} if opset else {}, portable=not target, zipmap=True, maps=True, backend=find_backend(target or None)
    )
    source, result = goal.with_ends(model), goal.run(model)
    assert result.model is not None, "\n".join(map(str, result.refusals))
    if not target:  # which may have operators of its own
        assert {node.domain for node in result.model.graph.node} <= {""}
        assert {held.domain for held in result.model.opset_import} == {""}
    onnx.checker.check_model(result.model)
    return source, result.model


def rows_of_thresholds(model: ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray | None:
    """Rows at the thresholds of trees that read the input itself, at their neighbours, and at special values."""
    (name, x), *others = feeds.items()
    trees = [node for node in model.graph.node if node.op_type in TREES and node.input[0] == name]
    if others or not trees or x.dtype.kind != "f":
        return None
    rng, rows = np.random.default_rng(0), [x]
    for tree in trees:
        held = {a.name: onnx.helper.get_attribute_value(a) for a in tree.attribute}
        features, values = held["nodes_featureids"], np.array(held["nodes_values"], np.float32).astype(x.dtype)
        for at in rng.integers(0, len(features), 40):
            for value in (
                values[at],
                np.nextafter(values[at], x.dtype.type(9e9)),
                np.nextafter(values[at], x.dtype.type(-9e9)),
            ):
                row = x[rng.integers(len(x))].copy()
                row[features[at]] = value
                rows.append(row[None])
    special = x[rng.integers(0, len(x), 40)].copy()
    for row in special:
        row[rng.integers(0, x.shape[1], 2)] = rng.choice(SPECIAL, 2)
    return np.concatenate([*rows, special])


def assert_near(expected: list[np.ndarray], actual: list[np.ndarray], ties: int = 0) -> None:
    for want, got in zip(expected, actual, strict=True):
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
        else:
            assert (want != got).sum() <= ties


@pytest.mark.parametrize("name", pairs.some(store.names(), 2))
def test_equal_in_onnxruntime(name):
    model, feeds = store.read(name)
    source, result = map(OnnxRuntime, lowered(model))
    more = rows_of_thresholds(model, feeds)
    for fed in (
        feeds,
        {key: value[:1] for key, value in feeds.items()},
        *([{next(iter(feeds)): more}] if more is not None else []),
    ):
        assert_near(source.run(fed), result.run(fed))


@pytest.mark.parametrize("name", pairs.some([name for name in store.names() if name not in OF_STRINGS], 12))
def test_openvino_runs_what_is_made(name, tmp_path):
    openvino = pytest.importorskip("openvino")
    model, feeds = store.read(name)
    # below opset 9 there is no IsNaN, and OpenVINO takes a NaN that is neither less nor greater for another number
    source, _ = lowered(model, max(own_opset(model)[""], 9))
    result = lowered(model, target="openvino-2026.4")[1]  # its sums keep axes: see the next test
    kinds = {value.type.tensor_type.elem_type for value in (*source.graph.input, *source.graph.output)}
    onnx.save(result, tmp_path / "result.onnx")
    compiled = openvino.Core().compile_model(tmp_path / "result.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    if TensorProto.DOUBLE in kinds:
        return  # OpenVINO computes it as float32, so that nothing can be compared
    more = rows_of_thresholds(model, feeds)
    fed = feeds if more is None else {next(iter(feeds)): more}
    found = compiled(fed)
    expected = OnnxRuntime(source).run(fed)
    assert_near(expected, [np.asarray(found[place]).astype(want.dtype) for place, want in enumerate(expected)])


@pytest.mark.newest
@pytest.mark.parametrize(("sum_", "added"), [
    ("s = ReduceSum<keepdims = 0>(x, a)", [[1, 1, 1], [2, 2, 2]]),  # wrong until OpenVINO is mended
    ("k = ReduceSum<keepdims = 1>(x, a) s = Squeeze(k, a)", [[1, 2, 3], [1, 2, 3]]),
])  # fmt: skip
def test_openvino_reads_constants_by_row_behind_a_sum(sum_, added):
    openvino = pytest.importorskip("openvino")
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        m (float[N,3,2] x) => (float[N,3] y) <float[1,3] c = {{1, 2, 3}}, int64[1] a = {{2}}> {{ {sum_} y = Add(s, c) }}""")
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU")
    assert np.asarray(compiled({"x": np.zeros((2, 3, 2), np.float32)})[0]).tolist() == added


def test_a_model_without_the_default_domain_gets_the_opset_of_its_ir_version():
    model, _ = store.read("xgboost_regressor")
    assert [held.domain for held in model.opset_import] == ["ai.onnx.ml"]
    _, result = lowered(model)
    assert result.ir_version == model.ir_version
    assert {"": result.opset_import[0].version} == own_opset(model)


@pytest.mark.parametrize("name", ["forest_many", "forest_zipmap", "columns"])
def test_outputs_need_no_declared_type(name):
    model, feeds = store.read(name)
    types = {value.name: value.type.tensor_type.elem_type for value in lowered(model)[0].graph.output}
    for value in model.graph.output:
        value.ClearField("type")
    _, result = lowered(model)
    assert {value.name: value.type.tensor_type.elem_type for value in result.graph.output} == types
    assert_near(OnnxRuntime(lowered(store.read(name)[0])[0]).run(feeds), OnnxRuntime(result).run(feeds))


# onnxruntime 1.23 runs no MatMul of three axes without a row
@pytest.mark.parametrize("name", ["words", pytest.param("ordinal_words", marks=pytest.mark.newest), "lightgbm_missing"])
def test_an_empty_batch_stays_one(name):
    model, feeds = store.read(name)
    source, result = lowered(model)
    empty = {key: value[:0] for key, value in feeds.items()}
    assert_near(OnnxRuntime(source).run(empty), OnnxRuntime(result).run(empty))


@pytest.mark.parametrize(
    "name", ["tree_two_targets", pytest.param("lightgbm_missing", marks=pytest.mark.long), "xgboost_missing"]
)
def test_mnn_gets_no_comparison_that_it_computes_wrongly(name):
    model, feeds = store.read(name)
    result = inlining((), target="mnn-3.6").run(model).model
    assert not {"Less", "IsNaN"} & {node.op_type for node in result.graph.node}
    assert not [node for node in result.graph.node if node.op_type == "Equal" and node.input[0] == node.input[1]]
    fed = feeds | {next(iter(feeds)): rows_of_thresholds(model, feeds)}
    assert_near(OnnxRuntime(model).run(fed), OnnxRuntime(result).run(fed))


def test_an_output_whose_type_nothing_tells_is_invalid():
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        m (float[N] x) => (float[N] y) { y = own.F(x) }""")
    model.graph.output[0].ClearField("type")
    with pytest.raises(InvalidModel, match="'y', an output of the model, has no type, and none follows"):
        Goal({"": 18}).run(model)


def test_no_other_opset_is_named_where_maps_are_refused():
    model, goal = store.read("forest_zipmap")[0], Goal({"": 13}, portable=True)
    result = goal.run(model)
    assert [refusal.op for refusal in result.refusals] == ["ZipMap"]
    assert goal.find_nearest_opset(model, result, None) is None


def test_no_kind_is_missing():
    assert len(store.names()) >= 60


def test_declared_shapes_that_trees_do_not_have_are_corrected():
    model, _ = store.read("tree_two_targets")
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1
    onnx.checker.check_model(model, full_check=True)
    result = Goal(portable=True).run(model).model
    onnx.checker.check_model(result, full_check=True)
    assert result.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 2
