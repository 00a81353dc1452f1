"""Calls are written as exporters write them: defaults left out, shapes as runtimes want them."""

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import numpy_helper
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.fusion import emission
from opshift.passes.fusion.emission import Emission, canonicalize
from opshift.passes.fusion.patterns import PatternCall, PatternTensor, Splat
from opshift.passes.rewrite.builder import Builder

from tests.support import model

TWICE = np.float32([[[1, 2, 1, 2], [3, 4, 3, 4]]])


@pytest.fixture
def build():
    source = model("y = Neg(x)", 23, inputs="float[2,3] x", outputs="float[2,3] y")
    held = {"w": np.arange(6, dtype=np.float32).reshape(1, 6), "twice": TWICE, "apart": np.float32([[1, 2], [3, 4]])}
    held |= {"odd": np.float32([[1, 1, 1]]), "vector": np.float32([1, 1]), "batches": np.ones((2, 3, 4), np.float32)}
    for name, value in held.items():
        source.graph.initializer.append(numpy_helper.from_array(value, name))
    return Builder(Scope(source.graph, Context(source, source), 23, path=()), 23)


def written(build, op, shapes, inputs=None, given=None, **attributes):
    """What becomes of a call: its inputs, its attributes, and the nodes that were made for it."""
    inputs = inputs or ["q", "k", "v", "m"][: len(shapes)]
    given = given or [PatternTensor(T.FLOAT, None if shape is None else tuple(shape)) for shape in shapes]
    beside = {}

    def once(name, key, make):
        beside[name, key] = make(build)
        return beside[name, key]

    made = Emission(build, PatternCall(("", op), 23, tuple(given)), list(inputs), attributes, shapes, once)
    canonicalize(("", op), made)
    return made, [node.op_type for node in build.nodes], [*beside]


def test_which_operators_have_a_form_that_hangs_on_shapes():
    assert [
        emission.has_rule(("", op)) for op in ("Attention", "LayerNormalization", "RotaryEmbedding", "RMSNormalization")
    ] == [True] * 4
    assert not emission.has_rule(("", "Gemm"))
    assert not emission.has_rule(("com.microsoft", "Attention"))


@pytest.mark.parametrize(
    ("kind", "size", "scale", "left"),
    [
        (T.FLOAT, 16, 0.25, None), (T.FLOAT, 16, 0.25 * (1 + 5e-7), None), (T.FLOAT, 16, 0.25 * (1 + 5e-6), 0.25 * (1 + 5e-6)), (T.FLOAT, 64, 0.25, 0.25),
        (T.FLOAT16, 16, 0.25 * (1 + 5e-4), None), (T.FLOAT16, 16, 0.25 * (1 + 5e-3), 0.25 * (1 + 5e-3)), (T.BFLOAT16, 16, 0.25 * (1 + 5e-3), None),
        (T.BFLOAT16, 16, 0.25 * (1 + 2e-2), 0.25 * (1 + 2e-2)), (T.FLOAT, "D", 0.25, 0.25), (T.FLOAT, 0, 0.25, 0.25), (T.FLOAT, 1, 1.0, None),
    ],
)  # fmt: skip
def test_the_scale_that_the_size_of_the_heads_gives_is_left_out(build, kind, size, scale, left):
    shapes = [[2, 4, 5, size], [2, 4, 6, size], [2, 4, 6, 8]]
    made, nodes, _ = written(build, "Attention", shapes, given=[PatternTensor(kind, None)] * 3, scale=scale)
    assert (made.attributes["scale"], nodes, made.elem_type) == (left, [], kind)


def test_of_heads_that_nobody_knows_the_scale_is_written(build):
    made, nodes, _ = written(build, "Attention", [None, None, None], scale=0.25)
    assert (made.attributes["scale"], nodes) == (0.25, [])


