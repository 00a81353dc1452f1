"""Call a function in another process, because a damaged model may crash the process that runs it."""

from __future__ import annotations

import gc
import math
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from opshift.passes import process as memory
from opshift.passes import progress

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

P = ParamSpec("P")
Item = TypeVar("Item")
T = TypeVar("T")

_SET_DEATH_SIGNAL = 1  # Linux's PR_SET_PDEATHSIG
_ENDING = (signal.SIGINT, signal.SIGTERM)
_LATE = 124  # the exit code of a process whose time is over, where the system sends no signal for that
_POLL, _PATIENCE = 1.0, 20  # seconds, and how often in a row a copy may be found to have done nothing
_GRACE = 1.0  # seconds that a process has to end itself when its time is over, before its parent ends it
_AFRESH = 125  # the exit code of a copy that cannot do what a process that begins afresh can
_apart = False  # whether this is a process that `call` began
_parent: Connection[Any, Any] | None = None  # where a process that `call` began tells its parent how it goes
_copied: frozenset[str] = frozenset()  # the modules that the process had of which this is a copy


class Ended(RuntimeError):
    """The process crashed before the function returned; the text says how.

    Attributes:
        late: whether its time was over (`end_after`).
        full: whether the memory did not suffice.
    """

    def __init__(self, code: int, *, full: bool = False):
        self.full = full or code == -getattr(signal, "SIGKILL", 0)  # which systems send to who takes too much
        super().__init__(_describe_end(code, full=self.full))
        self.late = code == _LATE or (code < 0 and -code == getattr(signal, "SIGALRM", 0))
        self._code = code

    def __reduce__(self) -> tuple[Callable[..., Ended], tuple[int]]:
        return partial(Ended, full=self.full), (self._code,)


class _Stuck(BaseException):
    """A forked process would wait forever for a lock or a thread that it does not have."""


