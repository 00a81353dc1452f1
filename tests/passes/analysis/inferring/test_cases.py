"""Each case of the table: what onnx tells by itself, and what is told instead."""

import onnx.defs
import onnx.shape_inference
import pytest
from opshift.passes.analysis.inferring import corrected
from opshift.passes.analysis.inferring.cases import BY_OP, CASES
from opshift.passes.analysis.scope import open_main_graph as inferred_scope
from opshift.passes.model.types import dims_of, has_shape

from tests.support import model

SCRIPTS = {
    "groups": (
        21, "t = GroupNormalization<num_groups=2>(x, s, s)", "float[1,4,6] x, float[4] s", "", None, [1, 4, 6],
    ),
    "old axes": (10, "t = Unsqueeze<axes=[-1]>(x)", "float[3,4] x", "", [3, 4], [3, 4, 1]),
    "narrow casts": (
        18, "a = Cast<to=9>(d) b = Cast<to=7>(a) t = Expand(x, b)", "float[1] x", "int64[1] d = {300}", [300], ["?"],
    ),
    "open lists": (
        13, "a = Reshape(n, m) t = Slice(x, s, e, a)", "float[3,4] x, int64[N] n, int64[M] m",
        "int64[1] s = {0}, int64[1] e = {1}", [1, 4], ["?", "?"],
    ),
    "windows behind": (
        21, "t = MaxPool<kernel_shape=[1], strides=[3], ceil_mode=1>(x)", "float[1,1,3] x", "", [1, 1, 2], ["?", "?", "?"],
    ),
    "sizes of 0": (
        23, "t = Attention<kv_num_heads=3, q_num_heads=9>(x, k, v)",
        "float[a,b,72] x, float[2,6,24] k, float[d,e,f] v", "", ["a", "b", 0], None,
    ),
    "onesided": (
        17, "t = STFT(x, f, , l)", "float[1,9,1] x", "int64 f = {1}, int64 l = {4}", [1, 6, 4, 2], [1, 6, 3, 2],
    ),
    "rank by length": (13, "t = Reshape(x, n)", "float[A,B] x, int64[3] n", "", None, ["?", "?", "?"]),
}  # fmt: skip
"""By case the opset, nodes that make `t`, inputs, constants, and the dimensions of `t`: as onnx tells them, and right."""


def script(case):
    opset, body, inputs, constants, *_ = SCRIPTS[case]
    return model(f"{body} y = Identity(t)", opset, inputs=inputs, outputs="float y", constants=constants)


def dims(inferred):
    kinds = [value.type for value in inferred.graph.value_info if value.name == "t"]
    return dims_of(kinds[0]) if kinds and has_shape(kinds[0]) else None


def is_as(found, wanted):
    if found is None or wanted is None:
        return found is wanted
    return len(found) == len(wanted) and all(w in ("?", f) for f, w in zip(found, wanted, strict=True))


@pytest.mark.newest
@pytest.mark.parametrize("case", SCRIPTS)
def test_onnx_tells_what_is_not_so(case):
    source = script(case)
    told = dims(onnx.shape_inference.infer_shapes(source, data_prop=True))
    if case == "rank by length":  # which a whole model tells
        schema = onnx.defs.get_schema("Reshape", 13)
        kinds = {value.name: value.type for value in source.graph.input}
        made = onnx.shape_inference.infer_node_outputs(schema, source.graph.node[0], kinds)["t"]
        told = dims_of(made) if has_shape(made) else None
    assert is_as(told, SCRIPTS[case][4]), told


@pytest.mark.newest
@pytest.mark.parametrize("case", SCRIPTS)
def test_what_is_so_is_told_instead(case):
    source = script(case)
    before = source.SerializeToString()
    told = inferred_scope(source).shape("t")
    assert is_as(told, SCRIPTS[case][5]), told
    assert source.SerializeToString() == before


@pytest.mark.newest
@pytest.mark.parametrize("case", SCRIPTS)
def test_a_model_comes_back_as_it_was(case):
    source = script(case)
    before = source.SerializeToString()
    inferred = corrected.infer_types(source)
    if case != "open lists":  # which are stated
        assert source.SerializeToString() == before
    assert [str(node) for node in inferred.graph.node] == [str(node) for node in source.graph.node]


def test_each_case_has_a_script_and_each_operator_its_cases():
    assert list(SCRIPTS) == [case.name for case in CASES]
    assert [case.name for case in BY_OP["Slice"]] == ["old axes", "open lists"]
