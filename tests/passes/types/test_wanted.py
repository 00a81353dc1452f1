"""What a user asks of element types, read from options."""

import pytest
from onnx import TensorProto, helper
from opshift.passes.types.wanted import matches, types

T = TensorProto


@pytest.mark.parametrize(
    ("text", "mapping"),
    [
        ("float16", {T.FLOAT: T.FLOAT16}),
        ("fp16", {T.FLOAT: T.FLOAT16}),
        ("BF16", {T.FLOAT: T.BFLOAT16}),
        ("float32", {T.FLOAT16: T.FLOAT, T.BFLOAT16: T.FLOAT}),
        ("float64=float32", {T.DOUBLE: T.FLOAT}),
        ("float16=bfloat16", {T.FLOAT16: T.BFLOAT16}),
    ],
)
def test_types_that_become_others(text, mapping):
    assert types(text).mapping == mapping


def test_float16_alone_leaves_float64_as_it_is():
    assert T.DOUBLE not in types("float16").mapping


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("float15", "unknown type 'float15'; did you mean float16?"),
        ("", "--types needs a type"),
        ("float16,bfloat16", "names two types for float32"),
        ("float32=float32", "the two types are the same"),
        ("float16,float64=float32", "use two commands"),
    ],
)
def test_what_has_no_meaning(text, why):
    with pytest.raises(ValueError, match=why.replace("?", r"\?")):
        types(text)


@pytest.mark.parametrize(
    "options", [{"interface": "wide"}, {"budget": "x:0"}, {"budget": "-1"}, {"interface": "x=int8"}]
)
def test_options_that_have_no_meaning(options):
    with pytest.raises(ValueError, match=r"interface|budget|unknown type"):
        types("float16", **options)


def test_narrower_types_narrow_and_wider_ones_do_not():
    assert types("float16").narrows
    assert types("float64=float32").narrows
    assert not types("float32").narrows


def test_budgets_by_output():
    held = types("float16", budget=["0.02", "y:0.5"])
    assert (held.budget("x"), held.budget("y")) == (0.02, 0.5)
    assert types("float16").budget("x") == 0.01
    assert types("bfloat16").budget("x") == 0.04


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("op:Soft*", True),
        ("node:*head*", True),
        ("value:y", True),
        ("Softmax", True),
        ("op:head", False),
        ("node:y", False),
        ("value:x", False),
    ],
)
def test_patterns(pattern, found):
    node = helper.make_node("Softmax", ["x"], ["y"], name="model/head/0")
    assert bool(matches([pattern], node)) is found


def test_patterns_in_a_file(tmp_path):
    file = tmp_path / "keep.txt"
    file.write_text("op:Softmax  # as last time\n\nnode:a\n")
    assert types("float16", keep=f"@{file}").keep == ("op:Softmax", "node:a")
