"""Attention: what windows, padded caches and short masks become."""

import numpy as np
import pytest
from opshift.passes import convert

from opshift.engines import Reference
from tests.support import check, check_refused, check_unchanged, model, show

RANDOM = np.random.default_rng(3)
SELF = {"inputs": "float[2,3,4,8] q, float[2,3,6,8] k, float[2,3,6,8] v", "outputs": "float[2,3,4,8] y"}
SIZES = {"B": 2, "H": 3, "S": 4, "K": 6, "P": 2, "D": 8}


def feeds_for(mask: str, width: int) -> dict[str, np.ndarray]:
    shapes = {"q": "BHSD", "k": "BHKD", "v": "BHKD", "pk": "BHPD", "pv": "BHPD"}
    feeds = {n: RANDOM.normal(size=[SIZES[d] for d in dims]).astype(np.float32) for n, dims in shapes.items()}
    allowed = RANDOM.random((SIZES["S"], width)) < 0.8
    feeds["mask"] = (
        allowed if mask == "bool" else np.where(allowed, RANDOM.normal(size=allowed.shape), -np.inf).astype("f")
    )
    feeds["n"] = np.array([3, 6], np.int64)
    return feeds


def check_against_reference(node: str, opset: int, target: int, *, cache: str, mask: str, width: int, known: bool):
    """Both versions in onnx.reference, whose Attention is the text of the newest version at each opset."""
    dims = "2,3,{},8" if known else "B,H,{},D"
    inputs = [f"float[{dims.format('4' if known else 'S')}] q"]
    inputs += [f"float[{dims.format('6' if known else 'K')}] {name}" for name in "kv"]
    inputs += [f"float[{dims.format('2' if known else 'P')}] {name}" for name in ("pk", "pv") if cache == "past"]
    inputs += [f"{mask}[S,{width if known else 'W'}] mask"] if mask else []
    inputs += ["int64[2] n"] if cache == "filled" else []
    operands = ["q", "k", "v", "mask" if mask else ""]
    operands += {"past": ["pk", "pv"], "filled": ["", "", "n"], "": []}[cache]
    outputs = "y, a, c" if cache == "past" else "y"
    text = f"{outputs} = Attention<{node}>({', '.join(operands).rstrip(', ')})"
    source = model(text, opset, inputs=", ".join(inputs), outputs="float[B,H,S,D] y")
    result = convert.attempt(source, {"": target})
    assert result.model is not None, "\n".join(map(str, result.refusals))
    assert result.grade == "exact"
    feeds = feeds_for(mask, width)
    (expected,), (actual,) = (Reference(of).run(feeds) for of in (source, result.model))
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-7)
    return show(result.model)


@pytest.mark.parametrize("windows", [(2, 1), (0, -1), (-1, 0), (1, -1)])
@pytest.mark.parametrize("cache", ["", "past", "filled"])
@pytest.mark.parametrize("mask", ["", "bool", "float"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("causal", [0, 1])
def test_windows_become_a_mask_below_25(windows, cache, mask, known, causal):
    node = f"left_window_size={windows[0]}, right_window_size={windows[1]}, is_causal={causal}"
    total = 8 if cache == "past" else 6
    for width in (total, total - 2) if cache != "filled" else (6,):
        shown = check_against_reference(node, 25, 24, cache=cache, mask=mask, width=width, known=known)
        assert "window_size" not in shown
        assert "is_causal" in shown


@pytest.mark.parametrize("mask", ["", "bool", "float"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("causal", [0, 1])
def test_filled_caches_become_a_mask_below_24(mask, known, causal):
    node = f"is_causal={causal}, scale=0.5"
    shown = check_against_reference(node, 24, 23, cache="filled", mask=mask, width=6, known=known)
    assert "is_causal" not in shown
    assert shown.splitlines()[-1].count(",") == 3 + 0


@pytest.mark.parametrize("cache", ["", "past"])
@pytest.mark.parametrize("mask", ["bool", "float"])
@pytest.mark.parametrize("known", [True, False])
def test_short_masks_are_padded_below_24(cache, mask, known):
    total = 8 if cache == "past" else 6
    shown = check_against_reference("scale=0.5", 24, 23, cache=cache, mask=mask, width=total - 2, known=known)
    assert "Pad(" in shown
    shown = check_against_reference("scale=0.5", 24, 23, cache=cache, mask=mask, width=total, known=known)
    assert ("Pad(" in shown) is not known


def test_a_window_as_a_graph():
    check(
        "y = Attention<left_window_size=2, right_window_size=-1>(q, k, v)", 25,
        """t1 = Range(0, 4, 1)
        t2 = Unsqueeze(t1, [1])
        t3 = Range(0, 6, 1)
        t4 = Sub(t2, 2)
        t5 = LessOrEqual(t4, t3)
        y = Attention(q, k, v, t5)""", 24,
        feeds=feeds_for("", 6), rtol=1e-5, atol=1e-6, **SELF,
    )  # fmt: skip


def test_what_every_version_says_stays():
    node = "y = Attention<is_causal=1, softcap=2.0>(q, k, v, m)"
    io = {**SELF, "inputs": SELF["inputs"] + ", bool[4,6] m"}
    check_unchanged(node, 23, 28, **io)
    check_unchanged(node, 28, 23, **io)
    after = "y = Attention(q, k, v)"
    check(
        "y = Attention<left_window_size=-1, right_window_size=-1>(q, k, v)", 25, after, 23,
        feeds=feeds_for("", 6), rtol=1e-5, atol=1e-6, **SELF,
    )  # fmt: skip
    same_symbol = {
        "inputs": "float[B,H,S,8] q, float[B,H,K,8] k, float[B,H,K,8] v, float[S,K] m", "outputs": "float[B,H,S,8] y",
    }  # fmt: skip
    check_unchanged("y = Attention(q, k, v, m)", 24, 23, **same_symbol)
    check_unchanged("y = Attention(q, k, v, m)", 23, 24, **same_symbol)


@pytest.mark.parametrize(
    ("mask", "keys", "target"),
    [("bool[4,1] m", "6", "[6]"), ("float[2,1,1,1] m", "6", "[6]"), ("bool[4,W] m", "6", "[6]")],
)
def test_a_mask_of_width_1_is_expanded_at_24(mask, keys, target):
    io = {**SELF, "inputs": f"{SELF['inputs'].replace('6', keys)}, {mask}"}
    after = f"t1 = Expand(m, {target})\ny = Attention(q, k, v, t1)"
    check("y = Attention(q, k, v, m)", 23, after, 24, run=False, **io)  # no engine broadcasts the width of a mask


def test_the_number_of_keys_is_read_at_run_time_at_24():
    io = {"inputs": "float[2,3,S,8] q, float[2,3,K,8] k, float[2,3,K,8] v, bool[S,1] m", "outputs": "float[2,3,S,8] y"}
    after = "t1 = Shape<end=-1, start=-2>(k)\nt2 = Expand(m, t1)\ny = Attention(q, k, v, t2)"
    check("y = Attention(q, k, v, m)", 23, after, 24, run=False, **io)  # no engine broadcasts the width of a mask


def test_masks_of_integers_are_refused():
    io = {**SELF, "inputs": SELF["inputs"] + ", int32[4,6] m"}
    text = "y = Attention<left_window_size=1>(q, k, v, m)"
    check_refused(text, 25, 24, "the mask holds integers; bool or the type of the query could be expressed", **io)
