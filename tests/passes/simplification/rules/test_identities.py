"""What gives back what it gets is gone; what only seems to, stays."""

import numpy as np
import pytest
from opshift.passes.optimization import optimize
from opshift.passes.simplification.rules import identities

from tests.passes.simplification.rules.support import check_kept, check_optimized
from tests.support import model

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}
INTS = {"inputs": "int64[N,3] x", "outputs": "int64[N,3] y"}


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        ("Identity(h)", ""),
        ("Dropout(h)", ""),
        ("Dropout(h, ratio, training)", "float ratio = {0.5}, bool training = {0}"),
        ("Sum(h)", ""),
        ("Max(h)", ""),
        ("Concat<axis=0>(h)", ""),
        ("Add(h, c)", "float c = {-0.0}"),
        ("Add(c, h)", "float[3] c = {-0.0, -0.0, -0.0}"),
        ("Sub(h, c)", "float[1,3] c = {0.0, 0.0, 0.0}"),
        ("Mul(h, c)", "float[3] c = {1.0, 1.0, 1.0}"),
        ("Mul(c, h)", "float c = {1.0}"),
        ("Div(h, c)", "float[1] c = {1.0}"),
        ("Pow(h, c)", "float c = {1.0}"),
        ("Where(c, h, z)", "bool c = {1}, float z = {2.0}"),
        ("Where(c, z, h)", "bool[1] c = {0}, float[3] z = {1.0, 2.0, 3.0}"),
        ("Cast<to=1>(h)", ""),
        ("CastLike(h, h)", ""),
        ("Reshape(h, c)", "int64[2] c = {0, 3}"),
        ("Reshape(h, c)", "int64[2] c = {-1, 3}"),
        ("Flatten(h)", ""),
        ("Expand(h, c)", "int64[2] c = {1, 1}"),
        ("Expand(h, c)", "int64[1] c = {3}"),
        ("Transpose<perm=[0,1]>(h)", ""),
        ("Slice(h, s, e)", "int64[1] s = {0}, int64[1] e = {9223372036854775807}"),
        ("Slice(h, s, e, a)", "int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {-1}"),
        ("Pad(h, p)", "int64[4] p = {0, 0, 0, 0}"),
        ("Tile(h, r)", "int64[2] r = {1, 1}"),
        ("Split<num_outputs=1>(h)", ""),
    ],
)
def test_what_gives_back_its_input_is_gone(node, constants):
    check_optimized(f"h = Relu(x) t = {node} y = Tanh(t)", "t1 = Relu(x)\ny = Tanh(t1)", constants=constants, **IO)


def test_a_clip_without_bounds_cuts_infinities_off_alone():
    check_optimized("t = Clip(x) y = Neg(t)", "y = Neg(x)", **INTS)
    feeds = {"x": np.float32([[1, -2, 3e38]])}
    check_optimized("t = Clip(x) y = Neg(t)", "y = Neg(x)", grade="close", feeds=feeds, **IO)


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        ("Sub(c, x)", "float c = {0.0}"),
        ("Div(c, x)", "float c = {1.0}"),
        ("Mul(x, c)", "float[3] c = {1.0, 1.0, 2.0}"),
        ("Mul(x, c)", "float c = {0.0}"),
        ("Pow(x, c)", "float c = {2.0}"),
        ("Dropout(x, ratio, t)", "float ratio = {0.5}, bool t = {1}"),
        ("Clip(x, lo)", "float lo = {0.0}"),
        ("Transpose<perm=[1,0]>(x)", ""),
        ("Slice(x, s, e)", "int64[1] s = {1}, int64[1] e = {9223372036854775807}"),
        ("Slice(x, s, e, a)", "int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}"),
        ("Slice(x, s, e, a, st)", "int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {1}, int64[1] st = {2}"),
        ("Pad(x, p)", "int64[4] p = {0, 1, 0, 0}"),
        ("Expand(x, c)", "int64[3] c = {2, 1, 1}"),
        ("Reshape(x, c)", "int64[2] c = {3, -1}"),
        ("Flatten<axis=0>(x)", ""),
        ("Add(x, c)", "float[2,1,1] c = {-0.0, -0.0}"),
        ("Cast<to=11>(x)", ""),
    ],
)
def test_what_only_seems_to_stays(node, constants):
    kind = "double" if "to=11" in node else "float"
    io = {"inputs": "float[N,3] x", "outputs": f"{kind} y"}
    check_kept(f"y = {node}", constants=constants, **io)


@pytest.mark.parametrize("node", ["Add(x, c)", "Sub(x, c)"])
def test_an_integer_zero_has_no_sign(node):
    check_optimized(f"t = {node} y = Neg(t)", "y = Neg(x)", constants="int64 c = {0}", **INTS)


