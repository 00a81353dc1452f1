"""What is told while a command works: lines with -v, a bar on a terminal, nothing in a pipe, and callbacks in Python."""

import logging
import os
import sys
from contextlib import suppress
from itertools import pairwise

import onnx
import pytest

import opshift
from opshift.cli import main as cli
from tests.support import model

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}


@pytest.fixture
def source(tmp_path):
    onnx.save(model("a = Sin(x) y = ReduceMax<axes=[1]>(a)", 13, **IO), tmp_path / "in.onnx")
    return str(tmp_path / "in.onnx")


def test_in_a_pipe_nothing_is_told(source, tmp_path, capsys):
    assert cli.main(["convert", source, str(tmp_path / "out.onnx"), "--opset", "18"]) == 0
    assert capsys.readouterr().err == ""


def test_verbose_says_what_is_done(source, tmp_path, capsys):
    assert cli.main(["convert", source, str(tmp_path / "out.onnx"), "--opset", "18", "-v"]) == 0
    said = capsys.readouterr().err.splitlines()
    first = [
        "read in.onnx",
        "convert to opset 18",
        "write",
        "run the first model",
        "run the second model (1 of 3)",
    ]
    assert said[:5] == [f"opshift: {line}" for line in first]
    assert said[-1] == "opshift: try drawn values on changed parts (1 of 1)"
    assert not logging.getLogger("opshift").handlers
    assert logging.getLogger("opshift").level == logging.NOTSET


@pytest.mark.long
def test_quiet_prints_what_went_wrong_alone(source, tmp_path, capsys):
    onnx.save(model("a = Cos(x) y = ReduceMax<axes=[1]>(a)", 13, **IO), tmp_path / "other.onnx")
    other, out = str(tmp_path / "other.onnx"), str(tmp_path / "out.onnx")
    assert cli.main(["convert", source, out, "--opset", "18", "-q"]) == 0
    assert cli.main(["verify", source, out, "-q"]) == 0
    assert cli.main(["convert", source, other, "--out-dir", str(tmp_path / "all"), "--opset", "18", "-q"]) == 0
    assert tuple(capsys.readouterr()) == ("", "")
    assert cli.main(["verify", source, other, "-q"]) == 4
    assert capsys.readouterr().out.startswith("DIFFERENT")
    assert cli.main(["convert", source, out, "--opset", "99", "-q"]) == 2
    assert capsys.readouterr().err
    assert cli.main(["verify", source, out, "-q", "--format", "json"]) == 0
    assert capsys.readouterr().out.startswith("{")


def test_loggers_and_callbacks_hear_the_same(source, caplog):
    heard = []
    with caplog.at_level(logging.INFO, "opshift"):
        assert opshift.verify(source, source, progress=lambda *what: heard.append(what))
    assert ("run the second model", 3, 3) in heard
    assert [record.getMessage() for record in caplog.records if record.name == "opshift"] == [
        f"{what} ({place} of {count})" if count else what for what, place, count in heard
    ]


def test_many_models_are_heard_of(source, tmp_path):
    heard = []
    opshift.convert_files([source], tmp_path / "all", 18, progress=lambda *what: heard.append(what[0]))
    assert heard[:3] == ["read in.onnx", "convert to opset 18", "write"]


def test_users_hear_nothing_unless_they_ask(source, caplog):
    assert opshift.verify(source, source)
    assert not caplog.records


@pytest.fixture
def terminal():
    """A terminal, and what it got."""
    import pty

    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)

    def said():
        got = b""
        with suppress(BlockingIOError):
            while more := os.read(ours, 1 << 16):
                got += more
        return got.decode()

    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        yield stream, said
    os.close(ours)


VERBS = {
    "convert IN OUT --opset 18": "run the second model (3 of 3)",
    "convert IN --out-dir all --opset 18": "convert models (0 of 1)",
    "optimize IN OUT": "read in.onnx ...",
    "extract IN OUT --to a": "read in.onnx ...",
    "merge IN IN OUT --connect y=x": "join ...",
    "verify IN IN": "read in.onnx ...",
    "diff IN IN": "read in.onnx ...",
    "strip IN OUT": "read in.onnx ...",
    "inspect IN": "try each opset (28 of 28)",
    "inspect IN --target all": "convert for ",
    "inspect IN --opset 18": "convert to opset 18 ...",
}