def call(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function in another process; returns what it returns, or raises what it raises. All must be picklable.

    The other process is a fork, which has the memory of this one; outside Linux, and in a thread, it is a new process.
    It prints nothing, has a memory limit, and reports its progress to this process. Ctrl-C ends both, and the other
    process ends if this one is killed. A fork that waits for a lock or a thread that it does not have is ended, and the
    function is called again in a new process. In a worker of a pool, which is watched already, the function is called
    directly.

    Raises:
        Ended: the process crashed, for example as an engine ran a damaged model.
    """
    if is_watched():
        return function(*arguments, **named)
    work = partial(function, *arguments, **named)
    try:
        result: T = _ask(work)
    except _Stuck:
        result = _ask(work, afresh=True)
    return result


def each(
    function: Callable[[Item], T], items: Sequence[Item], processes: int
) -> Generator[tuple[int, T | Ended], None, None]:
    """Call a function for each item as `call` does, in so many processes at once; yields (place, result or crash).

    Results come in the order in which they are ready. All processes end when this process ends, or when the generator
    is closed. A long wait does not end one, as an item may be large.
    """
    if is_watched():
        for place, item in enumerate(items):
            yield place, function(item)
        return
    from multiprocessing import connection  # slow to import

    waiting, children = list(enumerate(items))[::-1], dict[Any, tuple[int, _Child]]()
    try:
        while waiting or children:
            while waiting and len(children) < processes:
                place, item = waiting.pop()
                with _block_interrupts() as blocked:
                    child = _Child(partial(function, item), blocked, is_copy=forks())
                    children[child.source] = place, child
            for source in connection.wait([*children]):
                place, child = children[source]
                if child.read() and not child.answer:
                    continue
                del children[source]
                outcome: T | Ended
                try:
                    outcome = child.result()
                except Ended as ended:
                    outcome = ended
                except _Stuck:
                    outcome = Ended(_AFRESH)
                finally:
                    child.close()
                yield place, outcome
    finally:
        for _, child in children.values():
            child.close()


def forks() -> bool:
    """Tell whether `call` forks; the function need not be picklable then."""
    return sys.platform == "linux" and threading.current_thread() is threading.main_thread() and not is_watched()


def end_after(seconds: int) -> None:
    """Set a time limit for this process, if `call` began it; an engine that hangs is ended, too."""
    if not _apart:
        return
    if _parent is not None:
        _parent.send(("limit", seconds))
    if hasattr(signal, "alarm"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a handler in Python has no turn where an engine waits
        signal.alarm(seconds)
    else:
        timer = threading.Timer(seconds, os._exit, [_LATE])
        timer.daemon = True
        timer.start()


def within(seconds: float, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Inside `call`: run a function, and end the process (`Ended.late`) if it takes longer."""
    if math.isfinite(seconds):
        end_after(max(math.ceil(seconds), 1))
    return function(*arguments, **named)


def end_with(wait: Callable[[], object]) -> None:
    """End this process when its parent ends, even if the parent is killed."""

    def end() -> None:
        wait()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def refuse_copies(library: str) -> None:
    """End this process if it is a fork of one in which a library may have started threads.

    Runs before a library with threads of its own is imported.

    The library would wait for them, for they are not copied.
    """
    if library in _copied and sys.modules.get(library) is not None:  # as what may not be imported is
        raise _Stuck


def silence() -> None:
    """Suppress all output of this process, that of libraries included. Runs first in every worker."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def is_watched() -> bool:
    """Whether this process belongs to a pool, or cannot start another like itself. Then a call stays in this
    process.
    """
    pools = sys.modules.get("multiprocessing.process")
    current = getattr(pools, "current_process", None)  # none as yet while another thread imports it
    return getattr(sys, "frozen", False) or (current is not None and current().daemon)


def _describe_end(code: int, *, full: bool) -> str:
    """Describe how a process ended, for the report; `full`: it used most of the memory."""
    if full:
        return "not enough memory"
    why = f"exit code {code if code < 1 << 31 else hex(code)}"  # Windows has large ones, known by their digits
    if code < 0:
        why = signal.strsignal(-code) or f"signal {-code}"
    return f"the process that ran the model crashed: {why}"


def _end_at_once_with_parent() -> None:
    """End this process as soon as its parent ends, where the system supports it. Runs first in every worker.

    The system takes the thread that began it for the one that is to end: let that wait for this process.
    """
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    try:
        import ctypes

        if sys.platform != "linux" or ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL) != 0:
            raise OSError
    except (ImportError, OSError, AttributeError):  # a Python can be built without ctypes
        end_with(parent.join)
    else:
        if os.getppid() != parent.pid:  # it ended before the system was asked
            os._exit(1)


def _ask(work: Callable[[], Any], *, afresh: bool = False) -> Any:
    """Do some work in another process; returns what it returns, or raises what it raises.

    Raises:
        Ended: the process crashed.
        _Stuck: it is a copy, and has to begin afresh.
    """
    child = None
    try:
        with _block_interrupts() as blocked:
            try:
                child = _Child(work, blocked, is_copy=forks() and not afresh)
            except Exception:
                if afresh:  # sessions, for one, cannot be sent
                    raise Ended(_LATE) from None
                raise
        child.wait()
        return child.result()
    finally:
        if child is not None:
            child.close()


@contextmanager
def _block_interrupts() -> Iterator[set[int | signal.Signals]]:
    """Block interrupts while state is half written; yields the signals that were blocked before."""
    if not hasattr(signal, "pthread_sigmask"):
        yield set()
        return
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield blocked
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def hide_script() -> Iterator[None]:
    """Keep a new process from importing the user's script, as multiprocessing would."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


class _Child:
    """A process that does some work, and reports through a pipe: a fork of this one, or a new process.

    Attributes:
        source: the pipe.
        answer: the pickled result; empty until it comes.
    """

    def __init__(self, work: Callable[[], object], blocked: set[int | signal.Signals], *, is_copy: bool):
        """`blocked` are the signals that the process does not hear, either."""
        import multiprocessing  # slow to import

        self.answer, self._is_copy, self._end, self._room = b"", is_copy, math.inf, 0
        with suppress(OSError):  # not every system tells it there
            self._room = _room()
        context = multiprocessing.get_context("fork") if is_copy else multiprocessing.get_context("spawn")
        self.source, target = context.Pipe(duplex=False)
        loaded = frozenset(sys.modules) if is_copy else frozenset[str]()
        self._process = context.Process(target=_work, args=(target, work, blocked, loaded))
        collects = gc.isenabled()
        gc.disable()  # what is left to be collected may wait for threads that a copy does not have
        try:
            with nullcontext() if is_copy else hide_script(), warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads: libraries' own, which wait for work
                self._process.start()
        except BaseException:
            self.source.close()
            raise
        finally:
            target.close()
            if collects:
                gc.enable()

    def read(self) -> bool:
        """Read a message, and tell of progress; whether there was one, as a process that ends sends no more."""
        try:
            kind, content = self.source.recv()
        except (EOFError, OSError):
            return False
        if kind == "progress":
            progress.tell(*content)
        elif kind == "limit":
            self._end = time.monotonic() + content + _GRACE
        else:
            self.answer = content
        return True

    def wait(self) -> None:
        """Read messages until the answer comes, or the process ends without one, as in a crash.

        A copy that has not computed or read anything for `patience` seconds counts as stuck. The first process waits
        twice as long as one of its copies does: a copy that waits for a stuck copy of its own looks idle, too.

        Raises:
            _Stuck: the copy waits for a lock or a thread that it does not have.
            Ended: the time limit that the process set itself (`end_after`) passed a second ago, and it still runs.
        """
        spent, idle = -1, 0
        patience = _PATIENCE if _apart else 2 * _PATIENCE
        while not self.answer:
            left = self._end - time.monotonic()
            if left <= 0:
                raise Ended(_LATE)
            if self.source.poll(min(_POLL, left)):
                if not self.read():
                    return
            elif self._is_copy and self._process.pid is not None:
                before, spent = spent, _read_effort(self._process.pid)
                idle = idle + 1 if spent == before else 0
                if idle >= patience:
                    raise _Stuck

    def result(self) -> Any:
        """Return what the work returned, or raise what it raised."""
        self._process.join()
        code = self._process.exitcode or 0
        if code == -signal.SIGINT:
            raise KeyboardInterrupt
        if not self.answer:
            if code == _AFRESH:
                raise _Stuck
            raise Ended(code, full=0 < self._room < 2 * _most_memory_of_children())
        returned, value = pickle.loads(self.answer)
        if returned:
            return value
        raise value

    def close(self) -> None:
        """End the process, if it still runs."""
        self.source.close()
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()


def _work(
    target: Connection[Any, Any],
    work: Callable[[], object],
    blocked: set[int | signal.Signals],
    loaded: frozenset[str],
) -> NoReturn:
    """Do the work in the other process, and never return into the parent's code.

    The modules are listed before it begins, by name: to look at each would copy the memory of all.
    """
    global _copied, _parent
    code, _copied, _parent = 1, loaded, target
    gc.freeze()
    gc.enable()
    try:
        _end_at_once_with_parent()
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)  # engines do not look for Python's handlers
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _prepare()
        progress.relay(lambda *said: target.send(("progress", said)))
        target.send(("answer", _answer(work)))
        code = 0
    except _Stuck:
        code = _AFRESH
    finally:
        os._exit(code)