def test_a_constant_that_widens_the_result_stays():
    check_kept("y = Mul(x, c)", inputs="float[N,1] x", outputs="float[N,3] y", constants="float[3] c = {1.0, 1.0, 1.0}")


def test_a_dropout_whose_mask_is_read_stays():
    check_kept("y, m = Dropout(x)", inputs="float[N] x", outputs="float[N] y, bool[N] m")


@pytest.mark.parametrize("op", ["Neg", "Not"])
def test_what_undoes_itself_is_gone(op):
    kind = "bool" if op == "Not" else "float"
    io = {"inputs": f"{kind}[N] x", "outputs": f"{kind}[N,1] y", "constants": "int64[1] a = {1}"}
    check_optimized(f"s = {op}(x) t = {op}(s) y = Unsqueeze(t, a)", "y = Unsqueeze(x, [1])", **io)


@pytest.mark.parametrize("op", ["Abs", "Ceil", "Floor", "Relu", "Round", "Sign"])
def test_what_changes_nothing_the_second_time_is_done_once(op):
    check_optimized(f"t = {op}(x) y = {op}(t)", f"y = {op}(x)", **IO)


FLOAT16, FLOAT, DOUBLE, INT32, INT64, INT8, BOOL = 10, 1, 11, 6, 7, 3, 9


@pytest.mark.parametrize(
    ("source", "between", "to", "after"),
    [
        ("float", DOUBLE, FLOAT, None),
        ("float", DOUBLE, FLOAT16, "y = Cast<to=10>(x)"),
        ("float16", FLOAT, FLOAT16, None),
        ("float", DOUBLE, BOOL, "y = Cast<to=9>(x)"),
        ("int32", INT64, INT32, None),
        ("int32", INT64, INT8, "y = Cast<to=3>(x)"),
        ("bool", INT64, BOOL, None),
    ],
)
def test_casts_through_a_type_that_holds_everything_are_one(source, between, to, after):
    names = {FLOAT: "float", FLOAT16: "float16", INT32: "int32", INT8: "int8", BOOL: "bool"}
    io = {"inputs": f"{source}[N] x", "outputs": f"{names[to]}[N] y"}
    check_optimized(f"t = Cast<to={between}>(x) y = Cast<to={to}>(t)", after or "y = Identity(x)", **io)


@pytest.mark.parametrize(
    ("source", "between", "to"),
    [
        ("float", FLOAT16, FLOAT),  # rounds
        ("int64", FLOAT, INT64),  # rounds
        ("float", INT64, FLOAT),  # cuts off
        ("double", FLOAT, FLOAT16),  # rounds twice
        ("float", DOUBLE, INT32),  # what becomes of too large a value is nobody's promise
        ("int32", BOOL, INT32),
    ],
)
def test_casts_through_a_type_that_loses_something_stay(source, between, to):
    names = {FLOAT: "float", FLOAT16: "float16", INT32: "int32", INT64: "int64"}
    io = {"inputs": f"{source}[N] x", "outputs": f"{names[to]}[N] y"}
    check_kept(f"t = Cast<to={between}>(x) y = Cast<to={to}>(t)", **io)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_resize_by_one_is_gone(mode):
    io = {"inputs": "float[1,1,4,4] x", "outputs": "float[1,1,4,4] y", "constants": "float[4] s = {1.0, 1.0, 1.0, 1.0}"}
    check_optimized(f't = Resize<mode="{mode}">(x, , s) y = Relu(t)', "y = Relu(x)", **io)


def test_a_resize_that_enlarges_or_crops_stays():
    io = {"inputs": "float[1,1,4,4] x", "outputs": "float[1,1,4,8] y"}
    check_kept("y = Resize(x, , s)", constants="float[4] s = {1.0, 1.0, 1.0, 2.0}", **io)


def test_an_output_keeps_its_name():
    made = check_optimized("t = Relu(x) y = Identity(t)", "y = Relu(x)", **IO)
    assert [value.name for value in made.graph.output] == ["y"]


def test_an_input_or_a_constant_that_is_an_output_needs_its_node():
    check_kept("y = Identity(x)", **IO)
    check_kept("y = Identity(c)", inputs="float[1] x", outputs="float[2] y", constants="float[2] c = {1.0, 2.0}")


def test_a_value_that_is_two_outputs_needs_one_node_more():
    io = {"inputs": "float[N] x", "outputs": "float[N] y, float[N] z"}
    check_kept("y = Relu(x) z = Identity(y)", **io)


BRANCHES = """
y = If (c) <
    then_branch = t () => (float[N,3] a) {{ s = {node} a = Relu(s) }},
    else_branch = e () => (float[N,3] b) {{ b = Neg(x) }}
>"""


