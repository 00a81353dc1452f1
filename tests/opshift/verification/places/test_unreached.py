"""Numbers and turns that no inputs lead to: both forms are given them by force, or it is said that they were not."""

import numpy as np
import onnx.numpy_helper
import pytest

import opshift
from opshift.verification.places import unreached
from opshift.verification.places.levels import levelled
from tests.support import model

IO = {"inputs": "float[N,8] x", "outputs": "float[N,8] y"}
FAR = "float k = {-1e6}, float t = {1e5}, float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] v = {8, 7, 6, 5, 4, 3, 2, 1}"
BESIDE = "a = Mul(x, w) b = Add(a, k) "  # never above 0
LOOP = """z = Constant<value = int64 {0}>() f = Constant<value = int64 {5}>() g = Constant<value = bool {1}>() s = Shape(x)
    n = Gather(s, z) m = Sub(n, f) l = Loop(m, g, x) <body = r (int64 i, bool c, float[N,8] p) => (bool d, float[N,8] q) {
    d = Identity(c) q = %s(p, p) }> y = Add(l, x)"""
QUANTIZED = """q = QuantizeLinear(x, s, z) h = Clip(q, lo, hi) d = DequantizeLinear(h, s, z) y = Add(d, x)"""

PAIRS = {
    "a Relu that is dead beside a residual": (
        f"{BESIDE} c = Relu(b) d = Mul(c, {{}}) y = Add(d, x)", "v", "w",
        'where Relu "c" is given numbers above 0, ',
    ),
    "a bound that nothing reaches": (
        "a = Mul(x, w) c = Clip(a, k, {}) y = Add(c, x)", "t", "t2",
        'where Clip "c" is given numbers ',
    ),
    "a bound that only the second has": ("y = {}(x, t)", "Add", "Min", ""),
    "what a condition never leads to": (
        "c = Greater(x, t) d = {}(x) e = Neg(x) y = Where(c, d, e)", "Sin", "Cos", 'where Greater "c" is given',
    ),
    "a Sigmoid that is 0": (
        f"{BESIDE} c = Sigmoid(b) d = Mul(c, {{}}) y = Add(d, x)", "v", "w",
        'where Sigmoid "c" is given numbers between -16 and 16, ',
    ),
    "a cell that adds up": (
        "e = Unsqueeze(x, first) p, h, a = LSTM<hidden_size = 1>(e, v4, v1) b = Clip(a, k, {}) c = ReduceMax(b) y = Add(c, x)", "t", "t2",
        'where Clip "b" is given numbers ',
    ),
    "a Loop without a turn": (LOOP.replace("%s", "{}"), "Add", "Mul", 'where Loop "l" turns, '),
}  # fmt: skip


def pair(name):
    body, one, other, _ = PAIRS[name]
    ones = ", ".join(["1"] * 32)
    held = f"{FAR}, float t2 = {{9e4}}, int64[1] first = {{0}}, float[1,4,8] v4 = {{{ones}}}, float[1,4,1] v1 = {{1, 1, 1, 1}}"
    return [model(body.replace("{}", filled), 17, constants=held, **IO) for filled in (one, other)]


@pytest.mark.parametrize("grade", ["exact", "close"])
@pytest.mark.parametrize("name", [name for name in PAIRS if PAIRS[name][3]])
def test_what_inputs_do_not_lead_to_is_run_by_force(name, grade):
    one, other = pair(name)
    assert opshift.verify(one, one, grade=grade).remarks == ()
    found = opshift.verify(one, other, grade=grade)
    assert (found.status, found.why.startswith(PAIRS[name][3])) == ("different", True), found.why


def quantized(low):
    source = model(QUANTIZED, 17, **IO)
    for name, value in {"s": np.float32(1), "z": np.uint8(100), "lo": np.uint8(low), "hi": np.uint8(255)}.items():
        source.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), name))
    return source


@pytest.mark.parametrize("grade", ["exact", "close"])
def test_quantized_values_are_held_at_their_ends(grade):
    found = opshift.verify(quantized(0), quantized(0), grade=grade)
    assert found.remarks == ()
    assert [judged.output for judged in found.outputs] == ["y"], "not what is yielded beside"
    assert opshift.verify(quantized(0), quantized(20), grade=grade).status == "different"


