"""What the documentation shows is run: its commands and its Python, with the output that stands there."""

import contextlib
import glob
import inspect
import io
import itertools
import os
import re
import runpy
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from opshift.passes import pipeline
from opshift.passes.model import schemas

import opshift
from opshift.cli import main as cli
from opshift.verification import isolation

pytestmark = pytest.mark.posix

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page for page in (ROOT / "docs").rglob("*.md") if re.search(r"^```(console|python)$", page.read_text(), re.M)
)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """The fenced blocks of a page as (language, file, text): those that are run, their output, and titled files."""
    found = re.findall(r'^```(\w+)(?: title="(\S+)")?$\n(.*?)^```$', page.read_text(encoding="utf-8"), re.M | re.S)
    return [block for block in found if block[1] or block[0] in ("console", "python", "text")]


def commands(block: str) -> list[tuple[str, str]]:
    """Each command of a console block, with the output that is shown for it."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
    assert not parts[0], f"output before the first command: {parts[0]}"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def pattern(shown: str) -> str:
    """What is shown as a regular expression: `...` stands for anything in a line, alone on a line for any lines."""
    lines = (
        "(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in shown.splitlines()
    )
    return "".join(lines)


def check_output(command: str, actual: str, shown: str) -> None:
    assert re.fullmatch(pattern(shown), actual), f"{command}\nprints\n{actual}\ninstead of\n{shown}"


def run(command: str, folder: Path, code: int) -> tuple[str, int]:
    """The output and the exit code of a command line; `$?` in it is `code`."""
    if re.fullmatch(r"opshift [^$|<>;&()'\"]*", command) and "--jobs" not in command:
        words = (sorted(glob.glob(word, root_dir=folder)) if "*" in word else [word] for word in command.split()[1:])
        return run_here(partial(cli.main, [*itertools.chain(*words)]), folder)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", f"(exit {code}); {command}"],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
    return done.stdout, done.returncode


def called(function: Callable[..., object], *arguments: object, **named: object) -> object:
    return function(*arguments, **named)


def run_here(work: Callable[[], object], folder: Path) -> tuple[str, int]:
    """The same of a plain command, in a copy of this process: it has imported what a new one would import first."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads
            child = os.fork()
        if not child:
            code = 1
            try:
                isolation.call = called  # a copy of a copy parts no more
                os.chdir(folder)
                os.dup2(out.fileno(), 2)
                sys.stdout = sys.stderr = out
                done = work()
                code = done if isinstance(done, int) else 0
            except SystemExit as ended:
                code = int(ended.code or 0)
            except BaseException:
                traceback.print_exc()
            finally:
                out.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        return out.read(), os.waitstatus_to_exitcode(status)


def run_console(block: str, folder: Path) -> None:
    """Run a block; a command that fails must be followed by `echo $?`, which shows its code."""
    code = 0
    for (command, shown), following in itertools.zip_longest(held := commands(block), held[1:]):
        actual, code = run(command, folder, code)
        if shown:
            check_output(command, actual, shown)
        assert code == 0 or (following and following[0] == "echo $?"), f"{command} exits with {code}:\n{actual}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_shows(page, tmp_path, monkeypatch):
    if "pip install opshift[openvino]" in page.read_text(encoding="utf-8") and not find_spec("openvino"):
        pytest.skip("OpenVINO is an optional dependency")
    for model in (ROOT / "examples").glob("*.onnx"):
        (tmp_path / model.name).write_bytes(model.read_bytes())
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "docs"}
    printed = ""
    for language, file, text in blocks(page):
        if file:
            Path(file).write_text(text, encoding="utf-8")
        elif language == "console":
            run_console(text, tmp_path)
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, str(page), "exec"), space)
            printed = out.getvalue()
        else:
            check_output("the Python above", printed, text)


DOCUMENTED = [
    *(made for name in opshift.__all__ if inspect.isfunction(made := getattr(opshift, name))),
    *(made for _, made in inspect.getmembers(pipeline, inspect.isclass) if made.__module__ == pipeline.__name__),
]


@pytest.mark.parametrize("made", DOCUMENTED, ids=lambda made: made.__name__)
def test_each_argument_is_described_by_itself(made):
    """The reference is built from docstrings: a line for two arguments would have no type."""
    _, _, rest = (inspect.getdoc(made) or "").partition("Args:\n")
    described = re.findall(r"^    (\S.*?): ", rest.partition("\n\n")[0], re.M)
    assert described == list(inspect.signature(made).parameters)


def test_the_versions_promised_are_those_that_are_needed():
    """`.ci/oldest.py` runs with them; `.ci/lowest.txt` are those that the tests themselves need."""
    promise = (ROOT / "docs" / "promise.md").read_text(encoding="utf-8")
    needed = re.findall(
        r'^    "(onnx\w*)>=([\d.]+)",$', (ROOT / "pyproject.toml").read_text("utf-8").split("[project.urls]")[0], re.M
    )
    promised = dict(re.findall(r"^\| (onnx\w*) \| ([\d.]+) or newer", promise, re.M))
    assert promised == dict(needed)
    pins = dict(line.split("==") for line in (ROOT / ".ci" / "lowest.txt").read_text(encoding="utf-8").split())
    assert f"and with onnx {pins['onnx']} and onnxruntime {pins['onnxruntime']}" in promise
    assert f"| opsets of the default domain | 1 to {schemas.latest()}," in promise
    assert f"| opsets of `ai.onnx.ml` | 1 to {schemas.latest('ai.onnx.ml')}," in promise


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("$ echo right\nwrong\n", "instead of"),
        ("$ echo one; echo two\none\n", "instead of"),
        ("$ exit 3\n", "exits with 3"),
        ("$ exit 3\n$ echo $?\n4\n", "instead of"),
        ("$ exit 3\n$ exit 0\n$ echo $?\n0\n", "exits with 3"),
    ],
)
def test_a_wrong_page_is_found(block, why, tmp_path):
    with pytest.raises(AssertionError, match=why):
        run_console(block, tmp_path)


def test_dots_stand_for_what_varies(tmp_path):
    run_console("$ echo took 3 s; echo more; echo end\ntook ... s\n...\nend\n$ exit 3\n$ echo $?\n3\n", tmp_path)


def test_the_example_of_a_pipeline_runs(tmp_path, monkeypatch):
    script = str(ROOT / "examples" / "pipeline.py")
    monkeypatch.setattr(sys, "argv", [script, str(ROOT / "examples" / "encoder.onnx"), "out.onnx"])
    printed, code = run_here(partial(runpy.run_path, script, run_name="__main__"), tmp_path)
    assert re.fullmatch("modified: True; .*; equal by onnxruntime\n", printed)
    assert code == 0
    assert (tmp_path / "out.onnx").exists()
