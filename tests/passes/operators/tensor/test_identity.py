"""Identity of sequences, of optionals and of tensors."""

import pytest

from tests.support import check, check_refused, check_unchanged


@pytest.mark.parametrize(("elem_type", "element"), [("float", "0.0"), ("string", "object:"), ("bool", "bool:False")])
def test_a_sequence_is_copied_by_two_operators_below_14(elem_type, element):
    check(
        "s = SequenceConstruct(x) t = Identity(s) i = Constant<value_int=0>() y = SequenceAt(t, i)",
        14,
        f"""t1 = SequenceConstruct(x)
        t2 = SequenceInsert(t1, {element})
        t3 = SequenceErase(t2)
        y = SequenceAt(t3, 0)""",
        13,
        inputs=f"{elem_type}[2] x",
        outputs=f"{elem_type}[2] y",
    )


def test_an_identity_of_a_tensor_stays():
    check_unchanged("y = Identity(x)", 28, 7, inputs="float[N] x", outputs="float[N] y")


def test_an_identity_of_an_optional_is_refused():
    body = "o = Optional(x) p = Identity(o) y = OptionalGetElement(p)"
    check_refused(body, 16, 15, "optional(float)", inputs="float[N] x", outputs="float[N] y")