def test_rules_hold_inside_an_if():
    io = {"inputs": "float[N,3] x, bool c", "outputs": "float[N,3] y", "constants": "float one = {1.0}"}
    for c in (True, False):
        check_optimized(
            BRANCHES.format(node="Mul(x, one)"),
            "y = If<else_branch={ t1 = Neg(x); t1 }, then_branch={ t1 = Relu(x); t1 }>(c)",
            feeds={"c": np.asarray(c)},
            **io,
        )


def test_a_branch_yields_a_value_of_its_own():
    io = {"inputs": "float[N,3] x, bool c", "outputs": "float[N,3] y"}
    body = BRANCHES.replace("s = {node} a = Relu(s)", "a = Identity(x)").format()
    check_kept(body, **io)


THREE = "int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {1}, int64[1] st = {1}, int64[1] none = {2147483647}, int64[1] near = {2147483646}"


@pytest.mark.parametrize(
    ("node", "opset", "gone"),
    [
        ("Slice(h, s, e, k)", 18, False),
        ("Slice(h, s, e, a, k)", 18, False),
        ("Slice(h, k, e, a)", 18, False),
        ("Slice(h, s, k, a)", 18, False),
        ("Slice(h, s, e, a, st)", 18, True),
        ("Slice(h, s, none, a)", 18, True),
        ("Slice(h, s, near, s)", 18, False),
        ("Slice(h, s, e, s)", 18, False),
        ("Slice<starts=[0],ends=[3],axes=[1]>(h)", 9, True),
        ("Slice<starts=[0,0],ends=[2147483647,3]>(h)", 9, True),
        ("Slice<starts=[0],ends=[2],axes=[1]>(h)", 9, False),
        ("Slice<starts=[1],ends=[3],axes=[1]>(h)", 9, False),
        ("Pad<pads=[0,0,0,0]>(h)", 10, True),
        ("Pad<pads=[0,0,0,1]>(h)", 10, False),
        ("Pad(h, pk)", 18, False),
        ("Tile(h, pk)", 18, False),
        ("Tile(h, twice)", 18, False),
        ("Reshape(h, two)", 18, False),
        ("Reshape<allowzero=1>(h, two)", 18, False),
        ("Transpose(h)", 18, False),
        ("Transpose(flat)", 18, True),
        ("Flatten<axis=-1>(h)", 18, True),
        ("Flatten<axis=2>(h)", 18, False),
        ("Flatten(cube)", 18, False),
        ("Squeeze(h, zeros)", 18, False),
        ("Unsqueeze(h, zeros)", 18, True),
        ("Max(h, h)", 18, False),
        ("Dropout(h, r, b)", 18, False),
        ("Clip(h)", 10, False),
        ("CastLike(h, u)", 18, True),
        ("CastLike(h, dd)", 18, True),
        ("Where(b, h, h)", 18, False),
        ("And(bb, yes)", 18, True),
        ("And(bb, no)", 18, False),
        ("Or(no, bb)", 18, True),
        ("Or(yes, bb)", 18, False),
        ("Mul(h, c4)", 18, False),
        ("Add(h, mixed)", 18, False),
        ("Sub(h, mixed)", 18, False),
        ("Add(u, ones3)", 18, False),
        ("Mul(u, ones3)", 18, False),
        ("Mul(u, one)", 18, True),
        ("Pow(h, one)", 18, True),
    ],
)  # fmt: skip
def test_what_is_known_decides(node, opset, gone):
    """A value of the run time is nothing that is known."""
    inputs = "float[N,3] x, int64[1] k, int64[2] pk, float[K] flat, float[2,3,4] cube, float[] u, double d, bool b, bool[N] bb"
    constants = f"""{THREE}, int64[2] twice = {{1, 2}}, int64[2] two = {{3, -1}}, int64[0] zeros = {{}}, float r = {{0.5}}, bool yes = {{1}}, bool no = {{0}},
        float[1,1,3] c4 = {{1, 1, 1}}, float[3] mixed = {{0.0, -0.0, 0.0}}, float[3] ones3 = {{1, 1, 1}}, float one = {{1}}"""
    source = model(
        f"h = Relu(x) hb = Not(bb) dd = Neg(d) t = {node} y = Shape(t) z = Identity(t)",
        opset,
        inputs=inputs,
        outputs="y, z",
        constants=constants,
    )
    made = optimize.attempt(source).model
    ops = [node.op_type for node in made.graph.node]
    assert (node.partition("<")[0].partition("(")[0] not in ops) is gone, ops


