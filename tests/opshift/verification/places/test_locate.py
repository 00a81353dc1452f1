"""Where two models part is found by running a few values at a time, and written out as the smallest pair that differs."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from opshift.passes.rewrite import registry
from opshift.passes.rewrite.registry import Pair
from opshift.passes.rewrite.says import says

import opshift
from opshift.cli import main as cli
from opshift.verification import verify
from opshift.verification.compare import compare
from opshift.verification.engines import OnnxRuntime
from opshift.verification.places import repro
from opshift.verification.places.locate import locate
from opshift.verification.side import Side
from tests.support import model

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
IN, OUT = "float[2,3] x", "float[2,3] y"


def differs(a, b, name=""):
    return compare(a, b).why


def chain(count, odd=(), op="Sin"):
    """`count` nodes one after the other; those at `odd` places are others."""
    names = ["x", *(f"v{k}" for k in range(1, count)), "y"]
    body = " ".join(f"{b} = {op if k in odd else 'Cos'}({a})" for k, (a, b) in enumerate(pairwise(names)))
    return model(body, 17, inputs=IN, outputs=OUT)


def place(before, after, given=None, tensor="y"):
    return locate(Side(before), Side(after), given or {"x": X}, tensor, differs)


@pytest.mark.parametrize("at", [0, 1, 57, 198, 199])
def test_the_first_node_that_differs_is_found(at):
    found = place(chain(200), chain(200, odd=[at]))
    assert found.tensor == ("y" if at == 199 else f"v{at + 1}")
    assert (found.op, found.before, found.after) == ("Sin", ((found.tensor, "Cos"),), ((found.tensor, "Sin"),))
    assert list(found.values) == ["x" if at == 0 else f"v{at}"]
    np.testing.assert_allclose(found.actual, np.sin(next(iter(found.values.values()))), rtol=1e-6)
    np.testing.assert_allclose(found.expected, np.cos(next(iter(found.values.values()))), rtol=1e-6)


def test_of_two_the_first():
    assert place(chain(40), chain(40, odd=[11, 30])).tensor == "v12"


def test_few_values_are_held_at_once(monkeypatch):
    asked = []
    monkeypatch.setattr(
        Side, "open", lambda self, _open=Side.open: asked.append(len(self.model.graph.output)) or _open(self)
    )
    place(chain(1000), chain(1000, odd=[700]))
    assert max(asked) <= 17
    assert len(asked) <= 20


def test_a_difference_that_is_gone_in_between():
    """Relu hides a difference of negative numbers on one way to the output."""
    before = model("a = Neg(x) r = Relu(a) b = Mul(a, x) y = Add(r, b)", 17, inputs=IN, outputs=OUT)
    after = model(
        "n = Neg(x) a = Mul(n, two) r = Relu(n) b = Mul(a, x) y = Add(r, b)",
        17,
        inputs=IN,
        outputs=OUT,
        constants="float two = {2}",
    )
    found = place(before, after)
    assert found.tensor == "a"
    assert [op for _, op in found.after] == ["Neg", "Mul"]


def test_values_with_other_names_are_passed_over():
    before = model("a = Cos(x) b = Sin(a) c = Exp(b) y = Neg(c)", 17, inputs=IN, outputs=OUT)
    after = model("a = Cos(x) other = Cos(a) more = Exp(other) y = Neg(more)", 17, inputs=IN, outputs=OUT)
    found = place(before, after)
    assert (found.tensor, list(found.values)) == ("y", ["a"])
    assert [op for _, op in found.before] == ["Sin", "Exp", "Neg"]
    assert [op for _, op in found.after] == ["Cos", "Exp", "Neg"]


def test_weights_that_differ_are_named():
    before, after = (
        model(
            "a = Cos(x) b = Mul(a, w) y = Add(b, u)",
            17,
            inputs=IN,
            outputs=OUT,
            constants=f"float[3] w = {{1, 2, {k}}}, float[3] u = {{1, 1, 1}}",
        )
        for k in (3, 4)
    )
    found = place(before, after)
    assert (found.tensor, found.weights) == ("b", ("w",))


def test_a_branch_is_one_node_and_what_it_reads_outside_is_compared():
    text = "a = {op}(x) c = Constant<value_int=1>() k = Cast<to=9>(c) y = If(k) <then_branch = t () => (float[2,3] p) {{ p = Neg(a) }}, else_branch = e () => (float[2,3] q) {{ q = {other}(a) }}>"
    one, two = (model(text.format(op=op, other="Abs"), 17, inputs=IN, outputs=OUT) for op in ("Sin", "Cos"))
    assert place(one, two).tensor == "a"
    inner = model(text.format(op="Sin", other="Abs").replace("p = Neg", "p = Exp"), 17, inputs=IN, outputs=OUT)
    found = place(one, inner)
    assert (found.tensor, found.op) == ("y", "If")
    assert "a" in found.values


def test_functions_come_along(tmp_path):
    """A piece of a model that calls functions of its own, which hold what differs."""
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (float[2,3] x) => (float[2,3] y) {{ a = Neg(x) b = my.Turn(a) c = my.Twice(b) y = Abs(c) }}
        <domain: "my", opset_import: ["" : 17]> Turn (x) => (y) {{ y = {}(x) }}
        <domain: "my", opset_import: ["" : 17]> Twice (x) => (y) {{ y = Add(x, x) }}"""
    one, two = (onnx.parser.parse_model(text.format(op)) for op in ("Sin", "Cos"))
    found = place(one, two)
    assert (found.tensor, found.op, found.before) == ("b", "Turn", (("b", "Turn"),))
    assert written(tmp_path, one, two)
    for name, function in (("before", np.sin), ("after", np.cos)):
        piece = onnx.load(tmp_path / "r" / f"{name}.onnx")
        onnx.checker.check_model(piece)
        assert [node.op_type for node in piece.graph.node] == ["Turn"]
        (made,) = OnnxRuntime(piece).run({"a": -X})
        np.testing.assert_allclose(made, function(-X), rtol=1e-6)


