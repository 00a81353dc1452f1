"""Ranks by the nodes alone, judged by ONNX's own inference."""

from __future__ import annotations

import onnx.shape_inference
import pytest
from opshift.passes.analysis import ranks
from opshift.passes.analysis.inferring import model_inference
from opshift.passes.analysis.scope import Context, Scope

from tests import pairs
from tests.exported import store
from tests.support import model


@pytest.mark.parametrize("framework", store.frameworks())
def test_what_nodes_tell_is_what_inference_finds(framework: str) -> None:
    told = 0
    for export in pairs.some(store.sample(framework)[::3], 2):
        graph = onnx.shape_inference.infer_shapes(export.model, data_prop=True).graph
        found = {
            v.name: len(v.type.tensor_type.shape.dim) for v in graph.value_info if v.type.tensor_type.HasField("shape")
        }
        scope = Scope(export.model.graph, Context(export.model, export.model), export.opset, path=())
        for name, rank in found.items():
            answer = ranks.rank(scope, name)
            assert answer in (None, rank), f"{export.name}: {name}"
            told += answer is not None
    assert told


@pytest.mark.parametrize(
    ("body", "rank"),
    [
        ("y = Relu(x)", 2),
        ("y = Add(i, w)", 3),
        ("y = Max(c, x, w)", 3),
        ("y = Add(x, open)", None),
        ("y = Conv(open, w)", 3),
        ("y = MatMul(x, w)", 3),
        ("y = MatMul(x, i)", None),
        ("y = Gemm(open, open)", 2),
        ("y = Transpose<perm=[2, 0, 1]>(open)", 3),
        ("y = Transpose(x)", 2),
        ("y = Unsqueeze(x, two)", 4),
        ("y = Unsqueeze(x, i)", None),
        ("y = Squeeze(w, one)", 2),
        ("y = Squeeze(w)", None),
        ("y = Squeeze(c, one)", None),
        ("y = Reshape(open, two)", 2),
        ("y = Reshape(open, i)", None),
        ("s = Shape(w) t = Concat<axis=0>(s, one) y = Reshape(open, t)", 4),
        ("s = Shape(w) t = Slice(s, zero, two) y = Reshape(open, t)", None),
        ("s = Shape(w) t = Slice(s, one, nine) y = Reshape(open, t)", 2),
        ("s = Shape(w) t = Slice(s, one, nine, zero, minus) y = Reshape(open, t)", None),
        ("s = Shape(w) k = Cast<to=7>(s) t = Slice(k, zero, minus, zero) y = Reshape(open, t)", 2),
        ("s = Shape<start=1>(w) y = Reshape(open, s)", None),
        ("k = Constant<value_ints=[2, 3]>() y = Reshape(open, k)", 2),
        ("k = Constant<value_int=2>() y = Neg(k)", 0),
        ("a, b = Split<axis=0, num_outputs=2>(x) y = Neg(b)", 2),
        ("a, b = TopK(w, one) y = Neg(b)", 3),
        ("a, b = Dropout(x) y = Not(b)", None),
        ("y = Gather(w, i)", 3),
        ("y = Gather(w, c)", 2),
        ("y = Gather(c, i)", None),
        ("y = Gather(open, i)", None),
        ("y = ConstantOfShape(two)", 2),
        ("y = ConstantOfShape(i)", None),
        ("y = my.Relu(x)", None),
        ("y = Neg(nowhere)", None),
        ("a = Neg(b) b = Neg(a) y = Neg(a)", None),
        (" ".join(f"v{k + 1} = Neg(v{k})" for k in range(70)).replace("v0)", "x)") + " y = Neg(v70)", None),
    ],
)
def test_the_way_to_a_rank(body: str, rank: int | None) -> None:
    constants = "int64[1] zero = {0}, int64[1] one = {1}, int64[2] two = {0, 1}, int64[1] nine = {9}"
    source = model(
        body,
        18,
        inputs="float[2,3] x, float[1,2,3] w, int64[N] i, float c, float open",
        outputs="float y",
        constants=f"{constants}, int64[1] minus = {{-1}}",
        domains='"my": 1',
    )
    source.graph.input[-1].type.tensor_type.ClearField("shape")
    scope = Scope(source.graph, Context(source, source), 18, path=())
    assert ranks.rank(scope, "y") == rank


def test_ranks_are_found_without_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_inference, "infer", lambda *_: pytest.fail("the whole model was inferred"))
    source = model("z = Relu(x) y = Transpose<perm=[1, 0]>(z)", 18, inputs="float[N,M] x", outputs="float[M,N] y")
    assert Scope(source.graph, Context(source, source), 18, path=()).rank("y") == 2