def test_a_value_that_is_another_one_under_the_same_name_is_not_replaced():
    """What differs there says nothing of the models."""
    one, other = (
        model(body, 17, constants="float k = {60}", **IO)
        for body in (
            "t = Atan(x) v = Sub(t, k) s = Sigmoid(v) y = Add(s, x)",
            "t = Atan(x) v = Sub(k, t) u = Neg(v) s = Sigmoid(u) y = Add(s, x)",
        )
    )
    found = opshift.verify(one, other, grade="close")
    assert (found.status, found.remarks) == (
        "equal",
        ('Sigmoid "s" was given no numbers between -16 and 16: what is computed of them is not proved',),
    )


def test_a_value_that_is_read_elsewhere_in_the_second_form_is_not_replaced():
    bodies = (
        "t = Atan(x) a = Sub(t, k) b = Relu(a) c = Neg(a) y = Add(b, c)",
        "t = Atan(x) a = Sub(t, k) b = Relu(a) c = Sub(k, t) y = Add(b, c)",
    )
    one, other = (model(body, 17, constants="float k = {1e4}", **IO) for body in bodies)
    found = opshift.verify(one, other)
    assert (found.status, found.remarks) == (
        "equal", ('Relu "b" was given no numbers above 0: what is computed of them is not proved',),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "second"),
    [
        ("a = Sqrt(x) b = Abs(a) y = Add(b, x)", "a = Sqrt(x) b = Identity(a) y = Add(b, x)"),
        ("a = Mul(x, x) b = Relu(a) y = Add(b, x)", "a = Mul(x, x) b = Identity(a) y = Add(b, x)"),
        ("a = Softmax(x) b = Clip(a, n, o) y = Add(b, x)", "a = Softmax(x) b = Identity(a) y = Add(b, x)"),
        ("a = Relu(x) p = Transpose(a) b = Relu(p) y = Transpose(b)", "y = Relu(x)"),
    ],
)
def test_no_value_is_given_numbers_that_it_never_has(body, second):
    io = {**IO, "inputs": "float[N,1,8] x", "outputs": "float[N,1,8] y"}
    one, other = (model(b, 17, constants="float n = {0}, float o = {1}", **io) for b in (body, second))
    found = opshift.verify(one, other, val_range={"x": (0, 2)} if "Sqrt" in body else None, grade="close")
    assert (found.status, found.remarks) == ("equal", ())


@pytest.mark.parametrize(
    "given", [{"val_range": {"x": (0, 1)}}, {"inputs": {"x": np.ones((1, 8), np.float32)}}, {"atol": 1}]
)
def test_where_a_user_says_what_to_compare_nothing_is_forced_but_said(given):
    one, other = pair("a bound that nothing reaches")
    found = opshift.verify(one, other, **given)
    assert (found.status, found.remarks[0][:25]) == ("equal", 'Clip "c" was given no num')


def test_a_loop_that_is_never_meant_to_turn_is_no_matter():
    held = model(LOOP.replace("m = Sub(n, f)", "m = Identity(z)") % "Add", 17, **IO)
    assert opshift.verify(held, held).remarks == ()


@pytest.mark.parametrize("size", [0, 1])
def test_empty_values_are_no_numbers(size):
    io = {"inputs": f"float[{size},8] x", "outputs": f"float[{size},8] y"}
    held = model("y = Relu(x)", 17, **io)
    assert opshift.verify(held, held)


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ("b = Add(a, three) c = Clip(b, n, six) d = Mul(a, c) h = Div(d, six)", "h = HardSwish(a)"),
        ("b = Mul(a, sixth) e = Add(b, half) h = Clip(e, n, o)", "h = HardSigmoid<alpha = 0.16666667>(a)"),
    ],
)
def test_where_a_value_is_gone_what_it_was_computed_from_is_replaced(written, whole):
    held = "float three = {3}, float six = {6}, float sixth = {0.16666667}, float half = {0.5}, float n = {0}, float o = {1}"
    bodies = (f"a = Mul(x, small) {body} y = Add(h, x)" for body in (written, whole, whole.replace("(a)", "(f)")))
    one, other, wrong = (
        model(
            body.replace("small)", "small) f = LeakyRelu<alpha = 0.9>(a)"),
            17,
            constants=f"{held}, float small = {{0.01}}",
            **IO,
        )
        for body in bodies
    )
    assert opshift.verify(one, other, grade="close").remarks == ()
    assert opshift.verify(one, wrong, grade="close").status == "different"


