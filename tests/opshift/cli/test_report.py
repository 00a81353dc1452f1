"""The page about one conversion: what it says, that it fetches nothing, and that names of a model are only text in it."""

import re
from html.parser import HTMLParser

import onnx
import pytest

from opshift.cli import main as cli
from opshift.cli.drawing import Box, drawing
from opshift.cli.report import _Regions
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

VOID = {"meta", "rect", "path", "br"}


class Balanced(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture
def source(tmp_path):
    made = model(
        "a = Cos(x) b = Abs(a) y = ReduceSum(b, axes)",
        18,
        inputs="float[N,3] x",
        outputs="float[N,1] y",
        constants="int64[1] axes = {1}",
    )
    made.graph.node[2].name = "<script>alert(1)</script>"
    onnx.save(made, tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


def page(tmp_path, *arguments):
    code = cli.main([*map(str, arguments), "--report", str(tmp_path / "r.html")])
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    return code, text, Balanced(text)


def test_stages_are_listed_with_what_they_changed(source, tmp_path):
    _, text, _ = page(tmp_path, "convert", source, tmp_path / "out.onnx", "--opset", "17", "--modernize", "--optimize")
    table = text.partition("<h2>Stages</h2>")[2].partition("</table>")[0]
    rows = [re.findall("<td>(.*?)</td>", row)[:2] for row in table.split("<tr>")[2:]]
    assert [name for name, _ in rows] == ["convert to opset 17", "fold", "optimize", "fold", "optimize"]
    assert rows[1] == ["fold", "1"]


def test_a_conversion(source, tmp_path):
    code, text, _ = page(tmp_path, "fold", source, tmp_path / "out.onnx", "--op", "ReduceL1")
    assert code == 0
    assert "equal: the same " in text
    assert f"<pre>opshift fold {source}" in text, "what was typed, not what Python was started with"
    assert "Folded Abs, ReduceSum into ReduceL1" in text
    before, after = re.findall(r'<svg[^>]*aria-label="([^"]*)"', text)[-2:]
    assert (before, after) == ("Abs, ReduceSum", "ReduceL1")
    assert "x [" in text, "the inputs that it ran on"


def test_it_fetches_nothing_and_takes_names_for_text(source, tmp_path):
    _, text, held = page(tmp_path, "fold", source, tmp_path / "out.onnx", "--op", "ReduceL1")
    assert not {"script", "link", "img", "iframe"} & set(held.tags)
    assert not [value for name, value in held.attributes if name in ("src", "href")]
    assert "url(" not in text
    assert "&lt;script&gt;" in text


def test_a_refusal(tmp_path):
    onnx.save(model("y = ImageDecoder(x)", 20, inputs="uint8[N] x", outputs="uint8[A,B,C] y"), tmp_path / "in.onnx")
    code, text, _ = page(tmp_path, "convert", tmp_path / "in.onnx", tmp_path / "out.onnx", "--opset", "19")
    assert code == 3
    assert "not written" in text
    assert "no operator of opset 19 decodes" in text


def test_two_models(source, tmp_path):
    code, text, _ = page(tmp_path, "verify", source, source)
    assert code == 0
    assert "equal: the same " in text
    other = onnx.load(source)
    other.graph.node[0].op_type = "Sin"
    onnx.save(other, tmp_path / "other.onnx")
    code, text, _ = page(tmp_path, "verify", source, tmp_path / "other.onnx")
    assert code == 4
    assert 'class="verdict bad"' in text


def test_remarks(tmp_path):
    """As the terminal tells them, and as text."""
    still = "z = Constant<value_float = 0.0>() y = Mul(x, z)"
    one = model(still, 17, inputs="float[2] x", outputs="float[2] y")
    one.graph.node[1].output[0] = one.graph.output[0].name = "<b>"
    onnx.save(one, tmp_path / "in.onnx")
    _, text, _ = page(tmp_path, "verify", tmp_path / "in.onnx", tmp_path / "in.onnx")
    said = "output &quot;&lt;b&gt;&quot; was the same in each run, so little was tested"
    assert f"<h2>Remarks</h2><ul><li>{said}</li></ul>" in text
    assert 'class="verdict"' in text, "and they do not decide"
    onnx.save(model("y = Neg(x)", 17, inputs="float[2] x", outputs="float[2] y"), tmp_path / "in.onnx")
    _, text, _ = page(tmp_path, "verify", tmp_path / "in.onnx", tmp_path / "in.onnx")
    assert "Remarks" not in text


def test_a_page_that_cannot_be_written_is_said_to(source, tmp_path, capsys):
    missing = tmp_path / "missing/r.html"
    assert cli.main(["verify", str(source), str(source), "--report", str(missing)]) == 6
    assert capsys.readouterr().err == f"opshift: {missing} cannot be written: folder {missing.parent} does not exist\n"


@pytest.mark.parametrize("verb", ["convert"])
def test_an_output_that_cannot_be_written_is_said_to_with_the_path_that_was_given(source, tmp_path, capsys, verb):
    missing = tmp_path / "missing/out.onnx"
    assert cli.main([verb, str(source), str(missing), "--opset", "17"]) == 6
    assert capsys.readouterr().err == f"opshift: {missing} cannot be written: folder {missing.parent} does not exist\n"


def test_a_page_is_for_one_model(source, tmp_path, capsys):
    many = ["convert", str(source), "--opset", "17", "--out-dir", str(tmp_path / "o"), "--report", "r.html"]
    assert cli.main(many) == 2
    assert "--report works with one model" in capsys.readouterr().err


def test_what_is_below_stands_below():
    text = drawing([Box("n", "Abs", ("x",), ("a",)), Box("m", "Add", ("a", "z"), ("y",))])
    heights = {name: float(y) for y, name in re.findall(r'<text[^>]* y="([\d.]+)">(x|z|Abs|Add)<', text)}
    assert heights["x"] < heights["Abs"] < heights["Add"]
    assert heights["x"] < heights["z"] < heights["Add"], "what comes from outside stands near its reader"
    assert text.count("<path") == 3


def around(before, after, name, outputs="float[3] y"):
    models = [model(text, 20, inputs="float[3] x", outputs=outputs) for text in (before, after)]
    for made in models:
        for node in made.graph.node:
            node.name = f"{node.op_type}_"
    found = _Regions(*models).around(name)
    return found and tuple([node.op_type for node in nodes] for nodes in found)


def test_what_is_drawn_around_a_node():
    assert around("a = Abs(x) y = Neg(a)", "a = Abs(x) y = Cos(a)", "y") == (["Neg"], ["Cos"])
    assert around("a = Abs(x) y = Neg(a)", "a = Abs(x) y = Cos(a)", "a") is None, "it is the same in both"
    before, after = "a = Abs(x) p = Exp(a) q = Neg(p) y = Relu(q)", "a = Abs(x) q = Cos(a) y = Relu(q)"
    for name in ("p", "q", "Exp_", "Cos_"):
        assert around(before, after, name) == (["Exp", "Neg"], ["Cos"])
    assert around("a = Abs(x) y = Neg(a)", "y = Neg(x)", "a") == (["Abs", "Neg"], ["Neg"])
    assert around("a = Abs(x) y = Neg(a)", "y = Neg(x)", "nobody") is None
    assert around("a = Abs(x) y = Neg(x)", "y = Neg(x)", "a") is None, "it leads to nothing that both have"


def test_changed_parts_and_outputs_are_shown_with_their_bounds(tmp_path):
    bodies = {"in": "a = Mul(x, k) y = Exp(a)", "other": "a = Div(x, q) y = Exp(a)"}
    for name, body in bodies.items():
        held = "float k = {0.3}, float q = {3.3333333}"
        onnx.save(model(body, 17, constants=held, inputs="float[9] x", outputs="float[9] y"), tmp_path / f"{name}.onnx")
    code, text, _ = page(tmp_path, "verify", tmp_path / "in.onnx", tmp_path / "other.onnx")
    assert code == 0
    (bar,) = re.findall(r'<td data-of="difference"><svg[^>]*aria-label="([^"]*)".*?<td data-of="verdict">agrees', text)
    difference, allowed = map(float, bar.split(" of "))
    assert 0 < difference < allowed
    (change,) = re.findall(r'<td data-of="change">(.*?)</td>', text)
    assert change == "Mul → Div"
    assert re.findall(r'<td data-of="places">(.*?)</td>', text) == ["1"]
    (ran,) = re.findall(r'<td data-of="tested on">(.*?)</td>', text)
    assert re.fullmatch(r"\d+ inputs", ran)
