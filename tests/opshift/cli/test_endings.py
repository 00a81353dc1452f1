"""The last line says what became of it, and the exit code whose fault it is."""

import ast
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import opshift
from opshift.cli import main as cli
from opshift.cli import start
from opshift.verification import verify
from tests.support import model

pytestmark = pytest.mark.posix

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(model("y = ReduceMax(x, a)", 18, constants="int64[1] a = {1}", **ROWS), "in.onnx")
    return tmp_path


def run(capsys, typed):
    code = cli.main(typed.split())
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err


def refused(capsys, path, body, opset, typed, **io):
    onnx.save(model(body, opset, **io), path)
    return run(capsys, f"convert {path} out.onnx {typed}")


@pytest.mark.long
def test_the_nearest_opset_is_tried(here, capsys):
    code, lines, _ = refused(capsys, "grid.onnx", "y = GridSample(x, g)", 16, "--opset 5",
                             inputs="float[N,C,H,W] x, float[N,a,b,2] g", outputs="float[N,C,a,b] y")  # fmt: skip
    assert code == 3
    assert lines[-1] == "not written: cannot express GridSample at opset 5; try --opset 7"
    assert sum(line.startswith("refused: ") for line in lines) <= 4
    assert "-v lists all" in lines[-3]
    _, all_, _ = run(capsys, "convert grid.onnx out.onnx --opset 5 -v")
    assert sum(line.startswith("refused: ") for line in all_) > 50
    assert run(capsys, "convert grid.onnx out.onnx --opset 7 --no-verify")[0] == 0
    code, lines, _ = run(capsys, "inspect grid.onnx --opset 5")
    assert (code, lines[-1]) == (3, "it cannot be converted to opset 5; try --opset 7")
    assert run(capsys, "inspect grid.onnx --opset 7")[1][-1] == "it can be converted to opset 7"


def test_numbers_for_dimensions_are_tried(here, capsys):
    code, lines, _ = refused(capsys, "add.onnx", "y = Add(x, z)", 7, "--opset 6",
                             inputs="float[N,3] x, float[M,3] z", outputs="float[K,3] y")  # fmt: skip
    assert (code, lines[-1].partition("; ")[2]) == (
        3,
        "try --fix-shape x:?,3 --fix-shape z:?,3 with a number for each ?",
    )
    code, lines, _ = refused(capsys, "add.onnx", "y = Add(x, z)", 7, "--opset 6",
                             inputs="float[N,3] x, float[?,3] z", outputs="float[K,3] y")  # fmt: skip
    assert (code, lines[-1].startswith("not written: cannot express Add at opset 6")) == (3, True)


def test_a_later_release_is_tried(here, capsys):
    onnx.save(model("y = GridSample(x, g)", 16, inputs="float[1,1,4,4] x, float[1,2,2,2] g", outputs="float[1,1,2,2] y"), "g.onnx")  # fmt: skip
    (here / "npu.toml").write_text('name="npu"\ntitle="t"\nsource="s"\n[versions."1"]\nopset=13\nsupports=["Relu"]\n')
    code, lines, _ = run(capsys, "convert g.onnx out.onnx --target npu.toml")
    assert (code, lines[-1].startswith("not written: ")) == (3, True)
    assert lines[-1].startswith("not written: cannot express")


def test_outputs_that_differ_end_with_what_to_try(here, capsys, monkeypatch):
    found = verify.Verification("different", engine="onnxruntime", runs=1, tensor="y", why="1 instead of 2")
    monkeypatch.setattr(verify, "verify_apart", lambda *_, **__: found)
    code, lines, _ = run(capsys, "convert in.onnx out.onnx --opset 13")
    assert (code, lines[-1]) == (
        4,
        "not written: the outputs differ; --repro DIR writes the smallest models that differ",
    )
    assert 'DIFFERENT at "y": 1 instead of 2' in lines


def test_a_dry_run_ends_with_that(here, capsys):
    assert run(capsys, "convert in.onnx out.onnx --opset 13 --dry-run")[1][-1] == "not written: --dry-run"