# --- where lines are moved, and numbers on them ------------------------------------------------------------------------

DECIDED = "a = Mul(x, w) b = Sin(a) n = Mul(b, seven) {} y = Add(h, x)"
"""What decides is moved by the inputs, and crosses each line in the ordinary runs."""

CHANGES = {
    "a threshold": ("h = ThresholdedRelu<alpha = 3.0>(n)", "h = ThresholdedRelu<alpha = 3.1>(n)", "is given numbers"),
    "a bound": ("c = Less(n, two) h = Where(c, n, x)", "c = Less(n, more) h = Where(c, n, x)", "is given numbers"),
    "with a constant": ("c = Less(n, two) h = Where(c, n, x)", "c = LessOrEqual(n, two) h = Where(c, n, x)", ""),
    "with another value": ("c = Less(n, x) d = Cast<to = 1>(c) h = Mul(d, n)", "c = LessOrEqual(n, x) d = Cast<to = 1>(c) h = Mul(d, n)", ""),
    "with vectors": ("c = Greater(w, n) h = Where(c, n, x)", "l = LessOrEqual(w, n) c = Not(l) d = Equal(w, n) e = Or(c, d) h = Where(e, n, x)", ""),
    "upwards": ("h = Floor(n)", "g = Ceil(n) h = Sub(g, one)", ""),
    "what is scaled": (
        "m = Mul(n, two) r = Round(m) h = Mul(r, half)",
        "p = Mul(n, two2) q = Sub(p, half) f = Ceil(q) g = Neg(f) h = Mul(g, half)",
        "is given numbers where it decides",
    ),
    "of steps": (
        "z = Constant<value = int8 {0}>() q = QuantizeLinear(n, half, z) h = DequantizeLinear(q, half, z)",
        "d = Div(n, half) m = Add(d, half) f = Floor(m) h = Mul(f, half)",
        "is given numbers where it decides",
    ),
    "to even": ("h = Round(n)", "g = Add(n, half) h = Floor(g)", ""),
    "of 0": ("h = Sign(n)", "c = Less(n, zero) h = Where(c, minus, one)", ""),
    "of truth": ("c = Cast<to = 9>(n) h = Cast<to = 1>(c)", "c = GreaterOrEqual(n, zero) d = Less(n, zero) e = Or(c, d) h = Cast<to = 1>(e)", ""),
    "of whole numbers": ("c = Cast<to = 6>(n) h = Cast<to = 1>(c)", "p = Abs(n) q = Ceil(p) r = Sub(q, one) s = Sign(n) h = Mul(r, s)", ""),
    "the first": ("i = ArgMax<axis = -1>(n) h = Cast<to = 1>(i)", "i = ArgMax<axis = -1, select_last_index = 1>(n) h = Cast<to = 1>(i)", ""),
    "beyond": ("h = Shrink<lambd = 2.0>(n)", "l = Greater(n, two) m = Less(n, two2) k = Or(l, m) f = Abs(n) g = Equal(f, two) j = Or(k, g) h = Where(j, n, zero)", ""),
}  # fmt: skip


def deciding(filled, *, kind="float"):
    held = "float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float seven = {7}, float two = {2}, float more = {2.03}, float one = {1}"
    held += ", float half = {0.5}, float zero = {0}, float minus = {-1}, float two2 = {-2}"
    io = {"inputs": f"{kind}[N,8] x", "outputs": f"{kind}[N,8] y" if "ArgMax" not in filled else f"{kind}[N,M] y"}
    made = model(DECIDED.format(filled), 17, constants=held, **io)
    for tensor in made.graph.initializer if kind != "float" else ():
        values = onnx.numpy_helper.to_array(tensor).astype(kind)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return made


@pytest.mark.parametrize("grade", ["exact", "close"])
@pytest.mark.parametrize("name", list(CHANGES))
def test_where_two_forms_decide_otherwise_numbers_lie_on_the_line(name, grade):
    one, other, seen = CHANGES[name]
    found = opshift.verify(deciding(one), deciding(other), grade=grade)
    assert found.status == "different"
    assert (seen or "is given numbers where it decides") in found.why
    assert opshift.verify(deciding(one), deciding(one), grade=grade).remarks == ()


