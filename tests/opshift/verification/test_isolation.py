"""What runs models may end its process, hang, print, or take all memory: the caller goes on and says so."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from opshift.passes import progress
from opshift.passes.errors import InvalidModel

from opshift.cli import main as cli
from opshift.jobs import batch, exit_codes
from opshift.verification import engines, isolation
from opshift.verification.combined import verify_sides
from opshift.verification.feeding.asked import read_options
from opshift.verification.side import Side
from opshift.verification.verify import verify_apart
from tests.support import model

pytestmark = pytest.mark.posix

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}


def in_a_thread(*arguments):
    with ThreadPoolExecutor() as pool:
        return pool.submit(isolation.call, *arguments).result()


@pytest.fixture(params=["main thread", "another thread"])
def call(request):
    return isolation.call if request.param == "main thread" else in_a_thread


def refuse(name):
    raise InvalidModel(f"{name}: no model")


def test_a_module_that_another_thread_imports_just_now_is_no_pool(monkeypatch):
    monkeypatch.setitem(sys.modules, "multiprocessing.process", type(sys)("multiprocessing.process"))
    assert isolation.call(max, [1, 3, 2]) == 3


def test_onnxruntime_tells_nobody_what_it_runs(monkeypatch):
    """Nor has it the thread that would, whose locks a copy of this process may wait for in vain."""
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    engines.load()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    engines.load()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"


def test_a_copy_of_a_process_that_tells_does_not(monkeypatch):
    said = []
    monkeypatch.setattr(onnxruntime, "disable_telemetry_events", lambda: said.append(1))
    assert isolation.call(lambda: said) == [1]
    assert not said


def test_values_come_back(call):
    assert call(max, [1, 3, 2]) == 3
    assert call(os.getpid) != os.getpid()


def test_errors_come_back(call):
    with pytest.raises(ZeroDivisionError):
        call(divmod, 1, 0)
    with pytest.raises(OSError, match="No such file"):
        call(os.listdir, "/nowhere")


def test_own_errors_come_back():
    with pytest.raises(InvalidModel, match="no model"):
        isolation.call(refuse, "m.onnx")


def test_an_end_further_on_comes_back():
    with pytest.raises(isolation.Ended, match="Aborted"):
        isolation.call(isolation.call, os.abort)
    with pytest.raises(isolation.Ended, match="not enough memory"):
        isolation.call(isolation.call, _killed)


@pytest.mark.parametrize(
    ("end", "how"),
    [((os.abort,), "Aborted"), ((os._exit, 7), "exit code 7"), ((ctypes.string_at, 0), "Segmentation fault")],
)
def test_an_end_is_told(end, how, call, capfd):
    with pytest.raises(isolation.Ended, match=how):
        call(*end)
    assert capfd.readouterr() == ("", "")


def test_what_it_prints_is_not_shown(call, capfd):
    assert call(os.system, "echo out; echo err >&2") == 0
    assert capfd.readouterr() == ("", "")


def test_more_memory_than_there_is():
    with pytest.raises(MemoryError):
        isolation.call(np.ones, 1 << 45, np.uint8)


def test_an_interrupt_of_the_other_process_is_one():
    with pytest.raises(KeyboardInterrupt):
        isolation.call(signal.raise_signal, signal.SIGINT)


def test_an_interrupt_ends_both(tmp_path):
    work = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    heeded = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # what a shell starts apart does not
    )
    code = f"{heeded}\nfrom opshift.verification import isolation as apart\ntry:\n  apart.call(exec, {work!r})\nexcept KeyboardInterrupt:\n  print('interrupted')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=-1, text=True) as process:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("interrupted\n", None)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


# How a process of `call` is begun, in a script that `work` and `path` are there for.
BEGUN = {
    "as a copy": "apart.call(exec, work)",
    "as a copy of a copy": "apart.call(apart.call, exec, work)",
    "afresh": "threading.Thread(target=apart.call, args=(exec, work)).start()",
    "as a copy of one that began afresh": "threading.Thread(target=apart.call, args=(apart.call, exec, work)).start()",
    "one of several": "list(apart.each(exec, [work], 1))",
    "one of several, afresh": "threading.Thread(target=lambda: list(apart.each(exec, [work], 1))).start()",
    "a worker that asks a backend": "import onnx; from opshift.probing.worker import Task, Worker; "
    f"Worker('{__name__}:Obedient').ask(Task(onnx.ModelProto(doc_string=work).SerializeToString(), {{}}, []))",
    "as a copy, where the system sends no signal": "apart._SET_DEATH_SIGNAL = -1; apart.call(exec, work)",
}
STUBBORN = (
    "import os, signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); "
    "open({path!r}, 'w').write(str(os.getpid()) + '.'); time.sleep(60)"
)


class Obedient:
    """Opens a model as a backend does, and does what it says."""

    def __init__(self, proto):
        exec(proto.doc_string)


def runs(process):
    """Whether there is such a process; who adopts one whose parent was killed may never ask how it ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize(
    "begun", [pytest.param(name, marks=pytest.mark.long) if "backend" in name else name for name in BEGUN]
)
def test_nothing_is_left_of_a_process_that_is_killed(begun, tmp_path):
    said = tmp_path / "pid"
    code = f"import threading; from opshift.verification import isolation as apart\nwork = {STUBBORN.format(path=str(said))!r}\n{BEGUN[begun]}"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        while not said.exists() or not said.read_text().endswith("."):
            time.sleep(0.01)
        child = int(said.read_text()[:-1])
        assert runs(child)
        process.kill()
    until = time.monotonic() + 10
    while runs(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not runs(child)


def test_who_begins_when_its_parent_has_ended_ends_at_once(monkeypatch):
    monkeypatch.setattr(os, "getppid", lambda: 1)
    with pytest.raises(isolation.Ended, match="exit code 1"):
        isolation.call(os.getpid)


def deaf(seconds):
    """Does not hear that its time is over, as an engine that blocks signals."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    isolation.end_after(seconds)
    time.sleep(60)


def deaf_further(seconds):
    return isolation.call(deaf, seconds)


def deaf_at_last(seconds):
    isolation.end_after(60)
    progress.tell("it goes on")
    deaf(seconds)


@pytest.mark.long
@pytest.mark.parametrize("function", [deaf, deaf_further, deaf_at_last])
def test_who_does_not_end_in_time_is_ended(function, call, monkeypatch):
    monkeypatch.setattr(isolation, "_GRACE", 0.1)
    began = time.monotonic()
    with pytest.raises(isolation.Ended) as ended:
        call(function, 1)
    assert (ended.value.late, ended.value.full) == (True, False)
    assert time.monotonic() - began < 20


def talkative(seconds):
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    isolation.end_after(seconds)
    while True:
        progress.tell("it goes on")


@pytest.mark.long
def test_who_tells_of_progress_for_ever_is_ended(call, monkeypatch):
    monkeypatch.setattr(isolation, "_GRACE", 0.1)
    with pytest.raises(isolation.Ended) as ended:
        call(talkative, 1)
    assert ended.value.late


def test_no_descriptors_are_left():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(isolation.Ended):
            isolation.call(os.abort)
        isolation.call(os.getpid)
    assert len(os.listdir("/proc/self/fd")) == before


LOCK = threading.Lock()


def locked(number):
    with LOCK:
        return number + 1


def locked_further(number):
    return isolation.call(locked, number)


@pytest.fixture
def held(monkeypatch):
    """A lock that a thread holds, as one of an engine may: a copy of the process has the lock and not the thread."""
    monkeypatch.setattr(isolation, "_POLL", 0.02)
    monkeypatch.setattr(isolation, "_PATIENCE", 5)
    done, taken = threading.Event(), threading.Event()

    def hold():
        with LOCK:
            taken.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    yield
    done.set()
    thread.join()


@pytest.mark.long
@pytest.mark.parametrize("function", [locked, locked_further])
def test_a_copy_that_waits_for_ever_is_ended_and_the_work_begun_afresh(held, function):
    assert isolation.call(function, 3) == 4


def threaded(library):
    try:
        isolation.refuse_copies(library)
    except Exception:
        return "refused"
    return "used in a copy" if isolation._copied else "used"


@pytest.mark.long
def test_a_library_whose_threads_are_not_copied_is_used_afresh():
    assert isolation.call(threaded, "json") == "used"
    assert isolation.call(isolation.call, threaded, "json") == "used"
    assert isolation.call(threaded, "nothing") == "used in a copy"
    assert threaded("json") == "used"


@pytest.mark.long
def test_openvino_runs_in_a_process_of_its_own_where_it_has_run_before():
    """Its threads would wait for those of the process that was copied."""
    pytest.importorskip("openvino")
    of = model("y = Neg(x)", 13, inputs="float[2] x", outputs="float[2] y")
    for run in (verify_sides, verify_apart):
        assert run(Side(of), Side(of), wanted=read_options(engine="openvino")).engine == "openvino"


def test_what_cannot_be_begun_afresh_is_late(held):
    class Unsendable:
        def __reduce__(self):
            raise TypeError("no")

        def __add__(self, other):
            return other

    with pytest.raises(isolation.Ended) as ended:
        isolation.call(locked, Unsendable())
    assert ended.value.late


def busy(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
    return "done"


def busy_further(seconds):
    return isolation.call(busy, seconds)


@pytest.mark.long
@pytest.mark.parametrize("function", [busy, busy_further])
def test_who_works_is_not_ended(monkeypatch, function):
    """The counters of the system move every hundredth of a second."""
    monkeypatch.setattr(isolation, "_POLL", 0.05)
    monkeypatch.setattr(isolation, "_PATIENCE", 4)
    assert isolation.call(lambda: function(0.6)) == "done", "which cannot be sent to a process that begins afresh"


def chatty(count):
    for number in range(count):
        progress.tell("step", number, count)
    return b"x" * (1 << 21)


def chatty_further(count):
    return isolation.call(chatty, count)


@pytest.mark.parametrize("function", [chatty, chatty_further])
def test_progress_is_told_here(function):
    said = []
    with progress.listen(lambda *what: said.append(what)):
        assert len(isolation.call(function, 3)) == 1 << 21
    assert said == [("step", 0, 3), ("step", 1, 3), ("step", 2, 3)]


def test_a_worker_of_a_pool_calls_by_itself():
    code = (
        "import multiprocessing, os; from opshift.verification import isolation as apart\n"
        "def told(queue): queue.put(apart.call(os.getpid) == os.getpid())\n"
        "queue = multiprocessing.SimpleQueue()\n"
        "process = multiprocessing.get_context('fork').Process(target=told, args=(queue,), daemon=True)\n"
        "process.start(); print(queue.get())"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "True\n"


def ending(item):
    if item == "deadly":
        os.abort()
    if item == "wrong":
        raise InvalidModel("no model")
    return item, os.getpid()


@pytest.fixture(params=["main thread", "another thread"])
def each(request):
    def called(*arguments):
        if request.param == "main thread":
            return list(isolation.each(*arguments))
        with ThreadPoolExecutor() as pool:
            return pool.submit(lambda: list(isolation.each(*arguments))).result()

    return called


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 3])
def test_each_item_is_taken_by_one_of_so_many_processes(count, each):
    before = len(os.listdir("/proc/self/fd"))
    found = each(ending, ["a", "b", "deadly", "c", "deadly", "d"], count)
    assert sorted(place for place, _ in found) == [0, 1, 2, 3, 4, 5]
    assert {place for place, outcome in found if isinstance(outcome, isolation.Ended)} == {2, 4}
    items, processes = zip(*(outcome for _, outcome in found if isinstance(outcome, tuple)), strict=True)
    assert sorted(items) == ["a", "b", "c", "d"]
    assert len({*processes, os.getpid()}) == 5
    assert len(os.listdir("/proc/self/fd")) == before
    assert not each(ending, [], count)


@pytest.mark.long
def test_an_error_of_one_of_them_is_raised(each):
    with pytest.raises(InvalidModel, match="no model"):
        each(ending, ["a", "wrong", *"bcdefghi"], 2)


def count_children(process):
    return sum(len((task / "children").read_text().split()) for task in Path(f"/proc/{process}/task").iterdir())


def count_siblings(_):
    time.sleep(0.1)
    return count_children(os.getppid())


@pytest.mark.long
def test_there_are_never_more_at_once(each):
    others = count_children(os.getpid())  # processes that tests before this one keep
    assert {count - others for _, count in each(count_siblings, [*"abcdef"], 2)} <= {1, 2}


def write_and_wait(path):
    if path is not None:
        path.write_text(str(os.getpid()))
        time.sleep(60)


def test_who_asks_no_further_ends_them_all(tmp_path):
    read_options = isolation.each(write_and_wait, [None, tmp_path / "pid", None], 2)
    assert next(read_options) == (0, None)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    process = int((tmp_path / "pid").read_text())
    assert runs(process)
    read_options.close()
    assert not runs(process)


def test_an_interrupt_of_one_of_them_is_one(each):
    with pytest.raises(KeyboardInterrupt):
        each(signal.raise_signal, [signal.SIGINT], 1)


# --- models -------------------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(model("y = ReduceMax(x, a)", 18, constants="int64[1] a = {1}", **ROWS), path)
    return path


@pytest.mark.long
@pytest.mark.parametrize("where", ["__init__", "run"])
def test_a_model_that_ends_the_engine_is_refused(where, source, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(engines.OnnxRuntime, where, lambda *_, **__: os.abort())
    assert cli.main(["convert", str(source), str(tmp_path / "out.onnx"), "--opset", "13"]) == exit_codes.REFUSED
    said = capfd.readouterr()
    assert said.out.count("not proved: the process that ran the model crashed: Aborted") == 1
    assert said.err == ""
    assert [path.name for path in tmp_path.iterdir()] == ["in.onnx"]
    assert cli.main(["verify", str(source), str(source)]) == exit_codes.REFUSED
    assert "crashed: Aborted" in capfd.readouterr().out


@pytest.mark.long
def test_one_of_many_that_ends_the_engine_is_one_refusal(source, tmp_path, monkeypatch):
    run, there = engines.OnnxRuntime.run, set(threading.enumerate())

    def ends(self, feeds):
        return os.abort() if self._session.get_modelmeta().graph_name == "deadly" else run(self, feeds)

    monkeypatch.setattr(engines.OnnxRuntime, "run", ends)
    deadly = onnx.load(source)
    deadly.graph.name = "deadly"
    onnx.save(deadly, tmp_path / "deadly.onnx")
    results = batch.convert_files([tmp_path / "deadly.onnx", source], tmp_path / "out", 13, jobs=1)
    assert [result.code for result in results] == [exit_codes.REFUSED, exit_codes.DONE]
    assert "crashed: Aborted" in results[0].why
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["in.onnx"]
    assert set(threading.enumerate()) == there


def test_what_the_parent_left_is_not_collected_in_the_copy():
    class Waiting:
        def __init__(self):
            self.itself = self

        def __del__(self):
            if os.getpid() != home:
                os.abort()

    home = os.getpid()
    gc.collect()
    Waiting()
    assert isolation.call(gc.collect) >= 0


def test_an_end_for_want_of_memory_is_told_as_that(monkeypatch):
    with pytest.raises(isolation.Ended, match="not enough memory"):
        isolation.call(_killed)
    monkeypatch.setattr(isolation, "_room", lambda: 1 << 20)
    with pytest.raises(isolation.Ended, match="not enough memory"):
        isolation.call(os.abort)


def _killed():
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_engine_that_gets_no_memory_says_so_in_words():
    said = engines.one_line(
        RuntimeError("[ONNXRuntimeError] : 1 : FAIL : bfc_arena.cc:360 void* BFCArena::AllocateRawInternal")
    )
    assert said == "not enough memory to run it"


def test_only_a_process_that_was_begun_is_ended_in_time(monkeypatch):
    isolation.end_after(1)
    assert signal.alarm(0) == 0, "this one is not"
    told = []
    monkeypatch.setattr(isolation, "_apart", True)
    monkeypatch.setattr(signal, "signal", lambda *said: told.append(said))
    monkeypatch.setattr(signal, "alarm", lambda seconds: told.append(seconds))
    isolation.end_after(7)
    assert told == [(signal.SIGALRM, signal.SIG_DFL), 7]
    told.clear()
    monkeypatch.delattr(signal, "alarm")

    class Timer:
        daemon = False

        def __init__(self, *said):
            told.append(said)

        def start(self):
            told.append(self.daemon)

    monkeypatch.setattr(threading, "Timer", Timer)
    isolation.end_after(7)
    assert told == [(7, os._exit, [124]), True]


@pytest.mark.parametrize(("most", "limit"), [(-1, 1500), (2000, 1500), (1200, 1200)])
def test_no_more_memory_is_taken_than_there_is(most, limit, monkeypatch):
    import resource

    limits, done = {}, []
    monkeypatch.setattr(isolation, "_apart", False)
    monkeypatch.setattr(isolation, "silence", lambda: done.append("silent"))
    monkeypatch.setattr(isolation, "_room", lambda: 1000)
    monkeypatch.setattr(isolation.memory, "memory_in_use", lambda: 500)
    monkeypatch.setitem(sys.modules, "faulthandler", type("F", (), {"disable": lambda: done.append("no faults")}))
    runtime = type("R", (), {"disable_telemetry_events": lambda: done.append("untold")})
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (5, most))
    monkeypatch.setattr(resource, "setrlimit", lambda which, pair: limits.update({which: pair}))
    isolation._prepare()
    assert done == ["silent", "no faults", "untold"]
    assert limits == {resource.RLIMIT_CORE: (0, most), resource.RLIMIT_DATA: (limit, most)}
    assert isolation._apart


@pytest.mark.parametrize(
    ("code", "full", "late", "said"),
    [
        (7, False, False, "exit code 7"),
        (124, False, True, "exit code 124"),
        (-signal.SIGALRM, False, True, "Alarm clock"),
        (-signal.SIGKILL, True, False, "not enough memory"),
        (-signal.SIGSEGV, False, False, "Segmentation fault"),
        (0xC0000005, False, False, "exit code 0xc0000005"),
        (-63, False, False, "crashed: "),
    ],
)
def test_how_a_process_ended(code, full, late, said):
    ended = isolation.Ended(code)
    assert (ended.full, ended.late) == (full, late)
    assert said in str(ended)
    assert isolation.Ended(code, full=True).full