def no_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("at", ["pathlib.Path.write_text", "os.replace"])
def test_a_report_that_cannot_be_written_leaves_no_model(here, capsys, monkeypatch, at):
    """Room runs out once the model lies beside its path; what stood there stays as it is."""
    Path("out.onnx").write_bytes(b"what was there")
    monkeypatch.setattr(at, lambda *_, **__: no_room())
    code, _, err = run(capsys, "convert in.onnx out.onnx --opset 13 --no-verify --report page.html")
    assert (code, err) == (6, "opshift: page.html cannot be written: No space left on device\n")
    assert sorted(os.listdir()) == ["in.onnx", "out.onnx"]
    assert Path("out.onnx").read_bytes() == b"what was there"


@pytest.mark.posix
def test_a_report_goes_to_a_device_as_it_is(here, capsys):
    assert run(capsys, "convert in.onnx out.onnx --opset 13 --no-verify --report /dev/full")[0] == 6
    assert run(capsys, "convert in.onnx out.onnx --opset 13 --no-verify --report /dev/null")[0] == 0
    assert sorted(os.listdir()) == ["in.onnx", "out.onnx"]


def test_a_model_that_cannot_be_written_leaves_no_report(here, capsys, monkeypatch):
    monkeypatch.setattr("opshift.files.model_file._replace", no_room)
    assert run(capsys, "convert in.onnx out.onnx --opset 13 --no-verify --report page.html")[0] == 6
    assert os.listdir() == ["in.onnx"]


def test_an_older_report_stays_where_the_model_cannot_be_written(here, capsys, monkeypatch):
    Path("page.html").write_text("of yesterday")
    typed = "convert in.onnx out.onnx --opset 13 --no-verify --report page.html"
    with monkeypatch.context() as patch:
        patch.setattr("opshift.files.model_file._replace", no_room)
        assert run(capsys, typed)[0] == 6
    assert Path("page.html").read_text() == "of yesterday"
    assert sorted(os.listdir()) == ["in.onnx", "page.html"]
    assert run(capsys, typed)[0] == 0
    assert "of yesterday" not in Path("page.html").read_text()
    assert sorted(os.listdir()) == ["in.onnx", "out.onnx", "page.html"]


def test_an_older_report_stays_where_a_newer_one_cannot_take_its_place(here, capsys, monkeypatch):
    Path("page.html").write_text("of yesterday")
    move = os.replace

    def moved(source, target):
        move(source, target) if not str(source).endswith(".part") else no_room()

    monkeypatch.setattr("os.replace", moved)
    assert run(capsys, "convert in.onnx out.onnx --opset 13 --no-verify --report page.html")[0] == 6
    assert Path("page.html").read_text() == "of yesterday"
    assert sorted(os.listdir()) == ["in.onnx", "page.html"]