def test_in_half_precision():
    one, other, _ = CHANGES["with a constant"]
    assert (
        opshift.verify(*(deciding(body, kind="float16") for body in (one, other)), grade="close").status == "different"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("c = LessOrEqual(n, x) h = Where(c, n, x)", "g = Less(x, n) c = Not(g) h = Where(c, n, x)"),
        ("h = Round(n)", "i = Identity(n) j = Round(i) h = Identity(j)"),
        ("c = Less(n, two) h = Where(c, n, x)", "c = Greater(two, n) h = Where(c, n, x)"),
        ("t = Abs(n) c = Cast<to = 6>(t) h = Cast<to = 1>(c)", "t = Abs(n) h = Floor(t)"),
    ],
)
def test_what_decides_alike_is_equal_there(one, other):
    found = opshift.verify(deciding(one), deciding(other), grade="close")
    assert found.status == "equal"
    assert not [remark for remark in found.remarks if "not proved" in remark]


def test_what_cannot_be_put_there_is_said():
    one, other = (deciding(body) for body in ("h = Floor(n)", "m = Neg(n) k = Ceil(m) h = Neg(k)"))
    for node in other.graph.node:
        for names in (node.input, node.output):
            names[:] = [f"renamed {name}" if name in "bn" else name for name in names]
    found = opshift.verify(one, other)
    assert found.remarks == ('Floor "h" was given no numbers where it decides: what is computed of them is not proved',)
    assert opshift.verify(one, other, val_range={"x": (0, 1)}).remarks == found.remarks


def test_what_is_always_at_the_end_of_its_range_was_seen():
    """A condition that holds in every run was not seen to fail, and nothing else."""
    body = "a = Abs(x) c = Greater(a, k) h = Where(c, x, a) y = Add(h, x)"
    one, other = (
        model(body.replace("Where(c, x, a)", f"Where({c}, x, a)"), 17, constants="float k = {-1}", **IO) for c in "cc"
    )
    assert opshift.verify(one, other).remarks == ()
    spot = unreached.Spot("c", "h", "Where", wanted={(-np.inf, 0.5), (0.5, np.inf)}, limits=(0, 1))
    assert spot.pieces == {(0, 0.5), (0.5, 1)}
    spot.see([0, 0])
    assert (spot.pieces, spot.lacking, spot.done) == (
        {(0.5, 1)},
        'Where "h" was given no True',
        'Where "h" is given True',
    )
    spot.see([1, 1])
    assert not spot.is_open


@pytest.mark.parametrize(
    ("lines", "others", "between"),
    [
        ([1], [1], set()),
        ([1, 3], [1, 3], set()),
        ([3], [3.1], {(3, 3.1)}),
        ([3], [3.01], set()),
        ([0], [1e-3], {(0, 1e-3)}),
        ([0, 6], [0, 5], {(0, 5), (5, 6)}),
        ([-2, 0, 6], [-2, 0], {(0, 6)}),
    ],
)
def test_what_lies_between_the_lines_of_two_forms(lines, others, between):
    assert unreached._between(set(lines), set(others)) == unreached._between(set(others), set(lines)) == between


def test_numbers_on_lines():
    x = np.float32([[0.2, 1.7, -2.4, 3, 9, -7]])
    levels = (("line", 4.0), ("beside", "k"), ("whole", (1.0, 0.0)))
    assert levelled(x, levels, {"k": np.float64([[5]])}).tolist() == np.float32([[4, 5, -2, 3.5, 9, 4]]).tolist()
    assert levelled(x, (("axis", -1),), {}).tolist() == np.float32([[0.2, 1.7, -2.4, 3, 3, -2.4]]).tolist()
    assert levelled(x[:, :2], (("axis", -1),), {}).tolist() == np.float32([[0.2, 0.2]]).tolist()
    assert levelled(x[:, :1], (("axis", -1),), {}).tolist() == np.float32([[0.2]]).tolist()
    assert levelled(x[:, :0], (("axis", -1), *levels[::2]), {}).shape == (1, 0)
    wide = np.float32([[[4, 5, 6, 7, 8, 9], [1, 1, 1, 1, 1, 1]]])
    assert levelled(x, (("beside", "k"),), {"k": wide}).tolist() == np.float32([[4, 1.7, 6, 3, 8, -7]]).tolist()
    with pytest.raises(ValueError, match="broadcast"):
        levelled(x, (("beside", "k"),), {"k": np.float32([1, 2])})


