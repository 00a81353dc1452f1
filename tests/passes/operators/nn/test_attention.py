"""Attention: what windows, padded caches and short masks become, and what the operator itself does."""

from functools import cache

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnxruntime
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import Reference
from tests.support import (
    check,
    check_computes,
    check_refused,
    check_unchanged,
    check_values,
    evaluate,
    model,
    show,
)

RANDOM = np.random.default_rng(3)
SELF = {"inputs": "float[2,3,4,8] q, float[2,3,6,8] k, float[2,3,6,8] v", "outputs": "float[2,3,4,8] y"}
LAST = 22  # the opset before there was Attention
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


@cache
def in_each_form(text: str, inputs: str, opset: int, targets: tuple[int, ...]):
    """The model, and what it becomes at each of the targets: once for all values of its inputs."""
    source = model(text, opset, inputs=inputs, outputs="float[B,H,S,D] y")
    results = [convert.attempt(source, {"": target}) for target in targets]
    for result in results:
        assert result.model is not None, "\n".join(map(str, result.refusals))
    return source, *results


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
    source, result, *older = in_each_form(text, ", ".join(inputs), opset, (target, LAST, 8))
    assert result.grade == "exact"
    feeds = feeds_for(mask, width)
    (expected,), (actual,) = (Reference(of).run(feeds) for of in (source, result.model))
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-7)
    for computed in older:
        np.testing.assert_allclose(evaluate(computed.model, feeds)[0], expected, rtol=1e-5, atol=1e-6)
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


@pytest.mark.newest
@pytest.mark.parametrize("length", ["1", "2", "L"])
def test_onnxruntime_runs_the_mask_of_filled_caches(length):
    io = {"inputs": f"float[1,2,{length},1] q, float[1,2,3,1] k, int64[1] n", "outputs": "float[A,B,C,D] y"}
    source = model('y = Attention(q, k, k, "", "", "", n)', 24, **io)
    made = convert.attempt(source, {"": 23}).model
    size = 2 if length == "L" else int(length)
    feeds = {
        "q": np.float32([1, -2, 0.5, 3]).reshape(1, 2, 2, 1)[:, :, :size],
        "k": np.float32([1, 2, -3, 4, 0, 2]).reshape(1, 2, 3, 1),
        "n": np.array([2]),
    }
    expected = Reference(source).run(feeds)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, feeds)[0], expected[0], rtol=1e-5)


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


WINDOW = [[k >= q - 2 for k in range(6)] for q in range(4)]


