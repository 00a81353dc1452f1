"""Many models into one folder: names, exit codes, data files, URLs, processes that die."""

import builtins
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import opshift
from opshift.cli import display
from opshift.cli import main as cli
from opshift.jobs import batch, exit_codes
from opshift.jobs.rewrite import Manner
from opshift.verification import isolation
from tests.opshift.jobs.deadly import Deadly
from tests.opshift.verification.test_isolation import runs
from tests.support import evaluate, model

pytestmark = pytest.mark.posix

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}
WEIGHTS = {"a": np.float32([1, 2, 3]), "b": np.float32([4, 5, 6])}
X = np.array([[1, 5, 2]], np.float32)


def rows(weight=None):
    """Row maxima; times the sum of a weight in external data."""
    if weight is None:
        return model("y = ReduceMax(x, a)", 18, constants="int64[1] a = {1}", **ROWS)
    held = model(
        "t = ReduceMax(x, a) s = ReduceSum(w, z) y = Mul(t, s)",
        18,
        constants="int64[1] a = {1}, int64[1] z = {0}",
        **ROWS,
    )
    held.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.external_data_helper.convert_model_to_external_data(held, True, "weights.bin", 0)
    return held


def joined():
    return model("y = StringConcat(x, x)", 20, inputs="string[2] x", outputs="string[2] y")


@pytest.fixture
def here(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a", "b"):
        onnx.save(rows(), folder / f"{name}.onnx")
    return folder


@pytest.fixture
def memory():
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.rm("/", recursive=True)


def convert(paths, folder, *more):
    return cli.main(["convert", *map(str, paths), "--out-dir", str(folder), "--opset", "13", *more])


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def opset(path):
    return onnx.load(path, load_external_data=False).opset_import[0].version


def test_all_go_to_the_folder_under_their_own_names(here, tmp_path, capsys):
    out = tmp_path / "new" / "out"
    assert convert([here / "a.onnx", here / "b.onnx"], out) == 0
    assert listing(out) == ["a.onnx", "b.onnx"]
    assert {opset(path) for path in out.iterdir()} == {13}
    assert capsys.readouterr().out.splitlines() == [
        *(
            f"done: {here / name} -> {out / name}: 1 change, exact; equal: the same values"
            for name in ("a.onnx", "b.onnx")
        ),
        "2 models: 2 done",
    ]


@pytest.mark.long
def test_a_failure_does_not_stop_the_others(here, tmp_path, capsys):
    onnx.save(joined(), here / "0.onnx")
    assert convert(sorted(here.iterdir()), tmp_path / "out") == 3
    (here / "1.onnx").write_bytes(b"not a model")
    capsys.readouterr()
    assert convert(sorted(here.iterdir()), tmp_path / "out", "--format", "json") == 5
    refused, unreadable, *done = json.loads(capsys.readouterr().out)["models"]
    assert (refused["code"], refused["nearest"], refused["output"]) == (3, 20, "")
    assert refused["refusals"][0]["text"] in refused["why"]
    assert (unreadable["code"], unreadable["source"]) == (5, str(here / "1.onnx"))
    assert unreadable["why"].startswith("not an ONNX model: it is text")
    assert [held["code"] for held in done] == [0, 0]
    assert done[0]["after"]["opsets"] == {"": 13}
    assert listing(tmp_path / "out") == ["a.onnx", "b.onnx"]


def test_a_folder_that_nothing_came_to_is_not_left(tmp_path, capsys):
    onnx.save(joined(), tmp_path / "in.onnx")
    assert convert([tmp_path / "in.onnx", tmp_path / "missing.onnx"], tmp_path / "new" / "out") == 5
    assert listing(tmp_path) == ["in.onnx"]
    assert not (tmp_path / "new").exists()
    assert capsys.readouterr().out.splitlines()[-1] == "2 models: 1 refused, 1 unreadable"


def test_a_dry_run_writes_nothing(here, tmp_path):
    assert convert([here / "a.onnx"], tmp_path / "out", "--dry-run") == 0
    assert not (tmp_path / "out").exists()


def test_inline_takes_many_too(here, tmp_path):
    assert (
        cli.main(
            ["inline", *map(str, here.iterdir()), "--out-dir", str(tmp_path / "out"), "--target", "onnxruntime-1.8"]
        )
        == 0
    )
    assert listing(tmp_path / "out") == ["a.onnx", "b.onnx"]


@pytest.mark.parametrize(
    ("paths", "folder", "more", "complaint"),
    [
        (["in/a.onnx", "more/a.onnx"], "out", [], "would both be written"),
        (["in/a.onnx", "in/a.onnx"], "out", [], "would both be written"),
        (["in/a.onnx", "more/a.onnx.onnx"], "out", [], "; use another folder"),
        (["in/a.onnx", "in/b.onnx"], "in", [], "is the input"),
        (["link/b.onnx"], "in", [], "is the input"),
        (["in/a.onnx"], "in/b.onnx", [], "is not a folder"),
        (["in/a.onnx"], "holds", [], "is not a regular file"),
        (["in/a.onnx", "in/b.onnx"], "linked", [], "are the same file"),
        (["in/a.onnx"], "out", ["--in-place"], "give --in-place or --out-dir, not both"),
        (["in/a.onnx"], "out", ["--jobs", "0"], "1 or more"),
    ],
)
def test_what_is_refused_before_anything_runs(here, tmp_path, capsys, paths, folder, more, complaint):
    (tmp_path / "more").mkdir()
    (tmp_path / "link").symlink_to(here)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "a.onnx").symlink_to("b.onnx")
    (tmp_path / "holds" / "a.onnx").mkdir(parents=True)
    for name in ("a.onnx", "a.onnx.onnx"):
        onnx.save(rows(), tmp_path / "more" / name)
    before = listing(tmp_path)
    assert convert([tmp_path / path for path in paths], tmp_path / folder, *more) == 2
    assert complaint in capsys.readouterr().err
    assert listing(tmp_path) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["a", "b", "c"], "--out-dir for several"), (["a", "b", "--jobs", "2"], "need --out-dir")],
)
def test_several_models_need_a_folder(arguments, complaint, capsys):
    try:
        code = cli.main(["convert", *arguments, "--opset", "13"])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert complaint in capsys.readouterr().err


