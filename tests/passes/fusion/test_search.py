"""What is put in the place of nodes: under their name, with their notes, and said in these words."""

import pytest
from opshift.passes.fusion import fold, masks, search
from opshift.passes.fusion.patterns import PatternCall, PatternTensor

from tests.passes.fusion.folding import GELU, GELU_CONSTANTS
from tests.support import model

X = PatternTensor(1, (2,))


def gelu():
    io = {"inputs": "float[2,3] x", "outputs": "float[2,3] y", "constants": GELU_CONSTANTS}
    return model(f"{GELU} g = Mul(x, f) y = Mul(g, half)", 20, **io)


def test_what_is_written_keeps_the_name_and_the_notes_of_the_last_node():
    source = gelu()
    last = source.graph.node[-1]
    last.name, last.doc_string = "out", "said"
    last.metadata_props.add(key="k", value="v")
    source.graph.node[0].metadata_props.add(key="other", value="o")
    result = fold.attempt(source, ops=[("", "Gelu")])
    (made,) = result.model.graph.node
    assert (made.op_type, made.name, made.doc_string, list(made.output)) == ("Gelu", "out", "said", ["y"])
    assert [(entry.key, entry.value) for entry in made.metadata_props] == [("k", "v")]
    (change,) = result.changes
    assert (change.node, change.op, change.domain, change.source, change.target) == ("out", "Gelu", "", 20, 20)


def test_what_has_no_name_is_told_by_its_output():
    (change,) = fold.attempt(gelu(), ops=[("", "Gelu")]).changes
    assert change.node == "y"


@pytest.mark.parametrize(
    ("shapes", "numbers"),
    [
        ([], True),
        ([[2, 3]], True),
        ([[2, 0]], False),
        ([[2, "N"]], False),
        ([[2, None]], False),
        ([None], False),
        ([[2], None], False),
        ([[]], True),
    ],
)
def test_shapes_of_numbers_above_0(shapes, numbers):
    assert search._are_numbers(shapes) is numbers


@pytest.mark.parametrize(
    ("op", "inputs", "remedy", "remark"),
    [
        ("Gelu", 1, masks.MaskRemedy.NONE, "the operator may round otherwise than its definition"),
        ("Attention", 3, masks.MaskRemedy.NONE, "the operator may round otherwise than its definition"),
        ("Attention", 4, masks.MaskRemedy.NONE, "the operator may round otherwise; a query that attends to no key yields 0, where Softmax yields NaN or the mean of all values"),
        ("Attention", 4, masks.MaskRemedy.RAISED, "the operator may round otherwise; raised the lowest number in the mask"),
    ],
)  # fmt: skip
def test_what_is_remarked(op, inputs, remedy, remark):
    assert search._remark(PatternCall(("", op), 23, (X,) * inputs), remedy) == remark