@pytest.mark.parametrize(
    "typed",
    [
        "convert data.onnx weights.bin --opset 13",
        "convert data.onnx weights.bin --opset 13 --external-data none --no-verify",
        "optimize data.onnx weights.bin",
        "extract data.onnx weights.bin --to a",
        "merge in.onnx data.onnx weights.bin",
        "merge data.onnx in.onnx weights.bin",
        "strip data.onnx weights.bin",
        "convert data.onnx out.onnx --opset 13 --evidence weights.bin",
        "convert data.onnx out.onnx --opset 13 --report weights.bin",
        "optimize data.onnx out.onnx --dry-run --report ./weights.bin",
        "extract data.onnx out.onnx --to a --report weights.bin",
        "merge in.onnx data.onnx out.onnx --report weights.bin",
        "verify data.onnx in.onnx --report weights.bin",
        "verify in.onnx data.onnx --save-inputs weights.npz",
        "diff in.onnx data.onnx --report weights.bin",
    ],
)
def test_nothing_is_written_over_the_weights_of_a_model(here, capsys, typed):
    source = model("a = Abs(x) y = Add(a, w)", 18, inputs="float[N,3] x", outputs="float[N,3] y")
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([1, 2, 3]), "w"))
    onnx.save(source, "data.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    onnx.save(model("y = Neg(x)", 18, inputs="float[N,3] x", outputs="float[N,3] y"), "in.onnx")
    Path("weights.npz").hardlink_to("weights.bin")
    before = Path("weights.bin").read_bytes()
    code, _, err = run(capsys, typed)
    assert code == 2
    assert err.removeprefix("opshift: ") in [
        f"{path} holds the weights of the input: give another path\n"
        for path in ("weights.bin", "./weights.bin", "weights.npz")
    ]
    assert Path("weights.bin").read_bytes() == before
    assert sorted(os.listdir()) == ["data.onnx", "in.onnx", "weights.bin", "weights.npz"]


def test_a_report_is_not_written_over_weights_that_the_output_gets(here, capsys):
    typed = "convert in.onnx out.onnx --opset 13 --external-data all --threshold 0 --evidence out.onnx.data"
    source = onnx.load("in.onnx")
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([1, 2, 3]), "w"))
    onnx.save(source, "in.onnx")
    code, _, err = run(capsys, typed)
    assert (code, err) == (2, "opshift: out.onnx.data is to hold weights of the output: give another path\n")
    assert os.listdir() == ["in.onnx"]


