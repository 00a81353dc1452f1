"""What rounding decides otherwise hides nothing else: neither a plain difference behind it, nor one of a backend."""

import numpy as np
import pytest

from opshift.trying.search import AGREES, DIFFERS
from opshift.trying.trial import Expected, Given
from opshift.verification.judge import Pair
from opshift.verification.side import Side
from opshift.verification.twins import ties
from opshift.verification.verify import verify_sides
from tests.support import model

HELD = "float[1] u = {0.1}, float[1] v = {0.3}, float t = {3}, float h = {0.25}, float w = {0.65}, float k = {1.25}"
ONE = "a = Add(x, u) b = Add(a, v) r = Round(b) n = Mul(r, t) c = Add(n, h) q = Round(c) y = Mul(q, t)"
"""What hangs on a value that rounding decides: there, the source may be whole steps from its twin."""
OTHERWISE = ONE.replace("a = Add(x, u) b = Add(a, v)", "a = Add(u, v) b = Add(x, a)")
NEAR = np.arange(64, dtype=np.float32) * np.float32(0.5) + np.float32(0.1)
"""Numbers whose sums lie in the middle between two integers, or close to one."""


def side(body):
    return Side(model(body, 17, inputs="float[64] x", outputs="y", constants=HELD))


def judged(body, x=NEAR):
    pair = Pair(side(ONE), side(body), "close")
    return pair.judge({"x": x}, *(of.open().run({"x": x}) for of in (pair.before, pair.after)))


def straight():
    """Those of the numbers at which the source decides as its twin does, and the second form need not."""
    one, other = (side(body).open().run({"x": NEAR})[0] for body in (ONE, OTHERWISE))
    exact = np.rint(NEAR.astype(float) + np.float32([0.1]) + np.float32([0.3]))
    held = NEAR[one == 3 * np.rint(3 * exact + 0.25)]
    assert (one != other)[np.isin(NEAR, held)].any()
    return np.resize(held, 64)


@pytest.mark.parametrize("renamed", [False, True])
def test_what_hangs_on_a_tie_is_compared_with_the_same_decisions(renamed):
    body = OTHERWISE.replace("c = Add(n, h) q = Round(c)", "d = Add(h, n) q = Round(d)") if renamed else OTHERWISE
    verdict = judged(body, straight())
    assert [output.why for output in verdict.outputs] == [""]
    assert set(verdict.ties) == {"r"}


@pytest.mark.parametrize(
    "change",
    [
        ("Add(n, h)", "Add(n, w)"),
        ("c = Add(n, h) q = Round(c)", "d = Add(n, w) q = Round(d)"),
        ("c = Add(n, h) q = Round(c)", "c = Add(n, h) d = Mul(c, k) q = Round(d)"),
        ("Round(b)", "Round(x)"),
    ],
)
@pytest.mark.parametrize("body", [ONE, OTHERWISE])
def test_a_plain_difference_is_none_of_rounding(body, change):
    assert judged(body.replace(*change)).outputs[0].why.endswith("elements differ, in float64")


@pytest.mark.parametrize("grade", ["exact", "close"])
def test_another_bias_between_quantized_layers_is_seen(grade):
    """Each layer quantizes what it is given by its own extremes, so that ties in one move all that follow."""
    one, other = (Side(_layers(bias)) for bias in (1.0, 0.0))
    assert verify_sides(one, one, grade=grade).equal
    assert verify_sides(one, other, grade=grade).status == "different"


def _layers(bias, count=12, width=32):
    rng = np.random.default_rng(0)
    body, held, last = "", [], "x"
    for k in range(count):
        weights = ", ".join(map(str, rng.integers(-127, 128, width * width)))
        biases = ", ".join(f"{b * (bias if k == count - 2 else 1):.4f}" for b in rng.standard_normal(width))
        held += [f"int8[{width},{width}] w{k} = {{{weights}}}", f"float[{width}] b{k} = {{{biases}}}"]
        body += f"q{k}, s{k}, z{k} = DynamicQuantizeLinear({last}) i{k} = MatMulInteger(q{k}, w{k}, z{k}) "
        body += f"f{k} = Cast<to = 1>(i{k}) g{k} = Mul(f{k}, s{k}) m{k} = Mul(g{k}, e) p{k} = Add(m{k}, b{k}) "
        body += f"l{k} = Tanh(p{k}) "
        last = f"l{k}"
    constants = ", ".join(["float e = {0.01}", *held])
    return model(f"{body}y = Relu({last})", 17, inputs=f"float[48,{width}] x", outputs="y", constants=constants)


@pytest.mark.parametrize(("shift", "status"), [(0, AGREES), (3, DIFFERS), (-100, DIFFERS)])
def test_a_backend_is_judged_by_its_own_run(shift, status):
    """Though onnxruntime, too, decides otherwise in the form that the backend ran."""
    x = straight()
    one, other = side(ONE), side(OTHERWISE)

    def runs(serialized, feeds):
        return [value + np.float32(shift) * (np.arange(64) == 5) for value in other.open().run(feeds)]

    held = Expected(one, ({"x": x},), (one.open().run({"x": x}),))
    answer = Given(runs).answer(other.model, None, held)
    assert answer.status == status
    assert ("decisions within rounding may be" in answer.why) == bool(shift)


def test_each_element_is_held_against_the_nearest_that_is_known():
    wide, known = np.array([1.0, 10.0, 5.0, np.inf]), np.float32([1, 20, 5, 3])
    run = np.float32([1.5, 19, 5, np.nan])
    np.testing.assert_array_equal(ties.beside(run, wide, [known]), np.float32([1.5, 9, 5, np.nan]))
    whole = ties.beside(np.array([1, 2, 9]), np.array([1, 2, 3]), [np.array([1, 1, 3]), np.array([1, 2, 4])])
    assert whole.tolist() == [1, 1, 9]
    assert ties.beside(run, wide[:2], [known]) is run