@pytest.mark.posix
@pytest.mark.parametrize("typed", VERBS)
def test_a_terminal_gets_a_line_that_is_gone_afterwards(source, tmp_path, monkeypatch, terminal, typed):
    stream, said = terminal
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    if "merge" in typed:
        onnx.save(model("y = Sin(x)", 13, **{**IO, "outputs": "float[N,3] y"}), source)
    assert cli.main(typed.replace("IN", source).replace("OUT", "out.onnx").split()) == 0
    shown = said().split("\r")
    assert any(line.startswith(VERBS[typed]) for line in shown), shown
    assert not shown[-1]
    assert not shown[-2].strip()


@pytest.mark.posix
@pytest.mark.parametrize("quietly", [["TERM", "dumb"], ["-q"]])
def test_a_terminal_that_cannot_overwrite_gets_no_line(source, monkeypatch, terminal, quietly):
    stream, said = terminal
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", quietly[-1] if len(quietly) > 1 else "xterm")
    assert cli.main(["verify", source, source, *([] if len(quietly) > 1 else quietly)]) == 0
    assert said() == ""


REWRITES = {
    "convert_version": (lambda model, **told: opshift.convert_version(model, 18, **told), ["convert to opset 18"]),
    "modernize": (
        lambda model, **told: opshift.convert_version(model, 18, modernize=True, **told),
        ["convert to opset 18", "fold"],
    ),
    "inline": (lambda model, **told: opshift.inline(model, ["Softplus"], **told), ["replace Softplus"]),
    "fold": (lambda model, **told: opshift.fold(model, **told), ["fold"]),
    "optimize": (lambda model, **told: opshift.optimize(model, **told), ["optimize"]),
    "fix": (
        lambda model, **told: opshift.convert_version(model, 18, fix_shape={"N": 2}, annotate=True, **told),
        ["fix sizes and inputs", "convert to opset 18", "propagate sizes and constants", "annotate"],
    ),
    "plan": (lambda model, **told: opshift.plan(model, 18, **told), ["convert to opset 18"]),
}


@pytest.mark.parametrize("verb", REWRITES)
def test_each_verb_tells_what_it_does(source, verb, caplog):
    call, steps = REWRITES[verb]
    heard = []
    onnx.save(model("a = Softplus(x) y = ReduceMax<axes=[1]>(a)", 13, **IO), source)
    with caplog.at_level(logging.INFO, "opshift"):
        call(source, progress=lambda *what: heard.append(what))
    assert list(dict.fromkeys(what for what, _, _ in heard)) == ["read in.onnx", *steps]
    assert [record.getMessage() for record in caplog.records if record.name == "opshift"] == [
        what for what, _, _ in heard
    ]
    heard.clear()
    call(onnx.load(source), progress=lambda *what: heard.append(what))
    assert list(dict.fromkeys(what for what, _, _ in heard)) == steps, "what is in memory is not read"


def test_a_search_for_the_nearest_opset_is_told():
    heard = []
    found = opshift.plan(
        model("y = Gelu(x)", 20, **{**IO, "inputs": "bfloat16[2] x", "outputs": "bfloat16[2] y"}),
        12,
        progress=lambda *what: heard.append(what[0]),
    )
    assert found.refusals
    assert f"try opset {found.nearest}" in heard


@pytest.mark.long
def test_a_large_graph_tells_how_far_it_is():
    names = [f"v{index}" for index in range(12_001)]
    nodes = [onnx.helper.make_node("Softmax", [one], [two]) for one, two in pairwise(names)]
    sizes = [onnx.helper.make_tensor_value_info(name, 1, [2, 3, 4]) for name in (names[0], names[-1])]
    graph = onnx.helper.make_graph(nodes, "g", sizes[:1], sizes[1:])
    large = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 12)], ir_version=7)
    heard = []
    opshift.convert_version(large, 13, progress=lambda *what: heard.append(what))
    assert heard == [("convert to opset 13", 0, 0), ("convert", 5_000, 12_000), ("convert", 10_000, 12_000)]


def test_what_a_callback_raises_ends_the_work(source):
    class Stopped(Exception):
        pass

    def stop(*_):
        raise Stopped

    for call, _ in REWRITES.values():
        with pytest.raises(Stopped):
            call(source, progress=stop)
        assert call(source), "and nobody is told afterwards"