@pytest.mark.parametrize(
    "typed",
    [
        "convert in.onnx out.onnx --opset 13 --evidence in.onnx",
        "convert in.onnx out.onnx --opset 13 --evidence ./out.onnx",
        "convert in.onnx out.onnx --opset 13 --report in.onnx",
        "convert in.onnx --in-place --opset 13 --report in.onnx",
        "convert in.onnx out.onnx --opset 13 --report x.json --evidence x.json",
        "merge in.onnx same.onnx out.onnx --report same.onnx",
        "verify in.onnx same.onnx --report same.onnx",
        "diff in.onnx same.onnx --report in.onnx",
    ],
)
def test_what_is_written_beside_a_model_is_another_file(here, capsys, typed):
    before = Path("in.onnx").read_bytes()
    Path("same.onnx").write_bytes(before)
    code, _, err = run(capsys, typed)
    assert code == 2
    assert err.endswith(" is the path of another file of this command: give another one\n")
    assert Path("in.onnx").read_bytes() == Path("same.onnx").read_bytes() == before
    assert sorted(os.listdir()) == ["in.onnx", "same.onnx"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("convert in.onnx none/out.onnx --opset 13 --no-verify", "none/out.onnx cannot be written: folder none does not exist"),
        ("convert in.onnx none/ --opset 13 --no-verify", "none cannot be written: folder none does not exist"),
        ("convert in.onnx --out-dir in.onnx/deep --opset 13 --no-verify", "in.onnx/deep cannot be written: "),
        ("probe --backend onnxruntime --op Relu --output none/x.toml", "none/x.toml cannot be written: "),
        ("convert in.onnx out.onnx --opset 13 --save-inputs in.onnx/x.npz", "in.onnx/x.npz cannot be written: "),
        ("convert in.onnx out.onnx --opset 13 --no-verify --report none/x.html", "none/x.html cannot be written: "),
        ("convert in.onnx out.onnx --opset 13 --no-verify --report .", ". cannot be written: Is a directory"),
        (f"convert in.onnx {'x' * 300}.onnx --opset 13 --no-verify", f"{'x' * 300}.onnx cannot be written: "),
        (f"convert in.onnx --out-dir {'x' * 300} --opset 13 --no-verify", f"{'x' * 300} cannot be written: "),
        ("convert in.onnx out.onnx --opset 13 --evidence none/x.json", "none/x.json cannot be written: "),
        ("verify in.onnx in.onnx --save-inputs none/x.npz", "none/x.npz cannot be written: folder none does not exist"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_6_with_the_path_of_the_user(here, capsys, monkeypatch, typed, said):
    """It is told before anything is done, and nothing is left."""
    from opshift.probing import probe

    monkeypatch.setattr(probe, "probe", lambda *_: pytest.fail("it was done"))
    monkeypatch.setattr(
        "opshift.cli.commands.rewrite", lambda *_: pytest.fail("it was done")
    ) if "--out" not in typed else None
    code, _, err = run(capsys, typed)
    assert code == 6
    assert err.startswith(f"opshift: {said}")
    assert ".part" not in err
    assert os.listdir() == ["in.onnx"]


@pytest.mark.parametrize("typed", [".", ".."])
def test_a_folder_in_the_place_of_a_model_is_5(here, capsys, typed):
    code, _, err = run(capsys, f"convert {typed} --opset 13")
    assert (code, err.partition(": it is a folder")[0]) == (5, f"opshift: {typed}")


def test_a_folder_that_must_not_be_written_to_is_6(here, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, how: os.fspath(path) != "kept")
    os.mkdir("kept")
    for option in ("--report kept/x.html", "--save-inputs kept/x.npz"):
        code, _, err = run(capsys, f"convert in.onnx out.onnx --opset 13 {option}")
        assert (code, err) == (6, f"opshift: {option.split()[1]} cannot be written: Permission denied\n")
    monkeypatch.setattr(Path, "exists", refused_stat)
    code, _, err = run(capsys, "convert in.onnx kept/out.onnx --opset 13")
    assert (code, err) == (6, "opshift: kept/out.onnx cannot be written: Permission denied\n")


def refused_stat(path):
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


def test_a_full_disk_is_6_and_leaves_nothing(here, capsys, monkeypatch):
    monkeypatch.setattr("opshift.files.copying.write_all", no_room)
    code, _, err = run(capsys, "convert in.onnx out.onnx --opset 13")
    assert (code, err) == (6, "opshift: out.onnx cannot be written: No space left on device\n")
    assert os.listdir() == ["in.onnx"]


def test_errors_of_every_kind_are_json(here, capsys, monkeypatch):
    for typed, code, kind in (
        ("inspect none.onnx --format json", 5, "unreadable"),
        ("convert in.onnx none/out.onnx --opset 13 --format json", 6, "cannot be written"),
        ("convert in.onnx out.onnx --opset 99 --format json", 2, "not possible"),
    ):
        assert cli.main(typed.split()) == code
        captured = capsys.readouterr()
        found = json.loads(captured.out)["error"]
        assert (found["code"], found["kind"]) == (code, kind)
        assert captured.err == f"opshift: {found['message']}\n"


def test_memory_that_runs_out_is_a_line(here, capsys, monkeypatch):
    for error in (MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")):

        def fails(*_, error=error):
            raise error

        monkeypatch.setattr("opshift.files.model_file.read", fails)
        code, _, err = run(capsys, "inspect in.onnx")
        assert (code, err) == (5, "opshift: not enough memory for this model\n")


def test_every_exit_code_is_in_the_help_and_on_the_page_of_commands(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    commands = (Path(__file__).parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")
    for page in (capsys.readouterr().out, commands):
        codes = " ".join(page[page.index("xit codes:") :].split())
        assert all(f"{code} " in codes for code in (0, 1, 2, 3, 4, 5, 6, 130))


def test_an_interrupt_while_we_are_imported_is_quiet(monkeypatch):
    seen = []
    fake = type(sys)("opshift.cli.main")
    fake.main = lambda: seen.append(signal.getsignal(signal.SIGINT)) or 0
    monkeypatch.setitem(sys.modules, "opshift.cli.main", fake)
    before = signal.getsignal(signal.SIGINT)
    try:
        assert start.main() == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIG_DFL]


def test_an_interrupt_is_quiet_from_our_first_line():
    """Nothing of ours or of Python's library is imported before."""
    code = """if True:
        import atexit, runpy, signal, sys
        class Watch:
            def find_spec(self, name, *_):
                seen.append((name, signal.getsignal(signal.SIGINT) is signal.SIG_DFL))
        seen = []
        sys.meta_path.insert(0, Watch())
        sys.argv[1:] = ["--version"]
        atexit.register(lambda: print([name for name, quiet in seen[:[*dict(seen)].index("opshift.cli.main")] if not quiet]))
        runpy.run_module("opshift", run_name="__main__", alter_sys=True)"""
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=path)
    told = done.stdout.splitlines()[-1]
    assert set(ast.literal_eval(told)) == {"opshift", "opshift.__main__"}, done


def test_what_begins_a_command_imports_nothing_that_takes_a_while():
    code = "import os, sys, __future__; held = set(sys.modules); import opshift.cli.start; print(sorted(set(sys.modules) - held))"
    roots = [str(Path(opshift.__file__).parents[1])]
    alone = f"import sys; sys.path[:0] = {roots!r}; {code}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", alone], capture_output=True, text=True, check=False)
    new = {"_signal", "atexit", "gc", "opshift", "opshift.cli", "opshift.cli.start"}
    assert set(ast.literal_eval(done.stdout)) <= new, done


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_verbs_options_and_files(capsys, shell):
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--print-completion", shell])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "--opset" in printed
    assert "inspect" in printed


def test_completion_in_fish_needs_no_library(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--print-completion", "fish"])
    assert stopped.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    told = "'show what is in a model, and which opsets it can reach'"
    assert f"complete -c opshift -n __fish_use_subcommand -a inspect -d {told}" in lines
    seen = "complete -c opshift -n '__fish_seen_subcommand_from verify' "
    assert seen + "-F" in lines
    assert seen + "-l format -r -f -a 'text json' -d 'json is for scripts'" in lines
    assert any(line.startswith(seen + "-l report -r -F -d") for line in lines)
    assert all(line.startswith("complete -c opshift ") for line in lines)


def test_completion_without_its_library_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["--print-completion", "bash"]) == 2
    assert "pip install opshift[completion]" in capsys.readouterr().err


def test_shapes_and_names_in_brackets_are_shown_in_a_table(tmp_path, capsys, monkeypatch):
    pytest.importorskip("rich")
    source = model("y = Relu(x)", 18, inputs="float[N,3] x", outputs="float[N,3] y")
    source.graph.input[0].name = source.graph.node[0].input[0] = "[red]x[/red]"
    onnx.save(source, tmp_path / "in.onnx")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["inspect", str(tmp_path / "in.onnx")]) == 0
    printed = capsys.readouterr().out
    assert "input [red]x[/red]" in printed
    assert "float[N,3]" in printed