def written(tmp_path, before, after, given=None):
    given = given or {"x": X}
    sides = Side(before), Side(after)
    found = locate(*sides, given, "y", differs)
    return repro.write(tmp_path / "r", *sides, given, found, differs)


def read(folder):
    return [numpy_helper.to_array(onnx.load_tensor(str(path))) for path in sorted(folder.glob("*.pb"))]


def test_what_is_written_is_small_and_still_differs(tmp_path):
    assert written(tmp_path, chain(50), chain(50, odd=[20]))
    for name, op, function in (("before", "Cos", np.cos), ("after", "Sin", np.sin)):
        piece = onnx.load(tmp_path / "r" / f"{name}.onnx")
        onnx.checker.check_model(piece)
        assert [node.op_type for node in piece.graph.node] == [op]
        assert [value.name for value in piece.graph.input] == ["v20"]
        (given,), (output,) = read(tmp_path / "r" / "inputs"), read(tmp_path / "r" / f"outputs-{name}")
        np.testing.assert_allclose(output, function(given), rtol=1e-6)
    assert (tmp_path / "r" / "command.txt").read_text() == f"{repro.COMMAND} {repro.GIVEN}\n"


def test_what_differs_without_being_given_anything_is_shown_again(tmp_path, monkeypatch, capsys):
    """The difference is a constant: there are no inputs to write."""
    for name, number in (("a", 1), ("b", 2)):
        of = model(
            f"c = Constant<value = float {{{number}}}>() y = Add(x, c)", 17, inputs="float[N] x", outputs="float[N] y"
        )
        onnx.save(of, tmp_path / f"{name}.onnx")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["verify", "a.onnx", "b.onnx", "--repro", "r"]) == 4
    command = (tmp_path / "r" / "command.txt").read_text().split()
    assert command == repro.COMMAND.split()
    monkeypatch.chdir(tmp_path / "r")
    capsys.readouterr()
    assert cli.main(command[1:]) == 4
    assert 'first at tensor "c"' in capsys.readouterr().out


def test_what_hangs_on_more_is_written_with_all_of_it(tmp_path):
    """Fed with values that agree the piece does not differ: the difference lies below what was allowed for."""
    found = locate(Side(chain(3)), Side(chain(3, odd=[1])), {"x": X}, "y", differs)
    calls = []

    def once(a, b, name):
        calls.append(1)
        return "" if len(calls) == 1 else differs(a, b)

    assert repro.write(tmp_path / "r", Side(chain(3)), Side(chain(3, odd=[1])), {"x": X}, found, once)
    assert [value.name for value in onnx.load(tmp_path / "r" / "before.onnx").graph.input] == ["x"]


def test_nothing_is_written_where_nothing_differs_any_more(tmp_path):
    found = locate(Side(chain(3)), Side(chain(3, odd=[1])), {"x": X}, "y", differs)
    assert not repro.write(
        tmp_path / "r", Side(chain(3)), Side(chain(3, odd=[1])), {"x": X}, found, lambda a, b, name: ""
    )
    assert not (tmp_path / "r").exists()


def test_weights_in_external_data_come_along(tmp_path):
    made = []
    for k in (3, 4):
        proto = model("a = Cos(x) y = Mul(a, w)", 17, inputs=IN, outputs=OUT)
        proto.graph.initializer.append(numpy_helper.from_array(np.full((2, 3), k, np.float32), "w"))
        onnx.save(proto, tmp_path / f"{k}.onnx", save_as_external_data=True, location=f"{k}.data", size_threshold=0)
        made.append(Side(onnx.load(tmp_path / f"{k}.onnx", load_external_data=False), str(tmp_path)))
    found = locate(*made, {"x": X}, "y", differs)
    assert repro.write(tmp_path / "r", *made, {"x": X}, found, differs)
    piece = onnx.load(tmp_path / "r" / "after.onnx", load_external_data=False)
    np.testing.assert_array_equal(numpy_helper.to_array(piece.graph.initializer[0]), np.full((2, 3), 4, np.float32))