def test_a_window_is_a_mask():
    check(
        "y = Attention<left_window_size=2, right_window_size=-1>(q, k, v)", 25,
        f"y = Attention(q, k, v, bool:{WINDOW})", 24,
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
    check_refused(text, 25, 24, "the mask holds integers; supported: bool, or the type of the query", **io)


@pytest.mark.parametrize(
    ("node", "inputs", "why"),
    [
        ("qk_matmul_output_mode=4", SELF["inputs"], "qk_matmul_output_mode=4; supported: 0, 1, 2 and 3"),
        ("scale=-1.0", SELF["inputs"], "scale=-1 is negative"),
        ("softmax_precision=7", SELF["inputs"], "softmax_precision=7; supported: a floating-point type"),
        ("q_num_heads=2", "float[2,4,8] q, float[2,6,8] k, float[2,6,8] v", "the attribute kv_num_heads is missing"),
        ("", "float[2,4] q, float[2,6] k, float[2,6] v", "Attention gets inputs of rank 2; supported: rank 3 or 4"),
        ("", "float[2,3,4,8] q, float[2,2,6,8] k, float[2,2,6,8] v", "3 query heads and 2 key heads"),
        ("", "float q, float k, float v", "rank"),
    ],
)
def test_what_attention_does_not_say_is_refused(node, inputs, why):
    check_refused(
        f"y = Attention<{node}>(q, k, v)" if node else "y = Attention(q, k, v)",
        23,
        LAST,
        why,
        inputs=inputs,
        outputs="float[A,B,C,D] y",
    )


@pytest.mark.newest
@pytest.mark.parametrize("heads", ["q_num_heads=2, kv_num_heads=2", "q_num_heads=0", "kv_num_heads=2", "q_num_heads=2"])
def test_heads_that_are_an_axis_are_not_told_from_25_on(heads):
    apart = {"inputs": "float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v", "outputs": "float[1,2,3,4] y"}
    made = check(f"y = Attention<{heads}>(q, k, v)", 24, "y = Attention(q, k, v)", 28, **apart)
    onnx.checker.check_model(made, full_check=True)


@pytest.mark.newest
@pytest.mark.parametrize("told", ["kv_num_heads=0", "q_num_heads=2"])
def test_inputs_of_unknown_rank_have_an_axis_of_heads_where_nothing_tells_the_number_of_all(told):
    before = onnx.parser.parse_model(
        """<ir_version: 12, opset_import: ["" : 24, "f" : 1]>
        g (float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v) => (float[1,2,3,4] y) { y = f.F(q, k, v) }
        <domain: "f", opset_import: ["" : 24]> F (q, k, v) => (y) { y = Attention<KV>(q, k, v) }""".replace("KV", told)
    )
    after = convert.attempt(before, {"": 25}).model
    onnx.checker.check_model(after, full_check=True)


@pytest.mark.newest
@pytest.mark.parametrize("outputs", ["y, p", "y, , p", "y, p, , s", "y, , p, s"])
def test_of_the_caches_both_are_yielded_or_none_from_25_on(outputs):
    node = f"{outputs} = Attention(x, x, x)"
    more = "".join(
        f" {outputs.replace('y', f'y{k}').replace('p', f'p{k}').replace('s', f's{k}')} = Attention(x, x, x)"
        for k in range(9)
    )
    before = model(node + more, 24, inputs="float[1,2,3,4] x", outputs="float[1,2,3,4] y, float[A,B,C,D] p")
    made = check_unchanged(node.replace(outputs, "y"), 24, 25, inputs="float[1,2,3,4] x", outputs="float[1,2,3,4] y")
    assert len(made.graph.node[0].output) == 1
    after = convert.attempt(before, {"": 25})
    assert after.grade == "exact"
    assert all(name for call in after.model.graph.node for name in call.output[:3])
    onnx.checker.check_model(after.model, full_check=True)
    x = np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(np.float32)
    check_values(
        before, after.model, {"x": x}, rtol=1e-6, atol=1e-6
    )  # onnxruntime runs the one, onnx.reference the other


@pytest.mark.newest
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", ["", "m"])
@pytest.mark.parametrize("outputs", ["y, p", "y, p, v, s", "y"])
def test_lengths_stand_beside_no_cache_from_25_on(outputs, mask, causal):
    node = f"{outputs} = Attention<is_causal={causal}>(q, k, k, {mask}, , , n)"
    inputs = "float[1,2,3,4] q, float[1,2,6,4] k, int64[1] n" + ", float[3,5] m" * bool(mask)
    before = model(node, 24, inputs=inputs, outputs="float[A,B,C,D] y" + ", float[E,F,G,H] p" * ("p" in outputs))
    after = convert.attempt(before, {"": 25})
    assert after.grade == "exact"
    assert ("n" in after.model.graph.node[-1].input) == (outputs == "y")
    onnx.checker.check_model(after.model, full_check=True)
    drawn = np.random.default_rng(0)
    q, k, m = (drawn.normal(size=size).astype(np.float32) for size in ((1, 2, 3, 4), (1, 2, 6, 4), (3, 5)))
    feeds = {"q": q, "k": k, "n": np.array([4]), **({"m": m} if mask else {})}
    for expected, actual in zip(Reference(before).run(feeds), Reference(after.model).run(feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_heads_that_are_joined_are_told_from_25_on():
    io = {"inputs": "float[1,3,8] q, float[1,3,8] k, float[1,3,8] v", "outputs": "float[1,3,8] y"}
    check_unchanged("y = Attention<q_num_heads=2, kv_num_heads=2>(q, k, v)", 24, 28, **io)


@pytest.mark.parametrize("width", ["8", "K"])
@pytest.mark.parametrize("queries", [2, 4])
@pytest.mark.parametrize(("batch", "length", "keys"), [(0, 3, 4), (2, 0, 4), (2, 1, 0), (0, 1, 0)])
@pytest.mark.parametrize("target", [22, 9])
def test_no_batch_no_query_and_no_key(width, queries, batch, length, keys, target):
    """Nothing to attend to leaves zeros."""
    wide = f"{4 * queries}" if width == "8" else "Q"
    x, kv = np.ones((batch, length, 4 * queries), np.float32), np.ones((batch, keys, 8), np.float32)
    expected = np.zeros_like(x) if not keys else np.ones_like(x)
    check_computes(
        f"y = Attention<q_num_heads={queries}, kv_num_heads=2>(q, k, v)", 23, target, expected, feeds={"q": x, "k": kv, "v": kv},
        grade="close", inputs=f"float[B,L,{wide}] q, float[B,S,{width}] k, float[B,S,{width}] v", outputs="float[X,Y,Z] y",
    )  # fmt: skip
