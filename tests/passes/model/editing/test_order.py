"""Files whose nodes stand before what they read, which onnxruntime loads: conversions put them in order."""

import numpy as np
import onnx
import onnx_ir
import pytest
from opshift.passes.errors import InvalidModel
from opshift.passes.pipeline import ConvertVersionPass

import opshift
from opshift.cli.main import main
from opshift.verification.engines import OnnxRuntime
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

BODY = """
    a = Relu(x) c = Greater(s, zero)
    y = If(c) <then_branch = t () => (float[2] p) { d = Add(a, a) e = Neg(d) p = Exp(e) },
               else_branch = f () => (float[2] q) { q = Tanh(a) }>
"""


def backwards():
    """The nodes of all graphs in the opposite order."""
    source = model(BODY, 17, inputs="float[2] x, float s", outputs="float[2] y", constants="float zero = {0}")
    graphs = [held.g for held in source.graph.node[2].attribute]
    for graph in (*graphs, source.graph):
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(graph.node)]
        del graph.node[:]
        graph.node.extend(nodes)
    with pytest.raises(onnx.checker.ValidationError, match="sorted"):
        onnx.checker.check_model(source)
    return source


def test_a_file_is_put_in_order_and_says_so(tmp_path, capsys):
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(backwards(), source)
    assert main(["convert", str(source), str(target), "--opset", "18"]) == 0
    said = capsys.readouterr().out
    assert "Put the nodes in order" in said
    assert "\nequal" in said
    onnx.checker.check_model(onnx.load(target))
    for s, expected in ((1.0, np.exp([-2.0, 0.0])), (-1.0, np.tanh([1.0, 0.0]))):
        (y,) = OnnxRuntime(onnx.load(target)).run({"x": np.float32([1, -1]), "s": np.array(s, np.float32)})
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_a_model_is_put_in_order_and_stays_as_it_was():
    source = backwards()
    before = source.SerializeToString()
    onnx.checker.check_model(opshift.convert_version(source, 18))
    onnx.checker.check_model(opshift.convert_version(source, types="float16"))
    assert source.SerializeToString() == before


def test_what_nothing_computes_is_told():
    source = backwards()
    source.graph.node[0].op_type = "Relu"
    del source.graph.node[0].attribute[:]
    source.graph.node[0].input[:] = ["nobody"]
    with pytest.raises(InvalidModel, match="'nobody', which no earlier node computes"):
        opshift.convert_version(source, 18)


def test_nodes_that_read_each_other_are_told():
    source = model("a = Add(x, b) b = Relu(a) y = Neg(b)", 17, inputs="float[2] x", outputs="float[2] y")
    with pytest.raises(InvalidModel, match="no earlier node computes"):
        opshift.convert_version(source, 18)


def test_a_pass_puts_nodes_in_order():
    made = ConvertVersionPass(18)(onnx_ir.from_proto(backwards())).model
    onnx.checker.check_model(onnx_ir.to_proto(made))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["inspect", "IN"], "order of nodes: some read what later ones compute"),
        (["inspect", "IN", "--opset", "18"], "it can be converted to opset 18"),
        (["verify", "IN", "SORTED"], "equal"),
        (["verify", "SORTED", "IN"], "equal"),
        (["diff", "SORTED", "IN"], "the same"),
        (["extract", "IN", "OUT", "--to", "y"], "written to"),
        (["merge", "IN", "BEHIND", "OUT"], "written to"),
        (["merge", "BEFORE", "IN", "OUT"], "written to"),
        (["strip", "IN", "OUT"], "written to"),
    ],
)
def test_other_commands_read_such_a_file(tmp_path, capsys, command, says):
    paths = {name: tmp_path / f"{name.lower()}.onnx" for name in ("IN", "SORTED", "BEFORE", "BEHIND", "OUT")}
    onnx.save(backwards(), paths["IN"])
    onnx.save(opshift.convert_version(backwards(), 17), paths["SORTED"])
    before = model("b = Neg(k) a = Relu(k)", 17, inputs="float[2] k", outputs="float[2] b, float[2] a")
    before.graph.output[1].name = before.graph.node[1].output[0] = "x"
    onnx.save(before, paths["BEFORE"])
    behind = model("z = Neg(y) w = Relu(z)", 17, inputs="float[2] y", outputs="float[2] w")
    onnx.save(behind, paths["BEHIND"])
    assert main([str(paths.get(word, word)) for word in command]) == 0
    assert says in capsys.readouterr().out
    if "OUT" in command and command[0] != "strip":
        onnx.checker.check_model(onnx.load(paths["OUT"]))


def test_other_functions_read_such_a_model(tmp_path):
    source, behind = backwards(), model("z = Neg(y)", 17, inputs="float[2] y", outputs="float[2] z")
    onnx.checker.check_model(opshift.extract(source, to=["y"]))
    onnx.checker.check_model(opshift.merge(source, behind))
    assert not opshift.diff(source, opshift.convert_version(source, 17))
    assert opshift.verify(source, opshift.convert_version(source, 17)).equal