INTEGERS = {"int8": 3, "uint8": 2, "int16": 5, "uint16": 4, "int32": 6, "uint32": 12, "int64": 7, "uint64": 13}
FLOATS = {"float16": 10, "bfloat16": 16, "float": 1, "double": 11}
CODES = INTEGERS | FLOATS | {"bool": 9}


def _holds(kind, other):
    """Whether one type has every value of another, by their widths."""
    bits = {"bool": 1, "bfloat16": 16, "float": 32, "double": 64}
    a, b = (bits.get(name) or int("".join(filter(str.isdigit, name))) for name in (kind, other))
    if kind in INTEGERS and other in INTEGERS:
        return (b > a or (b == a and kind == other)) if kind.startswith("u") else (b > a and not other.startswith("u"))
    return kind in FLOATS and other in FLOATS and b > a


@pytest.mark.parametrize("source", ["bool", "int32", "float16"])
def test_casts_are_left_out_only_where_nothing_is_lost(source):
    """Through each type to each other: one Cast less where the one between holds all values."""
    for between in CODES.keys() - {source}:
        body = " ".join(
            f"t{code} = Cast<to={CODES[between]}>(x) y{code} = Cast<to={code}>(t{code})"
            for code in CODES.values()
            if code != CODES[between]
        )
        outputs = ", ".join(f"{name}[2] y{code}" for name, code in CODES.items() if code != CODES[between])
        made = optimize.attempt(model(body, 18, inputs=f"{source}[2] x", outputs=outputs)).model
        makers = {name: node for node in made.graph.node for name in node.output}
        for name, code in CODES.items():
            if code == CODES[between]:
                continue
            once = makers[f"y{code}"].input[0] == "x"
            if once and source != "bool":
                assert _holds(source, between), (source, between, name)
                among = between in INTEGERS and name in (*INTEGERS, "float", "double", "bool")
                assert name == source or among or (source in FLOATS and name in (*FLOATS, "bool")), (
                    source,
                    between,
                    name,
                )
            elif once:
                assert name == "bool"
            else:
                tabled = CODES[between] in identities._HOLDS_EXACTLY.get(CODES[source], ())
                assert not (tabled and name == source), (source, between, name)


def test_types_hold_what_they_are_said_to():
    names = {code: name for name, code in CODES.items()}
    for kind, others in identities._HOLDS_EXACTLY.items():
        for other in others:
            assert kind == 9 or _holds(names[kind], names[other]), (names[kind], names[other])
    assert {names[kind]: len(others) for kind, others in identities._HOLDS_EXACTLY.items()} == {
        "bool": 5, "int8": 3, "uint8": 4, "int16": 2, "uint16": 3, "int32": 1, "uint32": 2, "float16": 2, "bfloat16": 2, "float": 1,
    }  # fmt: skip
    assert set(identities._INTEGERS) == {*INTEGERS.values()}
    assert set(identities._FLOATS) == {*FLOATS.values()}


@pytest.mark.parametrize(
    ("values", "kind", "only"),
    [
        ([1.0, 1.0], np.float32, 1.0), ([0.0, -0.0], np.float32, None), ([-0.0, -0.0], np.float32, -0.0), ([1.0, 2.0], np.float32, None), ([3, 3], np.int64, 3),
        ([0, 0], np.int64, 0), ([True, True], bool, True), ([], np.float32, None), ([np.nan], np.float32, None), ([7], np.uint8, 7),
    ],
)  # fmt: skip
def test_the_one_value_that_a_constant_has(values, kind, only):
    found = identities._only(np.array(values, kind))
    assert (found is None) is (only is None)
    if only is not None:
        assert (found.shape, found.dtype, found.item()) == ((), np.dtype(kind), only)
        assert np.signbit(found) == np.signbit(only)
    assert identities._only(np.array(["a"], object)) is None


@pytest.mark.parametrize(
    ("attributes", "constants", "gone"),
    [
        ("", "float[4] s = {1, 1, 1, 1}", True),
        ('<mode = "cubic">', "float[4] s = {1, 1, 1, 1}", False),
        ('<coordinate_transformation_mode = "tf_crop_and_resize">', "float[4] s = {1, 1, 1, 1}", False),
        ("", "float[4] s = {1, 1, 1, 2}", False),
    ],
)
def test_a_resize_is_gone_by_its_mode(attributes, constants, gone):
    roi = "float[8] r = {0,0,0,0,1,1,0.5,0.5}"
    source = model(
        f"t = Resize{attributes}(x, r, s) y = Relu(t)",
        18,
        inputs="float[1,1,4,4] x",
        outputs="float[A,B,C,D] y",
        constants=f"{constants}, {roi}",
    )
    assert ("Resize" not in [node.op_type for node in optimize.attempt(source).model.graph.node]) is gone
