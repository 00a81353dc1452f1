"""A part holds the nodes between some values, what these read, and nothing else."""

import numpy as np
import onnx
import pytest
from onnx import helper
from opshift.passes.inputs.parts import part_of
from opshift.passes.model.types import dims_of
from opshift.passes.surgery.extraction import cut_out, find_border, types_of

from tests.support import evaluate, model

IO = {"inputs": "float[N,3] x, float[N,3] z", "outputs": "float[N,3] y, float[N,3] v"}
BODY = "a = Abs(x) b = Add(a, w) c = Exp(b) d = Mul(c, a) y = Sub(d, u) e = Neg(z) f = Add(e, w) v = Relu(f)"


def whole():
    made = model(BODY, 17, constants="float[3] w = {1, 2, 3}, float[3] u = {3, 4, 5}", **IO)
    for node in made.graph.node:
        node.name = f"{node.op_type}_{node.output[0]}"
    return made


def part(source=None, **asked):
    source = source or whole()
    ends = find_border(source, part_of(**asked))
    return cut_out(source, ends, types_of(source, ends))


def shape_of(made):
    names = [[value.name for value in held] for held in (made.graph.input, made.graph.initializer, made.graph.output)]
    return ["".join(names[0]), "".join(names[1]), "".join(n.output[0] for n in made.graph.node), "".join(names[2])]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "name the part to extract"),
        ({"to": "y", "around": "b"}, "name the part with --around, or with --from and --to"),
        ({"to": "y", "depth": 1}, "needs --around"),
        ({"around": "b", "depth": -1}, "0 or more"),
        ({"to": 3}, "give values by name"),
        ({"to": "Y"}, "no value or node 'Y'; did you mean 'y'?"),
        ({"to": "x"}, "no value or node 'x'"),
        ({"to": "q*"}, "no value of the model matches"),
        ({"to": "y", "start": "f"}, "'f' does not lead to 'y'"),
        ({"start": "y"}, "'y' is an output of the part to extract, but no node after it belongs to the part"),
        ({"around": "Add_B"}, "no node 'Add_B'; did you mean 'Add_b'?"),
    ],
)
def test_what_has_no_meaning_is_told(asked, why):
    with pytest.raises(ValueError, match=why):
        part(**asked)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"to": "y"}, ["x", "wu", "abcdy", "y"]),
        ({"to": "c"}, ["x", "w", "abc", "c"]),
        ({"to": "Exp_c"}, ["x", "w", "abc", "c"]),
        ({"to": "y", "start": "b"}, ["xb", "u", "acdy", "y"]),
        ({"to": "y", "start": ["b", "a"]}, ["ba", "u", "cdy", "y"]),
        ({"to": "y", "start": "b,a"}, ["ba", "u", "cdy", "y"]),
        ({"to": "y", "start": "x"}, ["x", "wu", "abcdy", "y"]),
        ({"to": "v", "start": "w"}, ["zw", "", "efv", "v"]),
        ({"start": "f"}, ["xf", "wu", "abcdyv", "yv"]),
        ({"to": "c,f"}, ["xz", "w", "abcef", "cf"]),
        ({"around": "c", "depth": 0}, ["b", "", "c", "c"]),
        ({"around": "Exp_c", "depth": 1}, ["a", "w", "bcd", "d"]),
        ({"around": "c", "depth": 2}, ["x", "wu", "abcdy", "y"]),
        ({"around": "y", "depth": 0}, ["d", "u", "y", "y"]),
        ({"around": "b", "depth": 1}, ["x", "w", "abc", "ac"]),
    ],
)
def test_the_part_between_values_and_around_a_node(asked, expected):
    made = part(**asked)
    assert shape_of(made) == expected
    onnx.checker.check_model(made, full_check=True)


def test_a_part_computes_what_the_whole_does():
    fed = {"x": np.float32([[1, -2, 3]]), "z": np.float32([[4, 5, -6]])}
    y, v = evaluate(whole(), fed)
    first, second = part(to=["b", "a"]), part(to="y", start=["b", "a"])
    b, a = evaluate(first, fed)
    np.testing.assert_array_equal(evaluate(second, {"b": b, "a": a})[0], y)
    np.testing.assert_array_equal(evaluate(part(to="v"), fed)[0], v)


def test_new_inputs_have_the_types_and_sizes_that_follow():
    made = part(to="y", start="b")
    assert [dims_of(value.type) for value in made.graph.input] == [["N", 3], ["N", 3]]
    assert part(to="c").graph.output[0].type.tensor_type.elem_type == 1


def test_what_hangs_on_no_input_is_no_neighbour_and_no_input():
    source = model(
        "s = Constant<value = int64[2] {1, 6}>() r = Identity(s) a = Abs(x) b = Reshape(a, r) y = Exp(b)",
        17,
        inputs="float[2,3] x",
        outputs="float[1,6] y",
    )
    assert shape_of(part(source, around="b", depth=0)) == ["a", "", "srb", "b"]
    assert shape_of(part(source, around="y", depth=1)) == ["a", "", "srby", "y"]


def test_the_other_output_of_a_node_whose_one_is_given_is_given_too():
    source = model(
        "a, b = Split<axis = 1, num_outputs = 2>(x) c = Neg(b) y = Add(a, c)",
        18,
        inputs="float[2,4] x",
        outputs="float[2,2] y",
    )
    assert shape_of(part(source, start="a")) == ["ab", "", "cy", "y"]


def test_what_branches_read_goes_along():
    then = "then_branch = t () => (float[3] p) { p = Add(b, w) }"
    other = "else_branch = e () => (float[3] q) { q = Neg(x) }"
    source = model(
        f"b = Abs(x) i = If<{then}, {other}>(c) y = Relu(i)",
        17,
        constants="float[3] w = {1, 2, 3}, float[3] u = {1, 2, 3}",
        inputs="float[3] x, bool c",
        outputs="float[3] y",
    )
    assert shape_of(part(source, to="i", start="b")) == ["xcb", "w", "i", "i"]
    with pytest.raises(ValueError, match="'p' is inside a subgraph of 'i'"):
        part(source, around="p")


def test_functions_that_are_called_go_along_and_no_others():
    source = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (float[3] x) => (float[3] y) { a = my.One(x) y = my.Two(a) }
        <domain: "my", opset_import: ["" : 17, "my" : 1]> One (x) => (y) { y = my.Inner(x) }
        <domain: "my", opset_import: ["" : 17]> Inner (x) => (y) { y = Abs(x) }
        <domain: "my", opset_import: ["" : 17]> Two (x) => (y) { y = Neg(x) }""")
    assert [function.name for function in part(source, to="a").functions] == ["One", "Inner"]


def test_what_is_said_of_the_model_and_of_its_values_survives():
    source = whole()
    source.producer_name, source.doc_string = "exporter", "words"
    source.metadata_props.add(key="license", value="mine")
    source.graph.value_info.append(helper.make_tensor_value_info("b", 1, ["N", 3]))
    source.graph.value_info.append(helper.make_tensor_value_info("e", 1, ["N", 3]))
    note = source.graph.quantization_annotation.add(tensor_name="b")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    made = part(source, to="c")
    assert (made.producer_name, made.doc_string, made.metadata_props[0].value) == ("exporter", "words", "mine")
    assert [value.name for value in made.graph.value_info] == ["b"]
    assert [note.tensor_name for note in made.graph.quantization_annotation] == ["b"]


def test_the_whole_is_not_changed():
    source = whole()
    before = source.SerializeToString(deterministic=True)
    part(source, around="c")
    assert source.SerializeToString(deterministic=True) == before
