"""Attention below the opset that brought it: its definition, as few nodes as the call needs, in graphs and functions."""

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import TensorProto
from opshift.passes.conversion import convert

from tests.passes.operators.nn.test_attention import SELF, feeds_for
from tests.support import (
    check,
    check_down,
    evaluate,
    model,
    show,
)

RANDOM = np.random.default_rng(3)
LAST = 22  # the opset before there was Attention


def attend(
    f: dict[str, np.ndarray], *, heads: int, groups: int, causal=0, scale=None, softcap=0.0
) -> dict[str, np.ndarray]:
    """Attention as its text says, head by head and query by query, in doubles."""
    q, k, v = (f[n].astype(np.float64) for n in "qkv")
    if q.ndim == 3:
        q, k, v = (a.reshape(*a.shape[:2], n, -1).swapaxes(1, 2) for a, n in ((q, heads), (k, groups), (v, groups)))
    if "pk" in f:
        k, v = np.concatenate([f["pk"], k], 2), np.concatenate([f["pv"], v], 2)
    batch, queries, keys = len(q), q.shape[2], k.shape[2]
    mask = f.get("mask", np.zeros(keys))
    mask = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask
    mask = np.broadcast_to(mask, (batch, heads, queries, keys))
    raw, capped, biased, shares = (np.zeros(mask.shape) for _ in range(4))
    y = np.zeros((batch, heads, queries, v.shape[3]))
    for at in np.ndindex(batch, heads, queries):
        b, h, i = at
        kept = np.arange(keys) <= i + keys - f["k"].shape[-2] if causal else np.full(keys, True)
        raw[at] = k[b, h * groups // heads] @ q[at] * (q.shape[3] ** -0.5 if scale is None else scale)
        capped[at] = np.tanh(raw[at] / softcap) * softcap if softcap else raw[at]
        biased[at] = np.where(kept, capped[at] + mask[at], -np.inf)
        if biased[at].max() > -np.inf:
            shares[at] = np.exp(biased[at] - biased[at].max())
            shares[at] /= shares[at].sum()
        y[at] = shares[at] @ v[b, h * groups // heads]
    y = y.swapaxes(1, 2).reshape(batch, queries, -1) if f["q"].ndim == 3 else y
    return {"y": y, "a": k, "c": v, "0": raw, "1": capped, "2": biased, "3": shares}


def attention(
    rank: int,
    heads: int,
    groups: int,
    *,
    mask="",
    shape=(4, 6),
    past=False,
    known=True,
    dtype="f",
    alike=False,
    **attributes,
):
    """A model of one Attention with all of its outputs, and something to feed it."""
    sizes = {"B": 2, "H": heads, "G": groups, "S": 4, "K": 6 - 2 * past, "P": 2, "D": 8, "E": 8 if alike else 5}
    sizes |= {"X": heads * 8, "Y": groups * 8, "Z": groups * (8 if alike else 5)}
    dims = {"q": "BHSD", "k": "BGKD", "v": "BGKE"} if rank == 4 else {"q": "BSX", "k": "BKY", "v": "BKZ"}
    dims |= {"pk": "BGPD", "pv": "BGPE"} if past else {}
    feeds = {n: RANDOM.normal(size=[sizes[d] for d in shape]).astype(dtype) for n, shape in dims.items()}
    if mask:
        allowed = RANDOM.random(shape) < 0.6
        if len(shape) > 1:
            allowed[..., 1, :] = False  # a query without any key
        bias = np.where(allowed, RANDOM.normal(size=shape), -np.inf).astype(dtype)
        feeds["mask"] = allowed if mask == "bool" else bias
    kind = {"f": "float", "d": "double", "e": "float16"}[dtype]
    inputs = [f"{kind}[{','.join(str(sizes[d]) if known else d for d in shape)}] {n}" for n, shape in dims.items()]
    if mask:
        inputs.append(f"{mask}[{','.join(map(str, shape))}] mask")
    if rank == 3:
        attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    operands = f"q, k, v, {'mask' if mask else ''}, {'pk, pv' if past else ''}".rstrip(", ")
    written = ", ".join(f"{name}={value}" for name, value in attributes.items())
    any_shape = ", ".join(
        f"{kind}[{','.join(f'{n}{i}' for i in range(r))}] {n}" for n, r in zip("yacs", (rank, 4, 4, 4), strict=True)
    )
    return model(
        f"y, a, c, s = Attention<{written}>({operands})", 23, inputs=", ".join(inputs), outputs=any_shape
    ), feeds


def check_against_text(source, feeds, target, expected, mode, *, rtol=2e-5, atol=2e-6):
    result = convert.attempt(source, {"": target})
    assert result.model is not None, "\n".join(map(str, result.refusals))
    assert result.grade == "close"
    onnx.checker.check_model(result.model, full_check=True)
    actual = evaluate(result.model, feeds)
    for name, value in zip(("y", "a", "c", str(mode)), actual, strict=True):
        assert value.dtype == feeds["q"].dtype
        np.testing.assert_allclose(value, expected[name], rtol=rtol, atol=atol, err_msg=name)
    return show(result.model)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", ["", "bool", "float"])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("rank", "heads", "groups"), [(4, 3, 3), (4, 6, 2), (3, 3, 3), (3, 4, 1)])
def test_attention_is_computed_from_its_definition_below_23(rank, heads, groups, known, past, mask, causal):
    mode = causal + 2 * past
    options = {"is_causal": causal, "qk_matmul_output_mode": mode}
    source, feeds = attention(rank, heads, groups, mask=mask, past=past, known=known, **options)
    expected = attend(feeds, heads=heads, groups=groups, causal=causal)
    for target in (LAST, 11, 8):
        check_against_text(source, feeds, target, expected, mode)


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("options", [{"softcap": 1.5}, {"scale": 0.3}, {"scale": 1.0, "softcap": 3.0}, {}])
@pytest.mark.parametrize("target", [7, 8, 9, 12, 13, 17, LAST])
def test_scores_are_what_the_mode_says_at_every_opset(mode, options, target):
    source, feeds = attention(4, 4, 2, mask="bool", is_causal=1, qk_matmul_output_mode=mode, **options)
    expected = attend(feeds, heads=4, groups=2, causal=1, **options)
    check_against_text(source, feeds, target, expected, mode)


@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(
    "shape", [(), (6,), (4, 1), (1,), (3, 4, 6), (3, 1, 6), (2, 1, 4, 6), (2, 1, 1, 1), (1, 1, 4, 6)]
)
@pytest.mark.parametrize("held", [True, False])
def test_masks_are_broadcast_below_23(kind, shape, causal, held):
    """A width of 1 stands for every key; a mask that is constant and what it excludes are known beforehand."""
    source, feeds = attention(4, 3, 3, is_causal=causal, qk_matmul_output_mode=3)
    allowed = RANDOM.random(shape) < 0.6
    mask = np.asarray(allowed if kind == "bool" else np.where(allowed, RANDOM.normal(size=shape), -np.inf).astype("f"))
    source.graph.node[0].input.append("mask")
    if held:
        source.graph.initializer.append(onnx.numpy_helper.from_array(mask, "mask"))
    else:
        source.graph.input.append(
            onnx.helper.make_tensor_value_info("mask", TensorProto.BOOL if kind == "bool" else 1, shape)
        )
    expected = attend(feeds | {"mask": mask}, heads=3, groups=3, causal=causal)
    shown = check_against_text(source, feeds if held else feeds | {"mask": mask}, LAST, expected, 3)
    total = np.broadcast_to(mask if kind == "float" else np.where(mask, 0, -np.inf), (2, 3, 4, 6))
    total = np.where(np.tri(4, 6, dtype=bool), total, -np.inf) if causal else total
    assert ("s = Where(" in shown) is (not held or bool(np.isneginf(total.max(-1)).any()))


@pytest.mark.parametrize("dtype", ["d", "e"])
@pytest.mark.parametrize("precision", [None, 1, 10, 11])
def test_softmax_has_its_own_precision(dtype, precision):
    options = {} if precision is None else {"softmax_precision": precision}
    source, feeds = attention(4, 2, 2, dtype=dtype, mask="bool", qk_matmul_output_mode=3, **options)
    rough = dtype == "e" or precision == 10
    tolerance = {"rtol": 1e-2, "atol": 5e-3} if rough else {"rtol": 1e-6, "atol": 1e-6}
    shown = check_against_text(source, feeds, LAST, attend(feeds, heads=2, groups=2), 3, **tolerance)
    own = {"d": 11, "e": 10}[dtype]
    assert shown.count("Cast(") == 0
    assert ("Cast<to=" in shown) is (precision not in (None, own))


@pytest.mark.newest
@pytest.mark.parametrize(
    ("mask", "made"),
    [
        (
            "float[4,6] m",
            """t4 = Add(t3, m)
            t5 = Softmax<axis=-1>(t4)
            t6 = Equal(t4, -inf)
            t7 = Where(t6, 0.0, t5)""",
        ),
        (
            "bool[4,6] m",
            """t4 = Where(m, t3, -inf)
            t5 = Softmax<axis=-1>(t4)
            t6 = Where(m, t5, 0.0)""",
        ),
    ],
)
def test_attention_as_a_graph(mask, made):
    check(
        "y = Attention(q, k, v, m)", 23,
        f"""t1 = Transpose<perm=[0, 1, 3, 2]>(k)
        t2 = Mul(q, 0.353553)
        t3 = MatMul(t2, t1)
        {made}
        y = MatMul({made.splitlines()[-1].split()[0]}, v)""", LAST, grade="close",
        feeds={**feeds_for("", 6), "m": np.zeros((4, 6), "f" if "float" in mask else bool)}, rtol=1e-5, atol=1e-6,
        inputs=f"{SELF['inputs']}, {mask}", outputs=SELF["outputs"],
    )  # fmt: skip


CALLS = {  # inputs and attributes, with the nodes that the opset before needs
    "4D": ("q:1,8,9,64 k:1,8,9,64 v:1,8,9,64", "", 5),
    "4D causal": ("q:1,8,9,64 k:1,8,9,64 v:1,8,9,64", "is_causal = 1", 6),
    "4D mask": ("q:1,8,9,64 k:1,8,9,64 v:1,8,9,64 m:9,9", "", 8),
    "4D past, causal and mask": ("q:1,8,9,64 k:1,8,9,64 v:1,8,9,64 m:9,14 a:1,8,5,64 b:1,8,5,64", "is_causal = 1", 10),
    "3D": ("q:1,9,512 k:1,9,512 v:1,9,512", "q_num_heads = 8, kv_num_heads = 8", 12),
    "3D causal": ("q:1,9,512 k:1,9,512 v:1,9,512", "q_num_heads = 8, kv_num_heads = 8, is_causal = 1", 13),
    "3D mask": ("q:1,9,512 k:1,9,512 v:1,9,512 m:9,9", "q_num_heads = 8, kv_num_heads = 8", 15),
    "3D past": ("q:1,9,512 k:1,9,512 v:1,9,512 a:1,8,5,64 b:1,8,5,64", "q_num_heads = 8, kv_num_heads = 8", 15),
    "3D past, causal": ("q:1,9,512 k:1,9,512 v:1,9,512 a:1,8,5,64 b:1,8,5,64", "q_num_heads = 8, kv_num_heads = 8, is_causal = 1", 16),
    "3D past, causal and mask": ("q:1,9,512 k:1,9,512 v:1,9,512 m:9,14 a:1,8,5,64 b:1,8,5,64", "q_num_heads = 8, kv_num_heads = 8, is_causal = 1", 16),
    "3D past, one token": ("q:1,1,512 k:1,1,512 v:1,1,512 a:1,8,5,64 b:1,8,5,64", "q_num_heads = 8, kv_num_heads = 8", 11),
    "3D shared heads": ("q:1,9,512 k:1,9,128 v:1,9,128", "q_num_heads = 8, kv_num_heads = 2", 16),
}  # fmt: skip


@pytest.mark.newest  # older kernels give NaN where a mask leaves nothing
@pytest.mark.parametrize("call", CALLS)
def test_attention_has_the_nodes_that_the_call_needs(call):
    given, attributes, count = CALLS[call]
    shapes = {
        name: [int(dim) for dim in dims.split(",")] for name, _, dims in (g.partition(":") for g in given.split())
    }
    operands = ", ".join(name if name in shapes else "" for name in "qkvmab").rstrip(", ")
    outputs = ["y", "pk", "pv"][: 3 if "a" in shapes else 1]
    inputs = ", ".join(f"float[{','.join(map(str, shape))}] {name}" for name, shape in shapes.items())
    named = ", ".join(f"float[{','.join('wxyz'[: len(shapes['q']) if o == 'y' else 4])}] {o}" for o in outputs)
    feeds = {name: RANDOM.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    if "m" in feeds:
        feeds["m"][0] = feeds["m"][2, 3] = -np.inf
    inside = f"<{attributes}>" if attributes else ""
    text = f"{', '.join(outputs)} = Attention{inside}({operands})"
    after = check_down(text, 23, LAST, feeds=feeds, rtol=1e-4, atol=1e-5, grade="close", inputs=inputs, outputs=named)
    assert len(after.graph.node) == count


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", ["", "bool", "float"])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("rank", [3, 4])
def test_no_call_of_known_shapes_needs_more_than_16_nodes(rank, past, mask, causal):
    source, feeds = attention(rank, 3, 3, mask=mask, past=past, is_causal=causal, alike=True)
    del source.graph.output[3 if past else 1 :]
    del source.graph.node[0].output[len(source.graph.output) :]
    computed = convert.attempt(source, {"": LAST}).model
    assert computed is not None
    assert len(computed.graph.node) <= 16
    expected = attend(feeds, heads=3, groups=3, causal=causal)
    for name, value in zip("yac", evaluate(computed, feeds), strict=False):
        np.testing.assert_allclose(value, expected[name], rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(
    ("q", "k", "v", "joined"),
    [
        ("N,S,24", "N,S,24", "N,S,24", True),
        ("N,S,24", "N,S,8", "N,S,8", False),
        ("2,4,24", "2,5,24", "2,5,24", False),
        ("2,4,24", "2,4,24", "2,4,15", False),
        ("N,S,24", "N,K,24", "N,K,24", False),
        ("N,S,W", "N,S,W", "N,S,W", True),
        ("2,1,24", "2,1,24", "2,1,24", False),
    ],
)
def test_query_key_and_value_are_joined_after_a_past_if_alike(q, k, v, joined):
    widths = [int(dims.split(",")[2].replace("W", "24")) for dims in (q, k, v)]
    heads = {"q_num_heads": 3, "kv_num_heads": 1 if widths[1] == 8 else 3}
    size = [width // heads["kv_num_heads"] for width in widths[1:]]
    pasts = ", ".join(f"float[2,{heads['kv_num_heads']},2,{s}] {name}" for s, name in zip(size, "ab", strict=True))
    inputs = f"float[{q}] q, float[{k}] k, float[{v}] v, float[1,1] m, {pasts}"
    attributes = ", ".join(f"{name}={count}" for name, count in heads.items())
    source = model(
        f"y, pk, pv = Attention<{attributes}>(q, k, v, m, a, b)", 23, inputs=inputs,
        outputs="float[B,S,C] y, float[B,G,T,D] pk, float[B,G,T,E] pv",
    )  # fmt: skip
    after = convert.attempt(source, {"": LAST}).model
    assert after is not None
    assert ("Split" in [node.op_type for node in after.graph.node]) is joined
    dims = {"N": 2, "S": 4, "K": 5, "W": 24}
    feeds = {
        value.name: RANDOM.normal(
            size=[dims[d.dim_param] if d.dim_param else d.dim_value for d in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in source.graph.input
    }
    renamed = {{"a": "pk", "b": "pv", "m": "mask"}.get(name, name): value for name, value in feeds.items()}
    expected = attend(renamed, heads=3, groups=heads["kv_num_heads"])
    for name, value in zip("yac", evaluate(after, feeds), strict=True):
        np.testing.assert_allclose(value, expected[name], rtol=2e-5, atol=2e-6, err_msg=name)


def test_a_causal_mask_is_a_constant_that_needs_no_guard():
    check(
        "y = Attention<is_causal=1, scale=1.0>(q, k, v)", 23,
        """t1 = Transpose<perm=[0, 1, 3, 2]>(k)
        t2 = MatMul(q, t1)
        t3 = Add(t2, [[0.0, -inf, -inf, -inf, -inf, -inf], [0.0, 0.0, -inf, -inf, -inf, -inf], """
        """[0.0, 0.0, 0.0, -inf, -inf, -inf], [0.0, 0.0, 0.0, 0.0, -inf, -inf]])
        t4 = Softmax<axis=-1>(t3)
        y = MatMul(t4, v)""", LAST, grade="close",
        feeds=feeds_for("", 6), rtol=1e-5, atol=1e-6, **SELF,
    )  # fmt: skip


def test_a_large_causal_mask_is_not_held_in_the_file():
    io = {"inputs": "float[1,1,4096,8] q, float[1,1,4096,8] k, float[1,1,4096,8] v", "outputs": "float[1,1,4096,8] y"}
    after = convert.attempt(model("y = Attention<is_causal=1>(q, k, v)", 23, **io), {"": LAST}).model
    assert after is not None
    assert after.ByteSize() < 10_000
    assert "LessOrEqual" in show(after)


def test_values_may_have_another_type_than_keys():
    for kinds, casts in {("float16", "float"): 3, ("float", "float16"): 1, ("float16", "bfloat16"): 3}.items():
        io = {
            "inputs": f"{kinds[0]}[2,3,4,8] q, {kinds[0]}[2,3,6,8] k, {kinds[1]}[2,3,6,8] v",
            "outputs": f"{kinds[0]}[2,3,4,8] y",
        }  # fmt: skip
        after = convert.attempt(model("y = Attention(q, k, v)", 23, **io), {"": LAST}).model
        assert after is not None
        onnx.checker.check_model(after, full_check=True)
        assert show(after).count("Cast<") == casts - (kinds == ("float16", "float"))


def test_attention_inside_branches_and_functions():
    branch = "z = Attention<is_causal=1, q_num_heads=2, kv_num_heads=2>(q, q, q)"
    text = f"y = If (c) <then_branch = g () => (float[2,3,8] z) {{ {branch} }}, else_branch = h () => (float[2,3,8] w) {{ w = Identity(q) }}>"
    source = model(text, 23, inputs="bool c, float[2,3,8] q", outputs="float[2,3,8] y")
    after = convert.attempt(source, {"": 12}).model
    assert after is not None
    feeds = {"c": np.array(True), "q": RANDOM.normal(size=(2, 3, 8)).astype("f")}
    expected = attend(dict.fromkeys("qkv", feeds["q"]), heads=2, groups=2, causal=1)["y"]
    np.testing.assert_allclose(evaluate(after, feeds)[0], expected, rtol=1e-5, atol=1e-6)
    function = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 23, "f" : 1]> g (float[2,3,8] q) => (float[2,3,8] y) { y = f.self<n=2>(q) }'
        '<domain: "f", opset_import: ["" : 23]> self <n> (x) => (z)'
        "{ z = Attention<is_causal=1, q_num_heads: int = @n, kv_num_heads: int = @n>(x, x, x) }"
    )
    after = convert.attempt(function, {"": 14}).model
    assert after is not None
    np.testing.assert_allclose(evaluate(after, {"q": feeds["q"]})[0], expected, rtol=1e-5, atol=1e-6)


def test_infinity_in_a_mask_warns_of_nothing():
    """What a causal mask excludes and infinity chooses is NaN, as the sum of both is."""
    io = {"inputs": "float[1,1,2,2] q", "outputs": "float[A,B,C,D] y", "constants": "float[2,2] m = {0, inf, 0, 0}"}
    made = convert.attempt(model("y = Attention<is_causal=1>(q, q, q, m)", 23, **io), {"": LAST}).model
    assert made is not None
    (y,) = evaluate(made, {"q": np.ones((1, 1, 2, 2), np.float32)})
    assert np.isnan(y).tolist() == [[[[True, True], [False, False]]]]