def sharing(folder):
    """Two models in two folders whose data files have one name."""
    for name, weight in WEIGHTS.items():
        (folder / name).mkdir()
        onnx.save(rows(weight), folder / name / f"{name}.onnx")
    return [folder / name / f"{name}.onnx" for name in WEIGHTS]


def computed(path):
    return evaluate(onnx.load(path), {"x": X})[0].item()


@pytest.mark.long
def test_data_files_of_one_name_do_not_meet(tmp_path):
    out = tmp_path / "out"
    paths = sharing(tmp_path)
    assert convert(paths, out) == 0
    assert listing(out) == ["a.onnx", "a.onnx.weights.bin", "b.onnx", "b.onnx.weights.bin"]
    assert [computed(out / f"{name}.onnx") for name in WEIGHTS] == [5 * 6, 5 * 15]
    assert convert(paths, out) == 0  # once more, where an interrupted run has left its data
    (out / "a.onnx.weights.bin").write_bytes(WEIGHTS["b"].tobytes())
    assert convert(paths, out) == 6  # those of another
    assert (out / "a.onnx.weights.bin").read_bytes() == WEIGHTS["b"].tobytes()
    assert len(listing(out)) == 4


def test_data_named_after_their_model_keep_their_name(tmp_path):
    held = rows(WEIGHTS["a"])
    (tmp_path / "x.onnx.data").write_bytes(WEIGHTS["a"].tobytes())
    held.graph.initializer[-1].external_data[0].value = "x.onnx.data"
    held.graph.initializer[-1].ClearField("raw_data")
    (tmp_path / "x.onnx").write_bytes(held.SerializeToString())
    assert convert([tmp_path / "x.onnx"], tmp_path / "out") == 0
    assert listing(tmp_path / "out") == ["x.onnx", "x.onnx.data"]
    assert computed(tmp_path / "out" / "x.onnx") == 5 * 6


def test_urls_in_and_out(memory, tmp_path, capsys):
    for path in sharing(tmp_path):
        for held in (path, path.parent / "weights.bin"):
            memory.pipe_file(f"/models/{path.stem}/{held.name}", held.read_bytes())
    assert convert(["memory://models/*/*.onnx"], "memory://out") == 0
    assert "done: memory://" in capsys.readouterr().out
    names = sorted(Path(path).name for path in memory.ls("/out", detail=False))
    assert names == ["a.onnx", "a.onnx.weights.bin", "b.onnx", "b.onnx.weights.bin"]
    for name in names:
        memory.get_file(f"/out/{name}", str(tmp_path / name))
    assert [computed(tmp_path / f"{name}.onnx") for name in WEIGHTS] == [5 * 6, 5 * 15]


@pytest.mark.long
def test_urls_and_paths_mix(memory, here, tmp_path):
    memory.pipe_file("/in/c.onnx", (here / "a.onnx").read_bytes())
    assert convert(["memory://in/c.onnx", (here / "a.onnx").as_uri()], tmp_path / "out", "--backend", "threading") == 0
    assert listing(tmp_path / "out") == ["a.onnx", "c.onnx"]
    assert convert([here / "a.onnx"], "memory://there") == 0
    assert memory.exists("/there/a.onnx")


