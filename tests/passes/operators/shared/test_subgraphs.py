"""bfloat16 that goes in and out of graphs."""

import onnx
import onnx.checker
import onnx.parser
from opshift.passes.conversion import convert

from tests.passes.operators.controlflow.test_conditional import branches
from tests.support import check_refused, model, show


def test_bfloat16_goes_in_and_out_of_graphs_as_float32_below_16():
    body = """
    v, s = Loop (m, c, x) <
        body = b (int64 i, bool go, bfloat16[3] old) => (bool go2, bfloat16[3] new, bfloat16[3] row) {
            go2 = Identity(go) new = Identity(old) row = Identity(old)
        }
    >
    """
    io = {"inputs": "int64 m, bool c, bfloat16[3] x", "outputs": "bfloat16[3] v, bfloat16[N,3] s"}
    made = convert.attempt(model(body, 16, **io), {"": 15}).model  # no engine runs bfloat16
    onnx.checker.check_model(made, full_check=True)
    assert show(made) == (
        "t1 = Cast<to=1>(x)\n"
        "t2, t3 = Loop<body={ t4 = Cast<to=16>(old_1); t5 = Identity(go); t6 = Identity(t4); t7 = Identity(t4); "
        "t8 = Cast<to=1>(t6); t9 = Cast<to=1>(t7); t5, t8, t9 }>(m, c, t1)\n"
        "v = Cast<to=16>(t2)\ns = Cast<to=16>(t3)"
    )
    for body in (
        branches("bfloat16[3] a", "bfloat16[3] b", "Identity(x)").replace("Abs", "Identity"),
        "z, y = Scan<num_scan_inputs=1, body = b (bfloat16 o, bfloat16 e) => (bfloat16 n, bfloat16 r)"
        " { n = Identity(e) r = Identity(o) }>(w, x)",
    ):
        io = {"inputs": "bfloat16[3] x, bool c, bfloat16 w", "outputs": "bfloat16[A] y"}
        made = convert.attempt(model(body, 16, **io), {"": 15}).model
        onnx.checker.check_model(made, full_check=True)
        assert made.graph.node[-1].op_type == "Cast"
    check_refused(body, 16, 12, "bfloat16", **io)


def test_what_a_function_is_given_goes_in_as_the_graph_wants_it():
    """Nothing but the graph says there of what type the value is."""
    source = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 16, "own" : 1]>
        g (bfloat16[3] x, int64 m) => (bfloat16[3] v, bfloat16[A,3] s) { v, s = own.F(x, m) }
        <domain: "own", opset_import: ["" : 16]> F (x, m) => (v, s) {
            v, s = Loop(m, "", x) <body = b (int64 i, bool go, bfloat16[3] old) => (bool go2, bfloat16[3] new, bfloat16[3] row) {
                go2 = Identity(go) new = Identity(old) row = Identity(old)
            }>
        }
    """)
    made = convert.attempt(source, {"": 15}).model
    onnx.checker.check_model(made, full_check=True)
    assert [node.op_type for node in made.functions[0].node] == ["Cast", "Loop", "Cast", "Cast"]
