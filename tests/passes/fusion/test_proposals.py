"""Of the calls whose definition a term is, the one that saves most nodes is proposed; of two alike, the first."""

import pytest
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.fusion import patterns, proposals
from opshift.passes.fusion.families import BY_NAME, FAMILIES
from opshift.passes.fusion.group import Uses
from opshift.passes.fusion.proposals import Proposals, RegionKnowledge
from opshift.passes.fusion.reader import Reader
from opshift.passes.fusion.reading.all import RULES
from opshift.passes.fusion.terms import Terms

from tests.passes.fusion.folding import GELU, GELU_CONSTANTS
from tests.support import model

IO = {"inputs": "float[2,3] x, float[3,4] k, float[4] b", "outputs": "float[A,B] y"}
HELD = f"{GELU_CONSTANTS}, float c3 = {{0.044715}}, float root2 = {{0.7978845608028654}}, float three = {{3}}"
TANH = "p = Pow(x, three) q = Mul(p, c3) r = Add(x, q) s = Mul(r, root2) t = Tanh(s) f = Add(t, one) g = Mul(x, half) y = Mul(g, f)"


def read(body, op, permits=lambda index, proposal: True):
    """What is proposed for the whole of a body."""
    source = model(body, 20, constants=HELD, **IO)
    reader = Reader(Terms(), Scope(source.graph, Context(source, source), 20, path=()), RULES)
    for node in source.graph.node:
        reader.read(node)
    of = Proposals(reader, Uses(source.graph), FAMILIES | BY_NAME, 1, RegionKnowledge(), permits)
    return of._read(len(source.graph.node) - 1, 1, ("", op), of._whole, ())


def test_a_call_without_a_definition_is_passed_over(monkeypatch):
    found, saved = read(TANH, "Gelu")
    assert (found.pattern.call.attributes, saved) == ((("approximate", "tanh"),), 8)
    known = patterns.pattern
    none = (("approximate", "none"),)
    monkeypatch.setattr(patterns, "pattern", lambda call: None if call.attributes == none else known(call))
    assert read(TANH, "Gelu")[0].pattern.call == found.pattern.call
    assert read(f"{GELU} g = Mul(x, f) y = Mul(g, half)", "Gelu") == (None, 0)


@pytest.mark.parametrize(
    ("body", "marks", "saved"),
    [("p = MatMul(x, k) y = Add(p, b)", (), 2), ("p = MatMul(x, k) q = Mul(p, half) y = Add(q, b)", ("alpha",), 3)],
)
def test_of_calls_that_save_as_much_the_first_is_taken(body, marks, saved):
    """A float that may be anything is asked for last."""
    found, most = read(body, "Gemm")
    assert (found.pattern.call.marks, dict(found.floats)) == (marks, dict.fromkeys(marks, 0.5))
    assert (found.saved, most) == (saved, saved)


def test_what_nothing_permits_is_counted_all_the_same():
    asked = []
    assert read(TANH, "Gelu", lambda index, proposal: asked.append(proposal)) == (None, 8)
    assert len(asked) == 1


def test_floats_that_are_single():
    held = patterns.single(0.1)
    assert [proposals._is_single(held * (1 + off)) for off in (0, 5e-15, 1.5e-14, 1e-9)] == [True, True, False, False]
    assert not proposals._is_single(0.1)
