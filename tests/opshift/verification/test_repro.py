"""The smallest pair of models that differ is written, with inputs, outputs and a command that shows it again."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from opshift.passes.records import replace

import opshift
from opshift.cli import main as cli
from opshift.verification import repro
from opshift.verification.proof import Manner, Prover
from opshift.verification.regions import Body
from opshift.verification.side import Side
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
IN, OUT = "float[2,3] x", "float[2,3] y"


def chain(count, odd=()):
    """`count` nodes one after the other; those at `odd` places are others."""
    names = ["x", *(f"v{k}" for k in range(1, count)), "y"]
    body = " ".join(f"{names[k + 1]} = {'Sin' if k in odd else 'Cos'}({names[k]})" for k in range(count))
    return model(body, 17, inputs=IN, outputs=OUT)


def failing(one, other):
    made = Prover(Body(Side(one)), Body(Side(other)), [{"x": X}], Manner("close"))
    made.prove()
    return made.failures[0]


def read(folder):
    return [numpy_helper.to_array(onnx.load_tensor(str(path))) for path in sorted(folder.glob("*.pb"))]


@pytest.mark.parametrize("at", [0, 1, 20, 49])
def test_what_is_written_is_small_and_still_differs(tmp_path, at):
    one, other = chain(50), chain(50, odd=[at])
    assert repro.write(str(tmp_path / "r"), Side(one), Side(other), failing(one, other))
    for name, op, function in (("before", "Cos", np.cos), ("after", "Sin", np.sin)):
        piece = onnx.load(tmp_path / "r" / f"{name}.onnx")
        onnx.checker.check_model(piece)
        assert [node.op_type for node in piece.graph.node] == [op]
        (given,), (output,) = read(tmp_path / "r" / "inputs"), read(tmp_path / "r" / f"outputs-{name}")
        np.testing.assert_allclose(output, function(given), rtol=1e-6)
    assert (tmp_path / "r" / "command.txt").read_text() == f"{repro.COMMAND} {repro.GIVEN}\n"


def test_weights_in_files_come_along(tmp_path):
    made = []
    for k in (3, 4):
        proto = model("a = Cos(x) y = Mul(a, w)", 17, inputs=IN, outputs=OUT)
        proto.graph.initializer.append(numpy_helper.from_array(np.full((2, 3), k, np.float32), "w"))
        onnx.save(proto, tmp_path / f"{k}.onnx", save_as_external_data=True, location=f"{k}.data", size_threshold=0)
        made.append(str(tmp_path / f"{k}.onnx"))
    found = opshift.verify(*made, repro=tmp_path / "r")
    assert (found.status, found.weights, found.repro) == ("different", ("w",), str(tmp_path / "r"))
    piece = onnx.load(tmp_path / "r" / "after.onnx", load_external_data=False)
    np.testing.assert_array_equal(numpy_helper.to_array(piece.graph.initializer[0]), np.full((2, 3), 4, np.float32))


def test_functions_come_along(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (float[2,3] x) => (float[2,3] y) {{ a = Neg(x) b = my.Turn(a) y = Abs(b) }}
        <domain: "my", opset_import: ["" : 17]> Turn (x) => (y) {{ y = {}(x) }}"""
    found = opshift.verify(*(onnx.parser.parse_model(text.format(op)) for op in ("Sin", "Cos")), repro=tmp_path / "r")
    assert (found.tensor, found.op) == ("b", "Turn")
    piece = onnx.load(tmp_path / "r" / "after.onnx")
    assert [function.name for function in piece.functions] == ["Turn"]


def test_the_command_shows_it_again(tmp_path, capsys, monkeypatch):
    onnx.save(chain(20), tmp_path / "a.onnx")
    onnx.save(chain(20, odd=[12]), tmp_path / "b.onnx")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["verify", "a.onnx", "b.onnx", "--repro", "r"]) == 4
    assert 'DIFFERENT at "v13", made by Sin: ' in capsys.readouterr().out
    assert cli.main(["verify", "a.onnx", "b.onnx", "--repro", "r"]) == 2, "it would mix with what is there"
    assert "is not empty" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path / "r")
    assert cli.main((tmp_path / "r" / "command.txt").read_text().split()[1:]) == 4
    assert 'DIFFERENT at "v13"' in capsys.readouterr().out


def test_a_constant_that_differs_is_shown_without_inputs(tmp_path, monkeypatch, capsys):
    for name, number in (("a", 1), ("b", 2)):
        body = f"c = Constant<value = float {{{number}}}>() d = Neg(c) y = Add(x, d)"
        onnx.save(model(body, 17, inputs="float[N] x", outputs="float[N] y"), tmp_path / f"{name}.onnx")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["verify", "a.onnx", "b.onnx", "--repro", "r"]) == 4
    command = (tmp_path / "r" / "command.txt").read_text().split()
    monkeypatch.chdir(tmp_path / "r")
    assert cli.main(command[1:]) == 4


def test_the_output_that_differs_is_shown(tmp_path):
    io = {"inputs": "float[6] x", "outputs": "float[3] y", "constants": "int64[1] o = {0}, int64[1] t = {2}, int64[1] h = {3}, int64[1] f = {5}"}  # fmt: skip
    one = model("a, b = Split(x) y = Add(a, b)", 17, **io)
    other = model("a = Slice(x, o, h) b = Slice(x, t, f) y = Add(a, b)", 17, **io)
    assert opshift.verify(one, other, repro=tmp_path / "r").tensor == "b"
    outputs = [read(tmp_path / "r" / f"outputs-{name}")[0] for name in ("before", "after")]
    assert not np.array_equal(*outputs)


def test_nothing_is_written_where_nothing_differs(tmp_path):
    found = opshift.verify(chain(3), chain(3), repro=tmp_path / "r")
    assert (found.status, found.node, found.repro) == ("equal", "", "")
    assert not (tmp_path / "r").exists()


def test_nothing_is_written_of_what_does_not_run(tmp_path):
    one, other = chain(3), chain(3, odd=[1])
    failure = replace(failing(one, other), values={"v1": None})
    assert not repro.write(str(tmp_path / "r"), Side(one), Side(other), failure)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("option", ["--repro", "--save-inputs"])
def test_what_cannot_be_written_has_its_own_exit_code(tmp_path, capsys, option):
    onnx.save(chain(2), tmp_path / "a.onnx")
    onnx.save(chain(2, odd=[1]), tmp_path / "b.onnx")
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "folder"
    assert cli.main(["verify", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), option, str(place)]) == 6
    assert capsys.readouterr().err == f"opshift: {place} cannot be written: Not a directory\n"
