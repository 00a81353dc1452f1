"""Strings: stop words are looked up, anything else is refused with its reason."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_refused, check_values, evaluate, model

pytestmark = pytest.mark.newest  # older kernels want a locale that a machine may not have

SENSITIVE = "is_case_sensitive=1"
TEXT = np.array(["a", "B", "", "a", "stop", "b", "ä"], object)


def io(dims="7"):
    return {"inputs": f"string[{dims}] x", "outputs": f"string[{'M' if ',' not in dims else 'P,M'}] y"}


def test_without_stop_words_nothing_changes():
    given = {**io("2"), "outputs": "string[2] y"}
    for held in ("", f"<{SENSITIVE}>", "<is_case_sensitive=0>"):
        check(f"y = StringNormalizer{held}(x)", 10, "y = Identity(x)", 9, **given)


@pytest.mark.parametrize("dims", ["7", "N", "1,7", "1,N"])
@pytest.mark.parametrize("words", ['"a"', '"stop", "a", "a", "A"', '""', '"a", "B", "", "stop", "b", "ä"', '"none"'])
def test_stop_words_are_looked_up_below_10(dims, words):
    x = TEXT.reshape(1, 7) if "," in dims else TEXT
    body = f"y = StringNormalizer<{SENSITIVE}, stopwords=[{words}]>(x)"
    check_down(body, 10, 9, 8, 7, feeds={"x": x}, **io(dims))


def test_the_lookup_brings_its_domain_along():
    body = f'y = StringNormalizer<{SENSITIVE}, stopwords=["a"]>(x)'
    made = check_down(body, 13, 9, feeds={"x": TEXT}, **io())
    assert [(entry.domain, entry.version) for entry in made.opset_import] == [("", 9), ("ai.onnx.ml", 1)]
    made = check_down(body, 13, 9, feeds={"x": TEXT}, domains='"ai.onnx.ml" : 3', **io())
    assert [(entry.domain, entry.version) for entry in made.opset_import] == [("", 9), ("ai.onnx.ml", 3)]
    untouched = convert.attempt(model("y = Identity(x)", 13, **io()), {"": 9}).model
    assert [entry.domain for entry in untouched.opset_import] == [""]


def test_a_function_imports_what_it_uses():
    source = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13, "own" : 1]> g (string[7] x) => (string[M] y) { y = own.f(x) }'
        '<domain: "own", opset_import: ["" : 13]>'
        f'f (x) => (y) {{ z = Identity(x) y = StringNormalizer<{SENSITIVE}, stopwords=["a"]>(z) }}'
    )
    made = convert.attempt(source, {"": 9}, ir_version=8).model
    check_values(source, made, {"x": TEXT}, rtol=0, atol=0)


def test_a_domain_that_is_used_but_not_imported_is_not_supplied():
    source = model(
        'z = ai.onnx.ml.CategoryMapper<cats_strings=["a"], cats_int64s=[1]>(x)'
        f'y = StringNormalizer<{SENSITIVE}, stopwords=["a"]>(x)',
        10, inputs="string[7] x", outputs="int64[7] z, string[M] y",
    )  # fmt: skip
    result = convert.attempt(source, {"": 9})
    assert result.model is None


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        (
            'case_change_action="LOWER", is_case_sensitive=1',
            "case_change_action=LOWER changes the case of letters, which no operator of opset 9",
        ),
        (
            'case_change_action="UPPER", stopwords=["a"]',
            "case_change_action=UPPER changes the case of letters, which no operator of opset 9",
        ),
        ('stopwords=["a"]', "is_case_sensitive=0 compares without case, which no operator of opset 9 does"),
    ],
)
def test_case_is_refused_below_10(attributes, why):
    check_refused(f"y = StringNormalizer<{attributes}>(x)", 10, 9, why, **io())


@pytest.mark.parametrize(
    ("body", "outputs", "why"),
    [
        ("y = StringConcat(x, x)", "string[7] y", "no operator below opset 20 joins strings"),
        ("y, n = StringSplit(x)", "string[7,M] y, int64[7] n", "no operator below opset 20 splits strings"),
        ('y = RegexFullMatch<pattern="a+">(x)', "bool[7] y", "no operator below opset 20 matches"),
    ],
)
def test_what_changes_strings_is_refused_below_20(body, outputs, why):
    check_refused(body, 20, 19, f"opset 20 -> 19): {why}", inputs="string[7] x", outputs=outputs)
    assert evaluate(model(body, 20, inputs="string[7] x", outputs=outputs), {"x": TEXT})
