"""Sizes by the nodes alone, judged by ONNX's own inference."""

from __future__ import annotations

import onnx.shape_inference
import pytest
from opshift.passes.analysis import sizes
from opshift.passes.analysis.inferring import model_inference
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.model.types import dims_of, has_shape

from tests import pairs
from tests.exported import store
from tests.support import model


@pytest.mark.parametrize("framework", store.frameworks())
def test_what_nodes_tell_is_what_inference_finds(framework: str) -> None:
    told = 0
    for export in pairs.some(store.sample(framework)[::8], 2):
        bare = onnx.ModelProto()
        bare.CopyFrom(export.model)
        del bare.graph.value_info[:]  # of which some are wrong
        graph = onnx.shape_inference.infer_shapes(bare, data_prop=True).graph
        scope = Scope(export.model.graph, Context(export.model, export.model), export.opset, path=())
        for value in graph.value_info:
            dims = dims_of(value.type) if has_shape(value.type) else []
            for axis, dim in enumerate(dims):
                front, back = (sizes.size(scope, value.name, at) for at in (axis, axis - len(dims)))
                assert front in (None, back), f"{export.name}: {value.name}"
                assert back is None or back == dim or not isinstance(dim, int), f"{export.name}: {value.name}"
                told += back is not None
    assert told


@pytest.mark.parametrize(
    ("body", "axis", "size"),
    [
        ("y = Relu(x)", -1, 3),
        ("y = Relu(x)", 0, 2),
        ("y = Relu(x)", 2, None),
        ("y = Relu(x)", -3, None),
        ("y = Relu(n)", 0, None),
        ("y = Add(open, x)", -1, 3),
        ("y = Add(w, open)", -3, 5),
        ("y = Add(w, open)", 1, None),
        ("y = Add(none, one_row)", 1, 0),
        ("y = Conv(open, w)", 1, 5),
        ("y = Conv(open, w)", -1, None),
        ("y = MatMul(n, x)", -1, 3),
        ("y = MatMul(w, b)", -2, 2),
        ("y = MatMul(w, b)", 0, None),
        ("y = MatMul(open, x)", -1, None),
        ("y = Transpose<perm=[2, 0, 1]>(w)", 0, 3),
        ("y = Transpose<perm=[2, 0, 1]>(w)", -4, None),
        ("y = Transpose(w)", 0, None),
        ("y = Reshape(open, to)", 1, 2),
        ("y = Reshape(n, to)", 0, None),
        ("y = Reshape(w, to)", 0, 5),
        ("y = Reshape(w, to)", 2, 3),
        ("y = Reshape(open, to)", 3, None),
        ("y = Reshape(r, kept)", 1, 12),
        ("y = Reshape(r, kept)", 0, None),
        ("y = Reshape(n, kept)", 1, 2),
        ("y = Reshape(i, kept)", 1, None),
        ("y = Reshape<allowzero=1>(r, kept)", 1, None),
        ("y = Reshape(none, kept)", 1, None),
        ("y = Slice(w, one, nine, one)", 1, 1),
        ("y = Slice(w, one, nine, one)", 2, 3),
        ("y = Slice(w, one, nine, minus)", 2, 2),
        ("y = Slice(w, nine, nine, minus)", -1, 0),
        ("y = Slice(w, minus, one, minus, minus)", 2, None),
        ("y = Slice(w, at, nine, one)", 1, None),
        ("y = Slice(open, one, nine, minus)", -1, None),
        ("y = Gather(w, at)", 0, 7),
        ("y = Gather(w, at)", 2, 3),
        ("y = Gather<axis=1>(w, at)", 0, 5),
        ("y = Gather<axis=1>(w, at)", 1, 7),
        ("y = Gather<axis=-1>(w, k)", 1, 2),
        ("y = Gather(w, k)", -3, None),
        ("y = Gather(open, at)", -1, None),
        ("y = GRU<hidden_size=3>(open, gates, states)", -3, 2),
        ("y = GRU<hidden_size=3>(open, gates, states)", -1, 3),
        ("y = GRU<hidden_size=3>(open, gates, states)", -2, None),
        ("y = GRU<hidden_size=3, layout=1>(open, gates, states)", -3, None),
        ("all, y = GRU<hidden_size=3>(open, gates, states)", -1, None),
        ("y = Expand(x, to)", -1, None),
        ("y = my.Relu(x)", -1, None),
        ("y = Neg(nowhere)", -1, None),
        ("p = Neg(q) q = Neg(p) y = Neg(p)", -1, None),
    ],
)
def test_the_way_to_a_size(body: str, axis: int, size: int | None) -> None:
    integers = {"one": [1], "nine": [9], "minus": [-1], "to": [0, 2, -1], "kept": [0, -1]}
    held = (f"int64[{len(v)}] {name} = {{{', '.join(map(str, v))}}}" for name, v in integers.items())
    source = model(
        body,
        18,
        inputs="float[2,3] x, float[5,2,3] w, float[3,3] b, float[N,2] n, float[2,M] i, float[N,3,4] r, float[2,0] none, "
        "float[1,1] one_row, int64[7] at, int64 k, float[2,9,4] gates, float[2,9,3] states, float open",
        outputs="float y",
        constants=", ".join(held),
        domains='"my": 1',
    )
    source.graph.input[-1].type.tensor_type.ClearField("shape")
    scope = Scope(source.graph, Context(source, source), 18, path=())
    assert sizes.size(scope, "y", axis) == size


def test_an_axis_that_only_calls_of_a_function_tell_is_open() -> None:
    source = model("y = my.f<at=1>(w)", 18, inputs="float[5,2,3] w", outputs="float y", domains='"my": 1')
    source.functions.append(
        onnx.parser.parse_function(
            '<domain: "my", opset_import: ["": 18]> f<at>(w) => (y)'
            "{ k = Constant<value_int=0>() c = Constant<value_floats=[1.0, 2.0]>() y = Gather<axis: int = @at>(c, k) }"
        )
    )
    scope = Scope(source.functions[0], Context(source, source), 18)
    assert sizes.size(scope, "y", -1) is None


def test_what_no_node_tells_is_inferred() -> None:
    source = model(
        "a = Tile(x, two) y = Neg(a)",
        18,
        inputs="float[2,3] x",
        outputs="float[4,6] y",
        constants="int64[2] two = {2, 2}",
    )
    scope = Scope(source.graph, Context(source, source), 18, path=())
    assert [scope.size("y", axis) for axis in (-3, -2, 0, 1, 2)] == [None, 4, 4, 6, None]


def test_sizes_are_found_without_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    source = model("a = Neg(x) y = Abs(a)", 18, inputs="float[N,3] x", outputs="float[N,3] y")
    scope = Scope(source.graph, Context(source, source), 18, path=())
    monkeypatch.setattr(model_inference, "infer", pytest.fail)
    assert scope.size("y", 1) == 3