@pytest.mark.parametrize(
    ("rows", "mask", "nodes", "beside"),
    [
        (5, [1, 6], ["Expand"], [("m", "rows 5")]), (5, [2, 4, 1, 6], ["Expand"], [("m", "rows 5")]), (5, [5, 6], [], []), (1, [1, 6], [], []),
        ("S", [1, 6], ["Shape", "Concat", "Expand"], []), ("S", ["S", 6], [], []), (5, [6], [], []), (5, None, [], []),
    ],
)  # fmt: skip
def test_a_mask_has_a_row_for_each_query(build, rows, mask, nodes, beside):
    made, found, once = written(build, "Attention", [[2, 4, rows, 8], [2, 4, 6, 8], [2, 4, 6, 8], mask], scale=0.5)
    assert (found, once) == (nodes, beside)
    assert (made.inputs[3] == build.nodes[-1].output[0]) if nodes else (made.inputs[3] == "m")
    if "Shape" in nodes:
        assert {a.name: a.i for a in build.nodes[0].attribute} == {"start": 2, "end": 3}
    if nodes == ["Expand"]:
        assert build.scope.array(build.nodes[0].input[1]).tolist() == [5, 1]


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
def test_scales_have_the_shape_of_the_axes(build, op):
    given = [PatternTensor(T.FLOAT, None), Splat(T.FLOAT, None, 1.0), PatternTensor(T.FLOAT, None)]
    made, nodes, _ = written(build, op, [[7, 2, 6], None, [1, 6]], ["x", "one", "w"], given, axis=-1)
    one, w = (build.scope.array(name) for name in made.inputs[1:])
    assert (one.tolist(), one.dtype, w.tolist(), nodes) == ([1.0] * 6, np.float32, [0, 1, 2, 3, 4, 5], [])
    made, nodes, _ = written(build, op, [[7, 2, 6], [2, 6]], ["x", "b"], axis=-2)
    assert (made.inputs, nodes) == (["x", "b"], [])
    made, nodes, _ = written(build, op, [[7, 2, 6], [1, 6]], ["x", "b"], axis=-1)
    assert nodes == ["Reshape"]
    assert (build.nodes[0].input[0], build.scope.array(build.nodes[0].input[1]).tolist()) == ("b", [6])


def test_other_shapes_of_what_is_held_are_copies(build):
    made = emission.reshape_value(build, "w", [-1])
    assert (build.scope.array(made).shape, build.scope.array("w").shape, made != "w", build.nodes) == (
        (6,),
        (1, 6),
        True,
        [],
    )
    assert build.scope.array(emission.reshape_value(build, "w", [2, 3])).shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("twice", [2, 2]), ("apart", None), ("odd", None), ("vector", None), ("batches", None), ("x", None)],
)
def test_tables_that_hold_their_first_half_twice(build, name, shape):
    assert emission.half_of(build.scope, name) == shape
    if shape:
        assert build.scope.array(emission.first_half(build, name, T.FLOAT)).tolist() == [[1, 2], [3, 4]]


def test_angles_by_position_need_the_positions(build):
    made, nodes, _ = written(build, "RotaryEmbedding", [[2, 4, 3, 8], [3, 4], [3, 4]], ["x", "c", "s"])
    assert (made.inputs[:3], nodes) == (["x", "c", "s"], [])
    assert build.scope.array(made.inputs[3]).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert build.scope.array(made.inputs[3]).dtype == np.int64


@pytest.mark.parametrize(
    ("batch", "angles", "nodes"),
    [
        (2, 1, ["Shape", "Concat", "Expand", "Expand"]),
        ("B", 1, ["Shape", "Concat", "Expand", "Expand"]),
        (1, 1, []),
        (2, 2, []),
        ("B", "B", []),
    ],
)
def test_angles_of_all_batches_are_repeated(build, batch, angles, nodes):
    shape = [angles, 3, 4]
    made, found, _ = written(build, "RotaryEmbedding", [[batch, 4, 3, 8], shape, shape], ["x", "c", "s"])
    assert found == nodes
    if nodes:
        assert {a.name: a.i for a in build.nodes[0].attribute} == {"start": 0, "end": 1}
        assert build.scope.array(build.nodes[1].input[1]).tolist() == [1, 1]
        assert [node.input[0] for node in build.nodes[2:]] == ["c", "s"]
        assert made.inputs == ["x", *(node.output[0] for node in build.nodes[2:])]
    else:
        assert made.inputs == ["x", "c", "s"]
