"""LabelEncoder of ai.onnx.ml."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_unchanged, model

ML = {"domain": "ai.onnx.ml"}
TO_INT = {"inputs": "string[4] x", "outputs": "int64[4] y", **ML}
TO_STRING = {"inputs": "int64[4] x", "outputs": "string[4] y", **ML}
OP = "ai.onnx.ml.LabelEncoder"
WORDS = {"feeds": {"x": np.array(["a", "b", "?", ""], object)}}
NUMBERS = {"feeds": {"x": np.array([0, 7, -1, 1])}}


def test_positions_become_values():
    check(
        f'y = {OP}<classes_strings=["a", "b"], default_int64=9, default_string="?">(x)', 1,
        f"y = {OP}<default_int64=9, keys_strings=['a', 'b'], values_int64s=[0, 1]>(x)", 2, **TO_INT, **WORDS,
    )  # fmt: skip
    check(
        f'y = {OP}<classes_strings=["a", "b"]>(x)', 1,
        f"y = {OP}<default_string=_Unused, keys_int64s=[0, 1], values_strings=['a', 'b']>(x)", 4,
        **TO_STRING, **NUMBERS,
    )  # fmt: skip


def test_values_that_are_positions_become_classes():
    check(
        f'y = {OP}<keys_strings=["b", "a"], values_int64s=[1, 0], default_int64=9>(x)', 4,
        f"y = {OP}<classes_strings=['a', 'b'], default_int64=9>(x)", 1, **TO_INT, **WORDS,
    )  # fmt: skip
    check(
        f'y = {OP}<keys_int64s=[1, 0], values_strings=["b", "b"]>(x)', 2,
        f"y = {OP}<classes_strings=['b', 'b'], default_string=_Unused>(x)", 1, **TO_STRING, **NUMBERS,
    )  # fmt: skip


def test_other_pairs_become_categories():
    check(
        f'y = {OP}<keys_strings=["a", "b"], values_int64s=[7, 7]>(x)', 2,
        "y = ai.onnx.ml.CategoryMapper<cats_int64s=[7, 7], cats_strings=['a', 'b'], default_int64=-1>(x)", 1,
        **TO_INT, **WORDS,
    )  # fmt: skip
    check(
        f'y = {OP}<keys_int64s=[7, 1], values_strings=["b", "b"], default_string="">(x)', 2,
        "y = ai.onnx.ml.CategoryMapper<cats_int64s=[7, 1], cats_strings=['b', 'b'], default_string=>(x)", 1,
        **TO_STRING, **NUMBERS,
    )  # fmt: skip


def test_pairs_of_one_type_become_entries_of_a_table():
    mapper = "ai.onnx.ml.CategoryMapper"
    check(
        f'y = {OP}<keys_strings=["a", "b"], values_strings=["x", ""], default_string="-">(x)', 2,
        f"""t1 = {mapper}<cats_int64s=[0, 1], cats_strings=['a', 'b'], default_int64=2>(x)
        y = Gather<axis=0>(object:['x', '', '-'], t1)""", 1,
        **ML, inputs="string[4] x", outputs="string[4] y", **WORDS,
    )  # fmt: skip
    check(
        f"y = {OP}<keys_int64s=[7, -1], values_int64s=[5, 5]>(x)", 2,
        f"""t1 = {mapper}<cats_int64s=[7, -1], cats_strings=['0', '1'], default_string=>(x)
        t2 = {mapper}<cats_int64s=[0, 1], cats_strings=['0', '1'], default_int64=2>(t1)
        y = Gather<axis=0>([5, 5, -1], t2)""", 1,
        **ML, inputs="int64[4] x", outputs="int64[4] y", **NUMBERS,
    )  # fmt: skip
    check(
        f'y = {OP}<keys_strings=["a", "b"], values_floats=[1.5, 2.0]>(x)', 2,
        f"""t1 = {mapper}<cats_int64s=[0, 1], cats_strings=['a', 'b'], default_int64=2>(x)
        y = Gather<axis=0>([1.5, 2.0, -0.0], t1)""", 1,
        **ML, inputs="string[4] x", outputs="float[4] y", **WORDS,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ("keys_floats=[1.0], values_int64s=[0]", "the keys are floats"),
        ("keys_int64s=[1, 1], values_int64s=[0, 1]", "a key is repeated"),
        ("keys_int64s=[1], values_int64s=[0, 1]", "1 keys, but 2 values"),
        ("values_int64s=[0]", "0 of the attributes keys_*"),
    ],
)
def test_pairs_that_cannot_be_categories_are_refused(attributes, why):
    kind = "float" if "floats" in attributes else "int64"
    check_refused(f"y = {OP}<{attributes}>(x)", 2, 1, why, **ML, inputs=f"{kind}[4] x", outputs="int64[4] y")


def test_classes_that_cannot_be_pairs_are_refused():
    check_refused(f'y = {OP}<classes_strings=["a", "a"]>(x)', 1, 2, "a key is repeated", **TO_INT)
    check_refused(f"y = {OP}<default_int64=1>(x)", 1, 2, "classes_strings is missing", **TO_INT)


def test_lists_are_the_same_in_2_and_4():
    body = f'y = {OP}<keys_strings=["a", "b"], values_int64s=[7, 8]>(x)'
    check_unchanged(body, 2, 5, **TO_INT)
    check_unchanged(body, 5, 2, **TO_INT)


@pytest.mark.parametrize(("source", "target"), [(2, 4), (4, 2)])
def test_keys_that_runtimes_read_differently_are_refused(source, target):
    floats = {"inputs": "float[4] x", "outputs": "int64[4] y", **ML}
    for keys in ("[1.0, 1.0]", "[0.0, -0.0]"):
        text = f"y = {OP}<keys_floats={keys}, values_int64s=[5, 6]>(x)"
        check_refused(text, source, target, "a key is repeated", **floats)
    built = model(f"y = {OP}<keys_floats=[1.0], values_int64s=[5]>(x)", source, **floats)
    built.graph.node[0].attribute[0].floats[0] = np.nan  # which the text format cannot spell
    (refusal,) = convert.attempt(built, {"ai.onnx.ml": target}).refusals
    assert "a key is NaN" in refusal.why


def test_tensors_become_lists():
    check(
        f"""y = {OP}<keys_tensor=string[2] {{"a", "b"}}, values_tensor=int64[2] {{7, 8}},
        default_tensor=int64[1] {{3}}>(x)""", 4,
        f"y = {OP}<default_int64=3, keys_strings=['a', 'b'], values_int64s=[7, 8]>(x)", 2, **TO_INT, **WORDS,
    )  # fmt: skip
    check(
        f"y = {OP}<keys_tensor=int32[2] {{7, 1}}, values_floats=[1.5, 2.5]>(x)", 4,
        f"t1 = Cast<to=7>(x)\ny = {OP}<default_float=-0, keys_int64s=[7, 1], values_floats=[1.5, 2.5]>(t1)",
        2, **ML, inputs="int32[4] x", outputs="float[4] y",
        run=False,  # onnxruntime has no kernel for int32 keys
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "shown"), [("int16", "int16:[5, 6, -1]"), ("double", "float64:[5.0, 6.0, -0.0]")])
def test_values_without_a_list_become_entries_of_a_table(kind, shown):
    check(
        f'y = {OP}<keys_strings=["a", "b"], values_tensor={kind}[2] {{5, 6}}>(x)', 4,
        f"""t1 = {OP}<default_int64=2, keys_strings=['a', 'b'], values_int64s=[0, 1]>(x)
        y = Gather<axis=0>({shown}, t1)""", 2,
        **ML, inputs="string[4] x", outputs=f"{kind}[4] y", **WORDS,
    )  # fmt: skip


def test_double_keys_are_refused():
    io = {"inputs": "double[4] x", "outputs": "int64[4] y", **ML}
    check_refused(f"y = {OP}<keys_tensor=double[1] {{0.1}}, values_int64s=[1]>(x)", 4, 2, "the keys are doubles", **io)


def test_a_default_of_several_elements_is_refused():
    text = f'y = {OP}<keys_strings=["a"], values_tensor=int64[1] {{7}}, default_tensor=int64[2] {{3, 4}}>(x)'
    check_refused(text, 4, 2, "default_tensor has 2 elements", **TO_INT)


def test_a_model_without_the_default_domain_is_refused_what_needs_it():
    text = f"""<ir_version: 8, opset_import: ["ai.onnx.ml" : 2]>
    g (string[4] x) => (float[4] y) {{ y = {OP}<keys_strings=["a"], values_floats=[1.5]>(x) }}"""
    refusals = convert.attempt(onnx.parser.parse_model(text), {"ai.onnx.ml": 1}).refusals
    assert [r.why for r in refusals] == [
        "Gather is needed, but the model imports no opset of its domain; add an opset import of it"
    ]
