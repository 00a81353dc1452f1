"""What no inputs lead to is run by force: a wrong branch is a difference, one that does not run is told."""

import numpy as np
import onnx.parser
import pytest

import opshift
from opshift.verification import engines, side
from opshift.verification.engines import EngineError
from opshift.verification.places import hidden
from opshift.verification.places.branches import branches
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

IO = {"inputs": "float[N,4] x", "outputs": "float[A,B] y"}
IF = "y = If(b) <then_branch = t () => (float[A,B] v) {{ v = {}(x) }}, else_branch = e () => (float[C,D] u) {{ u = {}(x) }}>"
NEVER = "c = Constant<value_float = 1e9>() s = ReduceSum<keepdims = 0>(x) b = Greater(s, c) "
SIZE = """n = Shape(x) i = Constant<value_ints = [0]>() r = Gather(n, i) k = Constant<value_ints = [10]>()
    b = Greater(r, k) """
NESTED = (
    NEVER
    + """y = If(b) <
    then_branch = t () => (float[A,B] v) {{
        d = Less(s, c)
        v = If(d) <then_branch = p () => (float[A,B] o) {{ o = {}(x) }}, else_branch = q () => (float[A,B] w) {{ w = {}(x) }}>
    }},
    else_branch = e () => (float[C,D] u) {{ u = Neg(x) }}>"""
)


@pytest.mark.parametrize("grade", ["exact", "close"])
@pytest.mark.parametrize(
    ("body", "right", "wrong", "said"),
    [
        (NEVER + IF, ("Relu", "Neg"), ("Abs", "Neg"), 'where the then_branch of If "y" is taken, '),
        (NEVER + IF, ("Relu", "Neg"), ("Relu", "Abs"), ""),
        (SIZE + IF, ("Relu", "Neg"), ("Abs", "Neg"), 'where the then_branch of If "y" is taken, '),
        (NESTED, ("Relu", "Neg"), ("Abs", "Neg"), 'where the then_branch of If "y" is taken, '),
        (NESTED, ("Relu", "Neg"), ("Relu", "Abs"), 'where the else_branch of If "v" is taken, '),
    ],
)
def test_each_branch_is_run(body, right, wrong, said, grade):
    one, other = (model(body.format(*ops), 17, **IO) for ops in (right, wrong))
    found = opshift.verify(one, one, grade=grade)
    assert (found.status, found.remarks) == ("equal", ())
    found = opshift.verify(one, other, grade=grade)
    assert (found.status, found.why.startswith(said)) == ("different", True)
    assert said or "taken" not in found.why


def test_a_condition_that_is_given_is_given_otherwise():
    io = {**IO, "inputs": "float[N,4] x, bool b"}
    one, other = (model(IF.format(op, "Neg"), 17, **io) for op in ("Relu", "Abs"))
    for value, said in ((False, 'where the then_branch of If "y" is taken'), (True, "")):
        given = {"x": np.float32([[1, -2, 3, -4]]), "b": np.array(value)}
        assert opshift.verify(one, one, inputs=given).remarks == ()
        found = opshift.verify(one, other, inputs=given)
        assert (found.status, found.why.startswith(said)) == ("different", True)
        assert said or "taken" not in found.why


IMPOSSIBLE = (
    NEVER
    + """k = Constant<value_ints = [5, 5]>() y = If(b) <
    then_branch = t () => (float[A,B] v) {{ v = Reshape(x, k) }}, else_branch = e () => (float[C,D] u) {{ u = {}(x) }}>"""
)


def test_a_branch_that_does_not_run_is_told():
    one, other = (model(IMPOSSIBLE.format(op), 17, **IO) for op in ("Neg", "Abs"))
    found = opshift.verify(one, one)
    assert found.equal
    (remark,) = found.remarks
    assert remark.startswith('the then_branch of If "y" ran on no inputs, and is not proved: [ONNXRuntimeError]')
    assert opshift.verify(one, other).status == "different"


def test_a_branch_that_only_the_second_does_not_run_is_a_difference():
    one, other = (model((NEVER + IF).format("Abs", "Neg"), 17, **IO), model(IMPOSSIBLE.format("Neg"), 17, **IO))
    found = opshift.verify(one, other)
    assert found.status == "different"
    assert found.why.startswith('where the then_branch of If "y" is taken, the second model fails: ')