def test_urls_that_cannot_be(memory, here, capsys):
    memory.pipe_file("/in/c.onnx", (here / "a.onnx").read_bytes())
    assert convert(["memory://in/c.onnx"], "memory://in/") == 2
    assert convert(["memory://nothing/*.onnx"], "memory://out") == 2
    assert convert(["nonsense://c.onnx"], "memory://out") == 2
    assert convert(["memory://in/missing.onnx"], "memory://out") == 5
    assert not memory.exists("/out")
    memory.pipe_file("/in/bad.onnx", b"junk")
    assert convert(["memory://in/bad.onnx"], "memory://out") == 5
    told = capsys.readouterr()
    for complaint in ("is the input", "no file has this name", "nonsense"):
        assert complaint in told.err
    assert "unreadable: memory://in/missing.onnx: No such file\n" in told.out
    assert "unreadable: memory://in/bad.onnx: not an ONNX model: it is text\n" in told.out


@pytest.mark.long
def test_nothing_new_is_left_at_a_url_where_sending_fails(memory, tmp_path, monkeypatch):
    put = type(memory).put_file

    def full(self, source, place, **more):
        if place.endswith("a.onnx"):
            raise OSError(28, "No space left on device")
        put(self, source, place, **more)

    monkeypatch.setattr(type(memory), "put_file", full)
    paths = sharing(tmp_path)
    assert convert(paths, "memory://out") == 5
    assert sorted(Path(path).name for path in memory.find("/out")) == ["b.onnx", "b.onnx.weights.bin"]
    monkeypatch.undo()
    memory.pipe_file("/out/a.onnx.weights.bin", b"other")
    assert convert(paths, "memory://out") == 5
    assert memory.cat_file("/out/a.onnx.weights.bin") == b"other"
    assert not memory.exists("/out/a.onnx")


@pytest.fixture
def cluster():
    """Two worker processes that are not given a second try, copies of one that has imported what they need."""
    import dask  # which takes its time
    import distributed

    settings = {"scheduler.allowed-failures": 0, "worker.multiprocessing-method": "forkserver"}
    with (
        dask.config.set({f"distributed.{name}": value for name, value in settings.items()}),
        distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL),
    ):
        yield


@pytest.mark.parametrize("backend", [None, pytest.param("dask", marks=pytest.mark.long)])
def test_a_process_that_dies_is_one_failed_model(here, tmp_path, backend, request, monkeypatch):
    """Neither what it wrote is left, nor what it had fetched."""
    if backend == "dask":
        request.getfixturevalue("cluster")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    deadly = rows()
    deadly.graph.name = "deadly"
    onnx.save(deadly, here / "deadly.onnx")
    paths = [f"local://{here}/deadly.onnx", str(here / "a.onnx"), str(here / "b.onnx")]
    told = []
    jobs = batch.arrange(paths, str(tmp_path / "out"), Deadly({"": 13}, out=str(tmp_path / "out")), Manner())
    results = batch.run(jobs, 2, backend, advance=lambda result, count: told.append(count))
    assert [result.code for result in results] == [5, 0, 0]
    assert results[0].why == "its worker process crashed"
    assert told == [1, 2, 3]
    assert listing(tmp_path / "out") == ["a.onnx", "b.onnx"]
    fetched = Path((tmp_path / "note").read_text())
    assert fetched.relative_to(tmp_path).parts[0].startswith("opshift-")
    assert not fetched.exists()
    assert not list(tmp_path.glob("opshift-*"))


@pytest.mark.long
@pytest.mark.parametrize("everywhere", [False, True], ids=["by a signal", "from a keyboard"])
def test_an_interrupt_leaves_only_what_is_complete(here, tmp_path, everywhere):
    for number in range(200):
        onnx.save(rows(), here / f"{number}.onnx")
    out = tmp_path / "out"
    command = ["convert", *map(str, here.iterdir()), "--out-dir", str(out), "--opset", "13", "--jobs", "2"]
    start = {"stdout": -1, "stderr": -1, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-m", "opshift", *command], **start) as process:
        lines = [process.stdout.readline()]
        if everywhere:  # as a terminal does
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGTERM)
        rest, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (exit_codes.INTERRUPTED, "opshift: interrupted\n")
    assert all(line.startswith("done: ") for line in [*lines, *rest.splitlines()])
    assert 0 < len(listing(out)) < 202
    assert {opset(path) for path in out.iterdir()} == {13}