@pytest.mark.parametrize("others", [0, 1])
def test_a_process_is_left_without_taking_it_apart_unless_something_still_runs(monkeypatch, capsys, others):
    left = []
    monkeypatch.setattr(start, "main", lambda: print("said") or 3)
    monkeypatch.setattr(start.atexit, "_run_exitfuncs", lambda: left.append("atexit"))
    monkeypatch.setattr(start.os, "_exit", left.append)
    monkeypatch.setattr(threading, "active_count", lambda: 1 + others)
    if others:
        with pytest.raises(SystemExit) as ended:
            start.command()
        assert (ended.value.code, left) == (3, [])
    else:
        start.command()
        assert left == ["atexit", 3]
    assert capsys.readouterr().out == "said\n"


@pytest.mark.long
def test_a_command_says_its_code_and_all_that_it_printed():
    done = subprocess.run([sys.executable, "-m", "opshift", "targets"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()
    assert (
        subprocess.run([sys.executable, "-m", "opshift", "nothing"], capture_output=True, check=False).returncode == 2
    )


def test_a_program_that_runs_the_command_goes_on():
    code = "import runpy\ntry:\n    runpy.run_module('opshift', run_name='__main__')\nexcept SystemExit as e:\n    print('then', e.code)"
    done = subprocess.run([sys.executable, "-c", code, "targets", "-x"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "then 2\n")