def test_numbers_that_hide_behind_others_stand_alone():
    x = np.float16([[0.5, -2, np.inf, 4]])
    assert levelled(x, (("below", 0.0),), {}).tolist() == [[-0.5, -2, -np.inf, -4]]
    assert levelled(x[:, [0, 1, 3]], (("small", 0.01),), {}).tolist() == np.float16([[0.00125, -0.005, 0.01]]).tolist()
    assert levelled(x[:, [1]], (("small", 1e-9),), {}).tolist() == [[-(2.0**-8)]], "not so small that no square is left"
    assert levelled(x[:, :0], (("small", 0.01), ("below", 0.0)), {}).shape == (1, 0)
    assert levelled(0 * x[:, :2], (("small", 0.01),), {}).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("one", "other", "numbers"),
    [
        ("n = LeakyRelu<alpha = 0.01>(h)", "n = LeakyRelu<alpha = 0.0103>(h)", "negative numbers alone"),
        ("n = LayerNormalization(h, w)", "n = LayerNormalization<epsilon = 0.001>(h, w)", "small numbers alone"),
    ],
)
def test_what_hides_behind_roundings_of_float16(one, other, numbers):
    forms = [model(f"h = Mul(x, k) {body} y = Neg(n)", 17, constants=HALVES, **HALF) for body in (one, one, other)]
    assert opshift.verify(*forms[:2], grade="close").status == "equal"
    found = opshift.verify(*forms[1:], grade="close")
    assert found.status == "different"
    assert numbers in found.why


HALF = {"inputs": "float16[N,8] x", "outputs": "float16[N,8] y"}
HALVES = """float16[1] c = {8479}, float16[1] e = {168}, float16[1] k = {17408},
    float16[8] w = {15360, 15360, 15360, 15360, 15360, 15360, 15360, 15360}"""  # 0.01, 1e-5, 4 and ones


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y = LeakyRelu<alpha = 0.01>(x)", "z = Sub(x, x) s = Min(x, z) p = Max(x, z) t = Mul(s, c) y = Add(p, t)"),
        (
            "y = LayerNormalization<epsilon = 0.00001>(x, w)",
            "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes = [-1]>(q) "
            "g = Add(v, e) s = Sqrt(g) n = Div(d, s) y = Mul(n, w)",
        ),
    ],
)
def test_forms_of_one_function_are_equal_there_in_float16(one, other):
    forms = [model(body, 17, constants=HALVES, **HALF) for body in (one, other)]
    for before, after in (forms, forms[::-1]):
        found = opshift.verify(before, after, grade="close")
        assert (found.status, [remark for remark in found.remarks if "not proved" in remark]) == ("equal", [])


@pytest.mark.parametrize(
    "name", ["a Relu that is dead beside a residual", "a Loop without a turn", "with another value"]
)
def test_what_is_written_of_it_shows_it_again(name, tmp_path):
    one, other = pair(name) if name in PAIRS else [deciding(body) for body in CHANGES[name][:2]]
    found = opshift.verify(one, other, repro=str(tmp_path))
    assert found.repro == str(tmp_path)
    again = opshift.verify(tmp_path / "before.onnx", tmp_path / "after.onnx", inputs=tmp_path / "inputs")
    assert (again.status, again.tensor) == ("different", found.tensor)
    assert again.why in found.why


def test_the_narrowest_of_the_numbers_are_told():
    wanted = {(-np.inf, 3), (-np.inf, 3.1), (3, np.inf), (3.1, np.inf)}
    spot = unreached.Spot("n", "h", "Clip", wanted=wanted, between={(3, 3.1)})
    assert spot.done == 'Clip "h" is given numbers below 3 and between 3 and 3.1 and above 3.1'


@pytest.mark.parametrize(("alpha", "status"), [(6e4, "different"), (1e6, "equal")])
def test_no_number_is_larger_than_its_type_holds(alpha, status):
    io = {"inputs": "float16[N,8] x", "outputs": "float16[N,8] y"}
    one, other = (
        model(f"a = Neg(x) y = ThresholdedRelu<alpha = {value}>(a)", 17, **io) for value in (alpha, alpha / 2)
    )
    assert opshift.verify(one, one)
    assert opshift.verify(one, other).status == status
