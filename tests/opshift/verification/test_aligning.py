"""Values of a second model get the names that the first one has for them, as far as the same nodes compute them."""

import pytest

from opshift.verification.aligning import align
from opshift.verification.regions import Body
from opshift.verification.side import Side
from tests.support import model

IO = {"inputs": "float[N,4] x", "outputs": "float[A,B] y", "constants": "float[4] w = {1, 2, 3, 4}"}
CHAIN = "a = Tanh(x) b = Tanh(a) c = Tanh(b) y = Mul(c, w)"
BRANCH = "r = ReduceSum<keepdims = 0>({0}) z = Less(r, r) y = If(z) <then_branch = t () => (float[A,B] v) {{v = Exp({0})}}, else_branch = e () => (float[C,D] u) {{u = Neg(x)}}>"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (CHAIN, CHAIN, CHAIN),
        (CHAIN, "b = Tanh(x) c = Tanh(b) d = Tanh(c) y = Mul(d, w)", CHAIN),
        (CHAIN, "c = Tanh(x) b = Tanh(c) a = Tanh(b) y = Mul(w, a)", CHAIN.replace("c, w", "w, c")),
        # from the outputs back, where the beginning is another one; a name in its place means nothing
        (CHAIN, "b = Sinh(x) c = Tanh(b) d = Tanh(c) y = Mul(d, w)", CHAIN.replace("Tanh(x)", "Sinh(x)")),
        ("a = Exp(x) b = Tanh(a) y = Abs(b)", "a = Tanh(x) y = Abs(a)", "b = Tanh(x) y = Abs(b)"),
        # an Identity computes nothing; equal nodes keep their own names
        ("a = Tanh(x) i = Identity(a) y = Neg(i)", "i = Tanh(x) y = Neg(i)", "i = Tanh(x) y = Neg(i)"),
        ("a = Tanh(x) b = Tanh(x) y = Add(a, b)", "b = Tanh(x) a = Tanh(x) y = Add(a, b)", "b = Tanh(x) a = Tanh(x) y = Add(a, b)"),
        ("a = Tanh(x) " + BRANCH.format("a"), "r = Tanh(x) " + BRANCH.replace("r = R", "p = R").replace("r, r", "p, p").format("r"), "a = Tanh(x) " + BRANCH.format("a")),
    ],
)  # fmt: skip
def test_values_are_named_as_in_the_first_model(before, after, expected):
    first, second, wanted = (model(text, 17, **IO) for text in (before, after, expected))
    assert align(Body(Side(first)), Body(Side(second))).model.graph.node == wanted.graph.node


def test_weights_are_named_by_their_content():
    first, second = (
        model(CHAIN, 17, **IO),
        model(CHAIN.replace("w", "u"), 17, **{**IO, "constants": "float[4] u = {1, 2, 3, 4}"}),
    )
    assert align(Body(Side(first)), Body(Side(second))).model.graph == first.graph