def test_from_python(here, tmp_path):
    results = opshift.convert_files([here / "a.onnx", here / "no.onnx"], tmp_path / "out", 13, jobs=1)
    assert [result.code for result in results] == [0, 5]
    done, missing = results
    assert isinstance(done, opshift.FileResult)
    assert (done.source, done.output, done.why) == (str(here / "a.onnx"), str(tmp_path / "out" / "a.onnx"), "")
    assert [change.op for change in done.outcome.changes] == ["ReduceMax"]
    assert "No such file" in missing.why
    with pytest.raises(ValueError, match="give models"):
        opshift.convert_files([], tmp_path / "out", 13)


def test_one_path_is_a_path_and_no_list_of_letters(here, tmp_path):
    for path in (here / "a.onnx", str(here / "a.onnx")):
        (result,) = opshift.convert_files(path, tmp_path / "out", 13, verify=False)
        assert (result.source, result.code) == (str(path), 0)


def test_what_is_not_installed_is_named(here, tmp_path, monkeypatch, capsys):
    found = builtins.__import__

    def absent(name, *more, **named):
        if name.partition(".")[0] in ("joblib", "fsspec"):
            raise ModuleNotFoundError(name)
        return found(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    assert convert([here / "a.onnx"], tmp_path / "out", "--backend", "threading") == 2
    assert convert(["memory://in/a.onnx"], tmp_path / "out") == 2
    assert capsys.readouterr().err.count("pip install opshift[batch]") == 2
    assert convert([here / "a.onnx"], tmp_path / "out", "--jobs", "2") == 0


@pytest.mark.long
@pytest.mark.parametrize(("jobs", "count"), [(999, [7]), (-1, [7]), (1, [])])
def test_no_more_processes_are_begun_than_there_are_cores(jobs, count, here, tmp_path, monkeypatch):
    counts = []
    each = isolation.each
    monkeypatch.setattr(isolation, "each", lambda do, jobs, count: counts.append(count) or each(do, jobs, count))
    monkeypatch.setattr(batch, "cores", lambda: 7)
    assert [r.code for r in opshift.convert_files(sorted(here.iterdir()), tmp_path / "out", 13, jobs=jobs)] == [0, 0]
    assert counts == count
    counts.clear()
    monkeypatch.setattr(batch, "cores", lambda: 1)
    opshift.convert_files(sorted(here.iterdir()), tmp_path / "other", 13, jobs=jobs)
    assert counts == [1] * len(count)
    counts.clear()
    opshift.convert_files([here / "a.onnx"], tmp_path / "one", 13, jobs=jobs)
    assert not counts


def test_no_more_threads_are_begun_than_there_are_cores(here, tmp_path, monkeypatch):
    joblib, counts = pytest.importorskip("joblib"), []

    class Counted(joblib.Parallel):
        def __init__(self, count, **more):
            counts.append(count)
            super().__init__(count, **more)

    monkeypatch.setattr(joblib, "Parallel", Counted)
    monkeypatch.setattr(batch, "cores", lambda: 1)
    opshift.convert_files(sorted(here.iterdir()), tmp_path / "out", 13, jobs=999, backend="threading", verify=False)
    assert counts == [1]


@pytest.mark.parametrize(
    ("said", "most"), [("150000 100000\n", 2), ("50000 100000\n", 1), ("max 100000\n", 64), ("", 64)]
)
def test_a_container_has_a_part_of_the_cores(said, most, monkeypatch):
    monkeypatch.setattr(batch.os, "sched_getaffinity", lambda _: range(64), raising=False)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: said)
    assert batch.cores() == most


def descendants(process):
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from descendants(child)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.long
def test_nothing_is_left_of_several_whose_process_is_killed(here, tmp_path):
    for number in range(100):
        onnx.save(rows(), here / f"{number}.onnx")
    command = ["convert", *map(str, here.iterdir()), "--out-dir", str(tmp_path / "out"), "--opset", "13", "--jobs", "2"]
    with subprocess.Popen([sys.executable, "-m", "opshift", *command], stdout=-1, text=True) as process:
        assert process.stdout.readline().startswith("done: ")
        there = list(descendants(process.pid))
        assert there
        process.kill()
    until = time.monotonic() + 10
    while any(map(runs, there)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(map(runs, there))


def test_a_table_on_a_terminal(here, capsys):
    from rich.console import Console

    console = Console(record=True, width=120)
    done = batch.FileResult("a\x1b.onnx", "", 5, "gone")
    display.summarize([done, replace(done, code=0, why="")], console)
    shown = console.export_text()
    assert "a\\x1b.onnx" in shown
    assert "unreadable" in shown
    assert "2 models: 1 done, 1 unreadable" in shown
