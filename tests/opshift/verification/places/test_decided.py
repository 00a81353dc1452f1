"""What is the same in every run follows from what is given once and for all: all that it reads does, and nothing draws it."""

import pytest

from opshift.verification.places.branches import Branch
from opshift.verification.places.decided import following, sized
from tests.support import model

IO = {"inputs": "float[N,4] x, int64 r, bool b", "outputs": "float[3,4] y", "constants": "int64 k = {1}"}


def loop(read, made):
    return f"""t = Loop(k, b, r) <body = l (int64 i, bool c, int64 {read}) => (bool d, int64 o) {{
        d = Identity(c) o = {made} }}>"""


def either(then, other):
    return f"t = If(b) <then_branch = p () => (int64 v) {{ v = {then} }}, else_branch = q () => (int64 w) {{ w = {other} }}>"


@pytest.mark.parametrize(
    ("body", "known", "follows"),
    [
        ("t = Add(r, k)", ["r"], True),
        ("t = Add(r, k)", [], False),
        ("t = Clip(r, , k)", ["r"], True),
        ("s = Add(r, k) t = Mul(s, s)", ["r"], True),
        ("t = Shape(x)", ["r"], False),
        ("t = RandomNormal<shape = [1]>()", [], False),
        ("t = my.Own(r)", ["r"], False),
        (either("Neg(r)", "Abs(k)"), ["r", "b"], True),
        (either("Neg(r)", "Abs(k)"), ["r"], False),
        (either("Neg(r)", "Abs(k)"), ["b"], False),
        (either("Abs(k)", "Neg(r)"), ["b"], False),
        (loop("a", "Neg(a)"), ["r", "b"], False),
        (loop("r", "Neg(r)"), ["r", "b"], False),
        (loop("a", "Neg(k)"), ["r", "b"], False),
    ],
)
def test_what_follows_from_values(body, known, follows):
    graph = model(f"{body} y = Identity(x)", 17, **IO, domains='"my" : 1').graph
    assert ("t" in following(graph, known)) == follows


def test_what_follows_inside():
    graph = model(f"{either('Neg(r)', 'Abs(k)')} y = Identity(x)", 17, **IO).graph
    assert {"v", "w"} & following(graph, []) == {"w"}
    assert {"v", "w"} & following(graph, ["r"]) == {"v", "w"}


def test_sizes():
    """Those that inputs have, not those that are declared of anything else."""
    body = "e = Exp(x) w = NonZero(x) s = Shape(e) u = Transpose(w) y = Expand(x, r2)"
    io = {**IO, "inputs": "float[N,4] x, int64[2] r2"}
    one, fixed = model(body, 17, **io), model("y = Neg(x)", 17, **{**IO, "inputs": "float[3,4] x"})
    one.graph.value_info.add(name="u").CopyFrom(one.graph.output[0])
    one.graph.value_info[0].name = "u"
    assert sized(one, fixed) == {"x", "e", "s", "r2"}
    assert sized(one, one) == {"s", "r2"}
    assert {"s", "t"} & following(one.graph, [], sized(one, fixed)) == {"s"}


def test_sizes_inside():
    branches = "then_branch = p () => (float[7] v) { q = Exp(x) v = Neg(q) }, else_branch = n () => (float[7] u) { u = NonZero(x) }"
    one = model(
        f"b = Constant<value_int = 1>() o = If(b) <{branches}> y = Neg(o)", 17, **{**IO, "inputs": "float[N,4] x"}
    )
    fixed = model("y = Neg(x)", 17, **{**IO, "inputs": "float[3,4] x"})
    assert {"q", "u", "o"} & sized(one, fixed) == {"q"}
    assert {"q", "u", "o"} & sized(one, one) == set()


def test_sizes_of_what_is_no_model_are_those_of_its_inputs():
    one = model("t = Add(x, b) y = Reshape(t, x)", 17, **{**IO, "inputs": "float[3,4] x, bool b"})
    assert sized(one, one) >= {"x", "b"}


def test_a_branch_is_barred_by_what_was_seen_to_be_otherwise():
    branch = Branch("then_branch", "y", {("", "a"): True, ("f", "b"): True})
    assert branch.is_barred([{}, {("", "a"): False}], {"a"})
    assert not branch.is_barred([{}, {("", "a"): True}], {"a"})
    assert not branch.is_barred([{("", "a"): False}], {"b"})
    assert not branch.is_barred([{("f", "b"): False}], {"b"}), "a value of a function has the name of another"