def test_what_decides_is_looked_for_in_both():
    one = model((NEVER + IF).format("Abs", "Neg"), 17, **IO)
    found = opshift.verify(one, model("y = Neg(x)", 17, **IO))
    assert found.equal
    said = (
        'the then_branch of If "y" ran on no inputs, and is not proved: not both forms compute one "b", which decides'
    )
    assert found.remarks == (said,)


def test_conditions_keep_their_shapes():
    """That of an If may have one element in any number of dimensions, and be read by others."""
    body = NEVER.replace("<keepdims = 0>", "") + IF + " z = Not(b)"
    one = model(body.format("Abs", "Neg"), 17, **{**IO, "outputs": "float[A,B] y, bool[1,1] z"})
    found = opshift.verify(one, one)
    assert (found.status, found.remarks) == (
        "equal",
        ('"z" was the same in each run: what it is computed from is not proved',),
    )


FUNCTION = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
g (float[N,4] x) => (float[A,B] y) { y = my.Either (x) }
<domain: "my", opset_import: ["" : 17]>
Either (x) => (y) {
    c = Constant<value_float = 1e9>()
    s = ReduceSum<keepdims = 0>(x)
    b = Greater(s, c)
    y = If(b) <then_branch = t () => (float[A,B] v) { v = OP(x) }, else_branch = e () => (float[C,D] u) { u = Neg(x) }>
}"""


def test_branches_in_functions_are_run():
    one, other = (onnx.parser.parse_model(FUNCTION.replace("OP", op)) for op in ("Relu", "Abs"))
    found = opshift.verify(one, one)
    assert (found.status, found.remarks) == ("equal", ())
    found = opshift.verify(one, other)
    assert (found.status, found.why.startswith('where the then_branch of If "y" is taken')) == ("different", True)


@pytest.mark.parametrize(
    ("before", "conditions"),
    [
        ("", [{("", "b"): True}, {("", "b"): False}]),
        ("b = Constant<value_int = 1>() ", []),  # a constant decides: nothing else is ever run
    ],
)
def test_what_leads_to_a_branch(before, conditions):
    inner = "v = If(b) <then_branch = p () => (float w) { w = Neg(x) }, else_branch = q () => (float o) { o = Abs(x) }>"
    body = (
        f"y = If(b) <then_branch = t () => (float v) {{ {inner} }}, else_branch = e () => (float u) {{ u = Exp(x) }}>"
    )
    io = {"inputs": "float x" if before else "float x, bool b", "outputs": "float y"}
    found = branches(model(before + body, 17, **io))
    assert [dict(branch.conditions) for branch in found] == conditions[:1] * 2 + conditions[1:], "one is in the way"


def test_inner_branches_that_ran_are_known():
    """What decides inside a branch is seen where it ran: only what did not is told, and run if it does so."""
    inner = """c = Constant<value_float = 1e9>() s = ReduceSum<keepdims = 0>(x) d = Less(s, c)
        v = If(d) <then_branch = p () => (float[A,B] o) {{ o = {}(x) }}, else_branch = q () => (float[A,B] w) {{ w = {} }}>"""
    body = "y = If(b) <then_branch = t () => (float[A,B] v) {{ {} }}, else_branch = e () => (float[C,D] u) {{ u = Neg(x) }}>"
    io = {**IO, "inputs": "float[N,4] x, bool b", "constants": "int64[2] k = {5, 5}"}
    one, other = (model(body.format(inner.format(op, "Reshape(x, k)")), 17, **io) for op in ("Relu", "Abs"))
    found = opshift.verify(one, one)
    assert found.equal
    (remark,) = found.remarks
    assert remark.startswith('the else_branch of If "v" ran on no inputs, and is not proved: ')
    assert opshift.verify(one, other).status == "different"
    given = {"x": np.float32([[1, -2, 3, -4]]), "b": np.array(False)}
    found = opshift.verify(one, other, inputs=given)
    assert (found.status, found.why.startswith('where the then_branch of If "y" is taken')) == ("different", True)
    one, other = (model(body.format(inner.format("Relu", f"{op}(x)")), 17, **io) for op in ("Neg", "Abs"))
    found = opshift.verify(one, other, inputs=given)
    assert (found.status, found.why.startswith('where the else_branch of If "v" is taken')) == ("different", True)


@pytest.mark.parametrize("inside", [False, True])
def test_branches_are_run_with_the_inputs_that_came_nearest(monkeypatch, inside):
    """And with nothing held but what was decided otherwise, wherever it is computed."""
    tried = []
    monkeypatch.setattr(
        hidden.branches, "_deciding", lambda _, lacking, given: tried.append((lacking, given)) or fail()
    )
    makes = "c = Constant<value_float = 1e9>() s = ReduceSum<keepdims = 0>(x) d = Greater(s, c)"
    body = f"""{makes * (not inside)} y = If(b) <
        then_branch = t () => (float[A,B] v) {{
            {makes * inside}
            v = If(d) <then_branch = p () => (float[A,B] o) {{ o = Abs(x) }}, else_branch = q () => (float[A,B] w) {{ w = Exp(x) }}>
        }},
        else_branch = e () => (float[C,D] u) {{ u = Neg(x) }}>"""
    one = model(body, 17, **{**IO, "inputs": "float[N,4] x, bool b"})
    given = [{"x": np.float32([[k, 2, 3, 4]]), "b": np.array(k == 1)} for k in range(3)]
    found = opshift.verify(one, one, inputs=given)
    assert [(lacking, held["x"][0, 0]) for lacking, held in tried] == [({("", "d"): True}, 1)]
    assert found.remarks == ('the then_branch of If "v" ran on no inputs, and is not proved: no',)


def fail():
    raise EngineError("no")


def test_no_more_than_some_are_tried(monkeypatch):
    monkeypatch.setattr(hidden.branches, "MOST", 2)
    one = model(
        NEVER + " ".join(f"{y} = If(b) <then_branch = t () => (float[A,B] v) {{ v = Reshape(x, k) }}, "
                         f"else_branch = e () => (float[C,D] u) {{ u = Neg(x) }}>" for y in "pqry"),
        17, **{**IO, "constants": "int64[2] k = {5, 5}"},
    )  # fmt: skip
    (remark,) = opshift.verify(one, one).remarks
    assert remark.startswith('the then_branch of If "p" and 3 more ran on no inputs, and are not proved: ')


SET = "k = Constant<value_int = 16000>() b = Equal(r, k) "
RATE = {**IO, "inputs": "float[N,4] x, int64 r"}
UNSET = {**IO, "inputs": "float[N,4] x", "constants": "int64 r = {16000}"}
INNER = f"""y = If(a) <
    then_branch = t () => (float[A,B] m) {{{{ {(SET + IF).replace("y =", "m =")} }}}},
    else_branch = e () => (float[C,D] o) {{{{ o = Exp(x) }}}}>"""


@pytest.mark.parametrize("second", [RATE, UNSET])
@pytest.mark.parametrize("before", ["", "j = Identity(r) r2 = Add(j, j) k2 = Constant<value_int = 32000>() "])
def test_what_values_decide_that_are_set_is_not_asked_for(monkeypatch, before, second):
    body = before + (SET.replace("r, k", "r2, k").replace("16000", "32000") if before else SET) + IF
    one, other = model(body.format("Abs", "Neg"), 17, **RATE), model(body.format("Abs", "Cos"), 17, **second)
    with monkeypatch.context() as held:
        held.setattr(hidden.branches, "_attempt", lambda *_: pytest.fail("a branch is forced"))
        found = opshift.verify(one, other, set={"r": 16000})
        assert (found.status, found.remarks) == ("equal", ())
        found = opshift.verify(one, model("y = Abs(x)", 17, **{**IO, "inputs": "float[N,4] x"}), set={"r": 16000})
        assert (found.status, found.remarks) == ("equal", ())
    found = opshift.verify(one, model(body.format("Cos", "Neg"), 17, **second), set={"r": 16000})
    assert (found.status, "taken" in found.why) == ("different", False), "what they do lead to is run"


def test_what_values_decide_in_part_is_asked_for():
    """Where it hangs on other inputs, too, or on drawn numbers."""
    for made in ("h = ReduceSum<keepdims = 0>(x)", "h = RandomNormal<shape = [1]>()"):
        decides = f"{made} z = Constant<value_float = 1e9>() g = Greater(h, z) " + SET.replace("b =", "q =")
        body = f"{decides} b = And(g, q) {IF}"
        one, other = (model(body.format(op, "Neg"), 17, **RATE) for op in ("Relu", "Abs"))
        assert opshift.verify(one, one, set={"r": 16000}).remarks == ()
        found = opshift.verify(one, other, set={"r": 16000})
        assert (found.status, found.why.startswith('where the then_branch of If "y" is taken')) == ("different", True)


def test_what_values_decide_in_a_branch():
    io = {**IO, "inputs": "float[N,4] x, int64 r, bool a"}
    one, other = (model(INNER.format("Abs", op), 17, **io) for op in ("Neg", "Cos"))
    given = {"x": np.float32([[1, -2, 3, -4]]), "a": np.array(True)}
    found = opshift.verify(one, other, inputs=given, set={"r": 16000})
    assert (found.status, found.remarks) == ("equal", ())
    assert opshift.verify(one, other, inputs={**given, "r": np.array(16000)}).status == "different", "it is not set"


@pytest.mark.parametrize(
    ("sizes", "decides", "said"),
    [
        ("3,4", "x", "ran on no inputs: at the sizes that are fixed, none lead there"),
        ("3,4", "e", "ran on no inputs: at the sizes that are fixed, none lead there"),
        ("N,4", "x", 'ran on no inputs, and is not proved: not both forms compute one "b", which decides'),
        ("3,4", "w", 'ran on no inputs, and is not proved: not both forms compute one "b", which decides'),
    ],
)
def test_what_sizes_decide_that_are_fixed_lacks_no_proof(sizes, decides, said):
    """Those of the second form; of what is picked by its value, nobody knows how much there is."""
    body = f"e = Exp(x) w = NonZero(x) {SIZE.replace('Shape(x)', f'Shape({decides})')} {IF}"
    one = model(body.format("Abs", "Neg"), 17, **IO)
    found = opshift.verify(one, model("y = Neg(x)", 17, **{**IO, "inputs": f"float[{sizes}] x"}), input_shape="x:3,4")
    assert (found.status, found.remarks) == ("equal", (f'the then_branch of If "y" {said}',))


def test_what_both_forms_hold_is_run_at_fixed_sizes():
    io = {**IO, "inputs": "float[3,4] x"}
    one, other = (model((SIZE + IF).format(op, "Neg"), 17, **io) for op in ("Relu", "Abs"))
    assert opshift.verify(one, one).remarks == ()
    found = opshift.verify(one, other)
    assert (found.status, found.why.startswith('where the then_branch of If "y" is taken')) == ("different", True)


def test_both_kinds_are_told_of():
    body = SIZE.replace("b =", "d =") + NEVER + IF + " " + IF.replace("y =", "z =").replace("If(b)", "If(d)")
    one = model(body.format("Abs", "Neg", "Abs", "Neg"), 17, **{**IO, "outputs": "float[A,B] y, float[E,F] z"})
    io = {"inputs": "float[3,4] x", "outputs": "float[A,B] y, float[E,F] z"}
    assert opshift.verify(one, model("y = Neg(x) z = Neg(x)", 17, **io), input_shape="x:3,4").remarks == (
        'the then_branch of If "y" ran on no inputs, and is not proved: not both forms compute one "b", which decides',
        'the then_branch of If "z" ran on no inputs: at the sizes that are fixed, none lead there',
    )


@pytest.mark.parametrize(
    ("body", "io", "asked", "named"),
    [
        (NEVER + IF, IO, {}, 'If "y"'),
        (NESTED, IO, {}, 'If "y" and 1 more'),
        ("y = Abs(x)", IO, {}, ""),
        (SET + IF, RATE, {"set": {"r": 16000}}, ""),
        (SET + IF, RATE, {"set": {"r": 8000}}, ""),
        (NEVER + SET.replace("b =", "d =") + IF, RATE, {"set": {"r": 8000}}, 'If "y"'),
        (IF, {**IO, "inputs": "float[N,4] x, bool b"}, {"inputs": [{"b": np.array(b)} for b in (True, False)]}, ""),
        (IF, {**IO, "inputs": "float[N,4] x, bool b"}, {"inputs": [{"b": np.array(True)}]}, 'If "y"'),
    ],
)
def test_of_what_is_large_nothing_is_forced_and_that_is_told(monkeypatch, body, io, asked, named):
    for room in (engines, side):
        monkeypatch.setattr(room, "LARGE", 0)
    held = {**io, "constants": "float[1] weight = {0}"}
    one = model(body.format("Abs", "Neg"), 17, **held)
    said = f"not every branch of {named} is known to have run, and be proved: that is not looked into where weights are over 256 MB"
    found = opshift.verify(one, one, **asked)
    assert (found.status, found.remarks) == ("equal", (said,) if named else ())
