"""Inputs that leave sizes open, or the branch of an If."""

from itertools import chain

import numpy as np
import onnx
import onnx.parser
import pytest
from opshift.passes.backends.open_inputs import find_open_inputs, list_attempts

from tests.support import model


def asked(of):
    found = find_open_inputs(of)
    return [refusal.fix for refusal in (*found.sized, *found.deciding)]


def attempts(of):
    return list(chain.from_iterable(list_attempts(of, find_open_inputs(of))))


def branching(inputs, condition, opset=16):
    return onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => (float[4] y) {{
            {condition}
            y = If(c) <then_branch = a () => (float[4] t) {{ t = Abs(x) }},
                       else_branch = b () => (float[4] e) {{ e = Neg(x) }}>
        }}""")


def test_dimensions_without_a_number_are_asked_for():
    of = model("y = Add(x, w)", 13, inputs="float[N,4] x, float[4] w", outputs="float[N,4] y")
    of.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    assert list(map(str, find_open_inputs(of).sized)) == [
        'input "x": dimension N is dynamic; supported: fixed sizes; try --fix-shape x:?,4'
    ]
    of.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "M"
    assert asked(of) == ["--fix-shape x:?,4"], "an input with a default is no open one"
    of.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    assert asked(of) == [], "0 is a number"


def test_many_inputs_are_asked_for_by_the_names_of_their_dimensions():
    names = [f"x{i}" for i in range(4)]
    of = model(
        "y = Sum(" + ", ".join(names) + ")",
        13,
        inputs=", ".join(f"float[N,M] {n}" for n in names),
        outputs="float[N,M] y",
    )
    assert set(asked(of)) == {"--fix-shape N=?,M=?"}
    of.graph.input[3].type.tensor_type.shape.dim[0].ClearField("dim_param")
    assert asked(of)[3] == "--fix-shape x3:?,?"


@pytest.mark.parametrize("rank", ["", "[1]", "[1,1]"])
def test_a_number_that_decides_an_if_is_asked_for(rank):
    of = branching(
        f"float[4] x, int64{rank} rate",
        "w = Constant<value = int64 {7}>() e = Equal(w, rate) z = Identity(e) c = Not(z)",
    )
    assert asked(of) == ["--set rate=?"]
    assert find_open_inputs(of).values == {"rate": 7}
    assert [numbers.values for _, numbers in attempts(of)] == [{"rate": 7}]


def test_a_condition_itself_is_asked_for():
    of = branching("float[4] x, bool c", "")
    assert (asked(of), find_open_inputs(of).values) == (["--set c=?"], {"c": True})


@pytest.mark.parametrize(
    ("inputs", "condition"),
    [
        ("float[4] x, int64[2] rate", "s = ReduceSum<keepdims = 0>(rate) c = Cast<to = 9>(s)"),
        ("float[4] x, int64[N] rate", "s = ReduceSum<keepdims = 0>(rate) c = Cast<to = 9>(s)"),
        ("float[4] x, int64 rate", "s = ReduceSum<keepdims = 0>(x) t = Cast<to = 7>(s) c = Equal(t, rate)"),
    ],
)
def test_what_no_single_number_decides_is_not_asked_for(inputs, condition):
    assert not find_open_inputs(branching(inputs, condition)).deciding


def test_sizes_decide_an_if_once_they_are_fixed():
    of = branching(
        "float[N] x, int64 rate", "s = Size(x) t = Equal(s, rate) u = Not(t) z = Identity(u) c = Identity(z)"
    )
    assert asked(of) == ["--fix-shape x:?", "--set rate=?"]


def test_numbers_that_are_tried():
    of = model("y = Concat<axis = 1>(x, z)", 13, inputs="float[N,3,M] x, float[N,2,?] z", outputs="float[N,5,M] y")
    tried = [numbers.shapes for _, numbers in attempts(of)]
    assert tried == [{"x": (2, 3, 256), "z": (2, 2, 256)}, {"x": (2, 3, 24), "z": (2, 2, 24)}]
    summed = model("y = Identity(x) w = Identity(z)", 13, inputs="float[B,P] x, float[B,P] z", outputs="float[B,P] y")
    summed.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "P + 1"
    assert attempts(summed)[0][1].shapes == {"x": (2, 256), "z": (2, 257)}
    fixed = model("y = Identity(x)", 13, inputs="float[2] x", outputs="float[2] y")
    assert attempts(fixed) == []
