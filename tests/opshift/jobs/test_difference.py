"""How two models differ: each kind of difference is told, and what computes the same is not."""

import onnx
import pytest
from onnx import helper, numpy_helper

import opshift
from opshift.cli import main as cli
from tests.support import model

IO = {"inputs": "float[N,4] x", "outputs": "float[N,4] y"}
BODY = "a = Abs(x) b = Mul(a, w) c = Softmax<axis = 1>(b) y = Add(c, u)"
WEIGHTS = "float[4] w = {1, 2, 3, 4}, float[4] u = {5, 6, 7, 8}"


def make(body=BODY, opset=17, constants=WEIGHTS, **io):
    made = model(body, opset, constants=constants, **{**IO, **io})
    for node in made.graph.node:
        node.name = f"{node.op_type}_{node.output[0]}"
    return made


def lines(after, before=None):
    found = opshift.diff(before or make(), after)
    assert bool(found) == (not found.lines[0].startswith("the same"))
    return found.lines


def test_a_model_is_the_same_as_itself():
    assert lines(make()) == ["the same: 4 nodes, with the same weights"]
    assert not opshift.diff(make(), make())


def test_names_of_inner_values_and_of_weights_do_not_matter():
    other = make(
        "p = Abs(x) q = Mul(p, v) r = Softmax<axis = 1>(q) y = Add(r, t)",
        constants=WEIGHTS.replace("w", "v").replace("u", "t"),
    )
    assert lines(other) == ["the same: 4 nodes, with the same weights"]


def test_a_constant_is_the_same_as_a_node_that_holds_it():
    other = make("w = Constant<value = float[4] {1, 2, 3, 4}>() " + BODY, constants="float[4] u = {5, 6, 7, 8}")
    assert lines(other) == ["the same: 4 nodes, with the same weights"]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (make(BODY.replace("axis = 1", "axis = 0")), 'changed: Softmax "Softmax_c": axis 1 -> 0'),
        (make(BODY.replace("<axis = 1>", "")), 'changed: Softmax "Softmax_c": axis 1 -> none'),
        (
            make(constants=WEIGHTS.replace("4}", "4.5}")),
            'changed: Mul "Mul_b": other values of input 1 (float[4], largest difference 0.5)',
        ),
        (
            make(constants=WEIGHTS.replace("float[4] w = {1, 2, 3, 4}", "float w = {1}")),
            'changed: Mul "Mul_b": input 1 is float[4] -> float[]',
        ),
        (make(BODY.replace("Mul(a, w)", "Mul(x, w)")), 'changed: Mul "Mul_b": input 0 is another value'),
        (
            make(BODY.replace("Mul(a, w)", "Mul(a, a)")),
            'changed: Mul "Mul_b": input 1 is computed instead of a constant',
        ),
        (make(BODY.replace("Abs", "Neg")), 'only in the first: Abs "Abs_a"'),
        (make(BODY.replace("Abs", "Neg")), 'only in the second: Neg "Neg_a"'),
        (make(BODY + " z = Exp(c)"), 'only in the second: Exp "Exp_z"'),
        (make(opset=18), "opset ai.onnx: 17 -> 18"),
        (make(inputs="float[2,4] x"), "input x: float[N,4] -> float[2,4]"),
        (make(inputs="float[N,4] x, float z"), "input z: none -> float[]"),
        (make(BODY.replace("y =", "z ="), outputs="float[N,4] z"), "output y: float[N,4] -> none"),
    ],
)
def test_what_differs(after, said):
    assert said in lines(after)


def test_differences_that_are_alike_are_told_in_one_line():
    body = "a = Relu(x) b = MaxPool<kernel_shape = [2]>(a) c = MaxPool<kernel_shape = [2]>(b) y = Relu(c)"
    io = {"inputs": "float[1,1,8] x", "outputs": "float[1,1,6] y"}
    after = make(body.replace("[2]", "[3]"), constants="", **io)
    before = make(body, constants="", **io)
    assert 'changed: 2 x MaxPool "MaxPool_b" "MaxPool_c": kernel_shape [2] -> [3]' in lines(after, before)


def test_nodes_whose_names_changed_are_matched_by_their_order():
    after = make("p = Abs(x) q = Mul(p, w) r = Softmax<axis = 0>(q) y = Add(r, u)")
    found = opshift.diff(make(), after)
    assert [pair.op for pair in found.changed] == ["Softmax"]
    assert found.same == 3


def test_declarations_and_functions():
    before, after = make(), make()
    before.graph.value_info.append(helper.make_tensor_value_info("a", 1, ["N", 4]))
    after.graph.value_info.append(helper.make_tensor_value_info("a", 1, [2, 4]))
    assert "declared types of inner values: float[N,4] -> float[2,4]" in lines(after, before)


def test_from_files(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    big = make()
    big.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(big.graph.initializer[0]), "extra"))
    onnx.save(make(), "a.onnx")
    onnx.save(make(BODY.replace("axis = 1", "axis = 0")), "b.onnx")
    held = make()
    for tensor in held.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(held, "c.onnx", save_as_external_data=True, location="c.data", size_threshold=0)
    assert cli.main(["diff", "a.onnx", "a.onnx"]) == 0
    assert cli.main(["diff", "a.onnx", "c.onnx"]) == 0
    capsys.readouterr()
    assert cli.main(["diff", "a.onnx", "b.onnx", "--report", "d.html"]) == 4
    assert 'changed: Softmax "Softmax_c": axis 1 -> 0' in capsys.readouterr().out
    page = (tmp_path / "d.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert "axis 1 -&gt; 0" in page


@pytest.mark.parametrize(
    ("typed", "code"),
    [(["a.onnx"], 2), (["a.onnx", "none.onnx"], 5), (["a.onnx", "a.onnx", "--report", "nowhere/d.html"], 6)],
)
def test_what_cannot_be_compared(tmp_path, monkeypatch, typed, code):
    monkeypatch.chdir(tmp_path)
    onnx.save(make(), "a.onnx")
    assert cli.main(["diff", *typed]) == code
    assert [path.name for path in tmp_path.iterdir()] == ["a.onnx"]
