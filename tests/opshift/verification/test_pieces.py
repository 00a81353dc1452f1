"""The region around a node in two models."""

import pytest
from opshift.passes.model.pieces import Pieces

from opshift.verification.pieces import find_counterparts
from tests.support import model


def around(before, after, name):
    io = {"inputs": "float[2] x", "outputs": "float[2] y", "constants": "float[2] w = {1, 2}"}
    pieces = [Pieces(model(body, 17, **io)) for body in (before, after)]
    for held in pieces:
        for node in held.nodes:
            node.name = f"{node.op_type}_"
    found = find_counterparts(*pieces, name)
    return None if found is None else tuple("".join(node.output[0] for node in side) for side in found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", ("a", "a")),
        ("Abs_", ("a", "a")),
        ("p", ("pqb", "rb")),
        ("q", ("pqb", "rb")),
        ("r", ("pqb", "rb")),
        ("Sqrt_", ("pqb", "rb")),
        ("b", ("pqb", "rb")),
        ("y", ("y", "y")),
        ("nobody", None),
    ],
)
def test_what_stands_in_the_place_of_a_node(name, expected):
    before = "a = Abs(x) p = Exp(a) q = Mul(p, w) b = Neg(q) y = Relu(b)"
    after = "a = Abs(x) r = Sqrt(a) b = Neg(r) y = Relu(b)"
    assert around(before, after, name) == expected


def test_a_node_may_lead_to_several_values():
    before = "p = Exp(x) a = Abs(p) b = Neg(p) y = Add(a, b)"
    after = "q = Sqrt(x) a = Abs(q) b = Neg(q) y = Add(a, b)"
    assert around(before, after, "p") == ("pab", "qab")
    assert around("p = Exp(x) y = Abs(p) z = Neg(p)", "q = Exp(x) y = Abs(q) z = Neg(q)", "p") == ("pyz", "qyz")


def test_what_leads_to_nothing_of_the_other_model_has_no_region():
    assert around("y = Abs(x) p = Exp(x) q = Neg(p)", "y = Abs(x)", "p") is None


def test_a_region_of_diamonds_is_gone_through_once():
    ways = [f"p{k} = Abs(a{k}) q{k} = Neg(a{k}) a{k + 1} = Add(p{k}, q{k})" for k in range(64)]
    before = f"a0 = Exp(x) {' '.join(ways)} z = Neg(a64) y = Neg(a0)"
    one, other = around(before, "z = Neg(x) y = Exp(x)", "a0")
    assert (one.count("p"), other) == (64, "zy")


def test_weights_end_a_region():
    pieces = Pieces(
        model(
            "a = Abs(x) b = Add(a, w) y = Exp(b)",
            17,
            constants="float[2] w = {1, 2}",
            inputs="float[2] x",
            outputs="float[2] y",
        )
    )
    assert tuple(len(side) for side in find_counterparts(pieces, pieces, "b")) == (1, 1)
