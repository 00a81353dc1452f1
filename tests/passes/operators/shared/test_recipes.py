"""Changes that happen to many operators."""

import pytest
from opshift.passes.conversion import convert

from tests.support import check_unchanged, model, show

X = {"inputs": "{0}[3] x", "outputs": "{0}[3] y"}
UNARY = [
    *("Abs", "Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log", "Max", "Mean", "Min", "Neg"),
    *("Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sum", "Tanh"),
]


def of(kind):
    return {key: text.format(kind) for key, text in X.items()}


@pytest.mark.parametrize("op", UNARY)
def test_the_hint_goes_at_6(op):
    source = model(f"y = {op}<consumed_inputs=[0]>(x)", 1, **of("float"))
    assert show(convert.attempt(source, {"": 6}).model) == f"y = {op}(x)"
    check_unchanged(f"y = {op}(x)", 1, 6, **of("float"))
    check_unchanged(f"y = {op}(x)", 6, 1, **of("float"))