def _read_effort(process: int) -> int:
    """Read a counter that changes as long as a process or its children run or use a disk; tells a busy one from a
    stuck one.
    """
    effort = 0
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            state, *numbers = (task / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            effort += sum(map(int, numbers[10:14])) + (state != "S") * time.monotonic_ns()
            effort += sum(map(_read_effort, map(int, (task / "children").read_text(encoding="ascii").split())))
    return effort


def _answer(work: Callable[[], object]) -> bytes:
    """Run the function, and pickle what it returns or raises."""
    outcome: tuple[bool, object]
    try:
        outcome = True, work()
    except _Stuck:
        raise
    except BaseException as error:  # an interrupt, too: raised again where the answer is read
        outcome = False, error
    try:
        return pickle.dumps(outcome)
    except Exception:  # what libraries raise may hold anything
        return pickle.dumps((False, RuntimeError(str(outcome[1]))))


def _prepare() -> None:
    """Set up a worker: no output, no core files, a memory limit. Runs first in every worker."""
    global _apart
    _apart = True
    silence()
    faults, runtime = sys.modules.get("faulthandler"), sys.modules.get("onnxruntime")
    if faults is not None:
        faults.disable()
    if runtime is not None and hasattr(runtime, "disable_telemetry_events"):
        runtime.disable_telemetry_events()  # the thread that would send them is not here, but may have held a lock
    with suppress(ImportError, OSError, ValueError):  # not every system has these
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = _room() + memory.memory_in_use()
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if most < 0 else min(wanted, most), most))


def _most_memory_of_children() -> int:
    """The most bytes that a process which this one began ever held; 0 where the system does not tell."""
    with suppress(ImportError):
        import resource

        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return 0


def _room() -> int:
    """The free memory in bytes."""
    return (_kilobytes("MemAvailable") + _kilobytes("SwapFree")) * 1024


def _kilobytes(key: str) -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))