def test_the_verdict_names_the_node_and_the_piece_shows_it_again(tmp_path, capsys):
    onnx.save(chain(20), tmp_path / "a.onnx")
    onnx.save(chain(20, odd=[12]), tmp_path / "b.onnx")
    folder = tmp_path / "r"
    paths = [str(tmp_path / name) for name in ("a.onnx", "b.onnx")]
    assert cli.main(["verify", *paths, "--repro", str(folder)]) == 4
    assert "first at tensor \"v13\", which Sin 'v13' makes of values that agree" in capsys.readouterr().out
    pieces = [str(folder / name) for name in ("before.onnx", "after.onnx")]
    assert len(onnx.load(pieces[0]).graph.node) == 1
    assert cli.main(["verify", *pieces, "--inputs", str(folder / "inputs")]) == 4
    assert 'first at tensor "v13"' in capsys.readouterr().out
    assert cli.main(["verify", *paths, "--repro", str(folder)]) == 2, "it would mix with what is there"
    assert "holds something already" in capsys.readouterr().err


def test_nothing_is_written_where_nothing_differs(tmp_path):
    found = opshift.verify(chain(3), chain(3), repro=tmp_path / "r")
    assert found.equal
    assert (found.node, found.repro) == ("", "")
    assert not (tmp_path / "r").exists()


def test_what_was_done_at_the_place_is_told(tmp_path, monkeypatch, capsys):
    """A step that is wrong: the node that it made is named, and the change beside it."""
    wrong = Pair(down=says("It is something else")(lambda node: str(node.build.Neg(node.input(0)))))
    assert registry.step("", "Abs", 13), "loaded, before another is put in its place"
    monkeypatch.setitem(registry._steps, ("", "Abs", 13), wrong)
    source = model("a = Cos(x) b = Abs(a) y = Exp(b)", 13, inputs=IN, outputs=OUT)
    onnx.save(source, tmp_path / "a.onnx")
    assert cli.main(["convert", str(tmp_path / "a.onnx"), str(tmp_path / "o.onnx"), "--opset", "12"]) == 4
    printed = capsys.readouterr().out
    assert 'first at tensor "b", which Neg' in printed
    assert "done there: 1 x Abs 13 -> 6, exact: It is something else" in printed
    assert not (tmp_path / "o.onnx").exists()


def test_a_conversion_keeps_the_types_of_the_interface(tmp_path, monkeypatch, capsys):
    """Two models of other precisions can be compared; what becomes of one model has its own."""
    source = model("y = Cos(x)", 13, inputs=IN, outputs=OUT)
    onnx.save(source, tmp_path / "a.onnx")
    seen = verify.Verification("equal", "onnxruntime", 1, cast=("y",))
    monkeypatch.setattr(verify, "verify_apart", lambda *_, **__: seen)
    assert cli.main(["convert", str(tmp_path / "a.onnx"), str(tmp_path / "o.onnx"), "--opset", "12"]) == 4
    assert "of another type: y" in capsys.readouterr().out


def test_models_that_make_the_same_names_in_another_order():
    """What is above in one model is below in the other: the walk ends all the same."""
    io = {"inputs": IN, "outputs": "float[2,3] t, float[2,3] a"}
    before, after = model("a = Cos(x) t = Sin(a)", 17, **io), model("t = Tanh(x) a = Exp(t)", 17, **io)
    found = place(before, after, tensor="t")
    assert found.tensor in ("t", "a")
    assert found.why
    assert not opshift.verify(before, after)


@pytest.mark.parametrize("option", ["--repro", "--save-inputs"])
def test_what_cannot_be_written_has_its_own_exit_code(tmp_path, capsys, option):
    onnx.save(chain(2), tmp_path / "a.onnx")
    onnx.save(chain(2, odd=[1]), tmp_path / "b.onnx")
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "folder"
    assert cli.main(["verify", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), option, str(place)]) == 6
    assert capsys.readouterr().err == f"opshift: {place} cannot be written: Not a directory\n"


def test_what_holds_nothing_is_not_written(tmp_path):
    """An optional value has a type that nobody knows where nothing is in it."""
    sides = Side(chain(3)), Side(chain(3, odd=[1]))
    found = locate(*sides, {"x": X}, "y", differs)
    assert found.tensor == "v2"
    none = replace(found, values={"v1": None})
    assert repro.write(tmp_path / "r", *sides, {"x": X}, none, differs)
    assert not (tmp_path / "r" / "inputs" / "input_1.pb").exists()
