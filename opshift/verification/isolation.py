"""Call a function in another process, because a damaged model may crash the process that runs it."""

from __future__ import annotations

import gc
import math
import os
import pickle
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn, ParamSpec, TypeVar

from opshift.passes import process as memory
from opshift.passes import progress

if TYPE_CHECKING:
    import subprocess

P = ParamSpec("P")
Item = TypeVar("Item")
T = TypeVar("T")

_SERVE = (
    "import pickle, sys; parent, sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from opshift.verification import isolation; isolation._serve(parent)"
)
_SET_DEATH_SIGNAL = 1  # Linux's PR_SET_PDEATHSIG
_SYNCHRONIZE = 0x100000  # what Windows wants to hear from who waits for a process
_GLANCE = 0.5  # seconds between two looks whether the parent is there
_ENDING = (signal.SIGINT, signal.SIGTERM)
_LATE = 124  # the exit code of a process whose time is over, where the system sends no signal for that
_POLL, _PATIENCE = 1.0, 20  # seconds, and how often in a row a copy may be found to have done nothing
_GRACE = 1.0  # seconds that a process has to end itself when its time is over, before its parent ends it
_AFRESH = 125  # the exit code of a copy that cannot do what a process that begins afresh can
_apart = False  # whether this is a process that `call` began
_parent: BinaryIO | None = None  # where a process that `call` began tells its parent how it goes
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
    """Raised in a forked copy that would wait forever, as threads are not copied."""


def call(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function in another process; returns what it returns, or raises what it raises. All must be picklable.

    The other process sees memory as it is now where the system can fork; elsewhere, and in a thread, it begins afresh.
    It prints nothing, and takes no more memory than there is; what it tells of its progress is told here. An interrupt
    ends both, and when this process is killed, the other one ends, too. A copy that waits for a lock which was held
    when it was made is ended, as is one that needs threads which are not copied, and the function called once more in a
    process that begins afresh, if it can be sent there. A worker of a pool, whose end its pool takes notice of, calls
    the function itself.

    Raises:
        Ended: the process ended, as an engine's may by a damaged model.
    """
    if _is_watched():
        return function(*arguments, **named)
    sent = function, arguments, named
    try:
        answer, code, full = (
            _ask_fork(lambda: function(*arguments, **named)) if forks() else _ask_new_interpreter(pickle.dumps(sent))
        )
    except _Stuck:
        answer, code, full = _start_afresh(sent)
    if code == -signal.SIGINT:
        raise KeyboardInterrupt
    if not answer:
        raise Ended(code, full=full)
    result: T = _unpickle_result(answer)
    return result


def each(
    function: Callable[[Item], T], items: Sequence[Item], processes: int
) -> Generator[tuple[int, T | Ended], None, None]:
    """Call a function for each item as `call` does, so many at once; yields (place, result or crash) as they come.

    Where the system can fork, all end with this process, and when nobody asks any further. They are not ended because
    they wait long, for an item may be large.
    """
    if _is_watched():
        for place, item in enumerate(items):
            yield place, function(item)
    elif forks():
        yield from _each_in_forks(function, items, processes)
    elif items:
        with ThreadPoolExecutor(min(processes, len(items))) as pool:
            places = {pool.submit(_call_or_end, function, item): place for place, item in enumerate(items)}
            try:
                for future in as_completed(places):
                    yield places[future], future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def forks() -> bool:
    """Whether `call` forks, so that the function need not be picklable."""
    return sys.platform == "linux" and threading.current_thread() is threading.main_thread() and not _is_watched()


def end_after(seconds: int) -> None:
    """End this process after some seconds, if `call` began it: an engine that hangs ends, too."""
    if not _apart:
        return
    if _parent is not None:
        _send(_parent, "limit", seconds)
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


def _is_watched() -> bool:
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


def _end_at_once_with(parent: int) -> None:
    """End this process as soon as its parent ends, where the system supports it. Runs first in every worker.

    The system takes the thread that began it for the one that is to end: let that wait for this process.
    """
    try:
        import ctypes

        if sys.platform != "linux" or ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL) != 0:
            raise OSError
    except (ImportError, OSError, AttributeError):  # a Python can be built without ctypes
        end_with(partial(_wait_for, parent))
    else:
        if os.getppid() != parent:  # it ended before the system was asked
            os._exit(1)


def _wait_for(parent: int) -> None:
    """Return when the parent process has ended."""
    if sys.platform == "win32":
        import _winapi

        with suppress(OSError):  # there is none any more
            _winapi.WaitForSingleObject(_winapi.OpenProcess(_SYNCHRONIZE, False, parent), _winapi.INFINITE)
        return
    while os.getppid() == parent:
        time.sleep(_GLANCE)


def _call_or_end(function: Callable[[Item], T], item: Item) -> T | Ended:
    """Call a function in another process; returns a crash. Used by `each` where the system cannot fork."""
    try:
        return call(function, item)
    except Ended as ended:
        return ended


def _each_in_forks(
    function: Callable[[Item], T], items: Sequence[Item], processes: int
) -> Generator[tuple[int, T | Ended], None, None]:
    """Fork a process for each item, so many at once. Used by `each` where the system can fork."""
    waiting, copies = list(enumerate(items))[::-1], dict[int, tuple[int, _Copy, _Messages]]()
    try:
        while waiting or copies:
            while waiting and len(copies) < processes:
                place, item = waiting.pop()
                with _block_interrupts() as blocked:
                    copy = _fork(partial(_respond, work=partial(function, item)), blocked)
                    copies[copy.source] = place, copy, _Messages()
            for source in select.select([*copies], [], [])[0]:
                place, copy, messages = copies[source]
                part = os.read(source, 1 << 20)
                messages.add(part)
                if part and not messages.answer:
                    continue
                del copies[source]
                os.close(source)
                code = os.waitstatus_to_exitcode(os.waitpid(copy.process, 0)[1])
                if code == -signal.SIGINT:
                    raise KeyboardInterrupt
                yield place, _unpickle_result(messages.answer) if messages.answer else Ended(code)
    finally:
        for _, copy, _ in copies.values():
            os.close(copy.source)
            os.kill(copy.process, signal.SIGKILL)
            os.waitpid(copy.process, 0)


def _start_afresh(sent: object) -> tuple[bytes, int, bool]:
    """Start a new interpreter for a call whose forked copy got stuck. The second and last try of a `call`."""
    try:
        question = pickle.dumps(sent)
    except Exception:  # sessions, for one, cannot be sent
        raise Ended(_LATE) from None
    return _ask_new_interpreter(question)


def _ask_fork(work: Callable[[], object]) -> tuple[bytes, int, bool]:
    """Ask a fork; returns its answer, its exit code (negative for a signal), and whether memory was full.

    Runs for each `call` where the system can fork.
    """
    room, copy, status = 0, None, -1
    with suppress(OSError):  # not every system tells it there
        room = _room()
    try:
        with _block_interrupts() as blocked:
            copy = _fork(lambda stream: _respond(stream, work), blocked)
        answer = _read_answer(*copy)
        _, status, usage = os.wait4(copy.process, 0)
    finally:
        if copy is not None:
            os.close(copy.source)
            if status < 0:
                os.kill(copy.process, signal.SIGKILL)
                os.waitpid(copy.process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == _AFRESH and not answer:
        raise _Stuck
    return answer, code, 0 < room < 2 * usage.ru_maxrss * 1024


class _Copy(NamedTuple):
    """A fork of this process, and the pipe to it."""

    source: int
    process: int


@contextmanager
def _block_interrupts() -> Iterator[set[int | signal.Signals]]:
    """Block interrupts while state is half written; yields the signals that were blocked before."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield blocked
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _fork(work: Callable[[BinaryIO], object], held: set[int | signal.Signals]) -> _Copy:
    """Fork a process that does the work and writes the answer to a pipe.

    Runs for each `call` where the system can fork.
    """
    source, target = os.pipe()
    loaded, parent = frozenset(sys.modules), os.getpid()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: libraries' own, which wait for work
            child = os.fork()
        if not child:
            _work(target, work, held, loaded, parent)
    except OSError:
        os.close(source)
        raise
    finally:
        os.close(target)
    return _Copy(source, child)


def _work(
    target: int,
    work: Callable[[BinaryIO], object],
    held: set[int | signal.Signals],
    loaded: frozenset[str],
    parent: int,
) -> NoReturn:
    """Run the fork, and never return into the parent's code.

    The modules are listed before it begins, by name: to look at each would copy the memory of all.
    """
    global _copied
    code, _copied = 1, loaded
    gc.freeze()  # what the parent left to be collected may wait for threads that are not here
    try:
        _end_at_once_with(parent)
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)  # engines do not look for Python's handlers
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        _prepare()
        with open(target, "wb", closefd=False) as stream:
            work(stream)
        code = 0
    except _Stuck:
        code = _AFRESH
    finally:
        os._exit(code)


def _respond(stream: BinaryIO, work: Callable[[], object]) -> None:
    """Write progress, and then the result, to the pipe. Runs in the worker."""
    global _parent
    _parent = stream
    progress.relay(lambda *said: _send(stream, "progress", said))
    _send(stream, "answer", _answer(work))


def _send(stream: BinaryIO, kind: str, content: object) -> None:
    """Write a message of a worker: its kind, and the pickled content. Runs in the worker."""
    message = pickle.dumps((kind, content))
    stream.write(len(message).to_bytes(8, "little") + message)
    stream.flush()


class _Messages:
    """Reads the messages of another process.

    Attributes:
        answer: what came of its work; empty until it says so.
        end: when it is to be ended, on the clock of `time.monotonic`.
    """

    def __init__(self) -> None:
        self.answer, self.end = b"", math.inf
        self._bytes = bytearray()

    def add(self, part: bytes) -> None:
        """Read complete messages, and forward those about progress. Runs in the parent, as parts come in."""
        self._bytes += part
        while len(self._bytes) >= 8 and len(self._bytes) >= (end := 8 + int.from_bytes(self._bytes[:8], "little")):
            kind, content = pickle.loads(self._bytes[8:end])
            del self._bytes[:end]
            if kind == "progress":
                progress.tell(*content)
            elif kind == "limit":
                self.end = time.monotonic() + content + _GRACE
            else:
                self.answer = content

    def seconds_left(self) -> float:
        """Seconds until time is up. Asked while the parent waits.

        Raises:
            Ended: there are none.
        """
        left = self.end - time.monotonic()
        if left <= 0:
            raise Ended(_LATE)
        return left


def _read_answer(source: int, child: int) -> bytes:
    """Wait for the answer of a fork, and return it; no bytes if the fork ends without one, as in a crash.

    A fork that has not computed or read anything for `patience` seconds counts as stuck. The first process waits twice
    as long as one of its forks does: a fork that waits for a stuck fork of its own looks idle, too.

    Raises:
        _Stuck: the fork waits for a lock or a thread that it does not have.
        Ended: the time limit that the fork set itself (`end_after`) passed a second ago, and it still runs.
    """
    messages, spent, idle = _Messages(), -1, 0
    patience = _PATIENCE if _apart else 2 * _PATIENCE
    while True:
        while not select.select([source], [], [], min(_POLL, messages.seconds_left()))[0]:
            before, spent = spent, _read_effort(child)
            idle = idle + 1 if spent == before else 0
            if idle >= patience:
                raise _Stuck
        part = os.read(source, 1 << 20)
        messages.add(part)
        if messages.answer or not part:
            return messages.answer


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


def _ask_new_interpreter(work: bytes) -> tuple[bytes, int, bool]:
    """Ask a new interpreter; returns as `_ask_fork` does. Used where the system cannot fork."""
    process = _start_interpreter()
    try:
        answer, late = _exchange(process, work)
    except BaseException:  # an interrupt, too
        process.kill()
        raise
    finally:
        process.communicate()
    return answer, _LATE if late else process.returncode, False


def _unpickle_result(answer: bytes) -> Any:
    """Unpickle the result of a function, or raise its exception. Runs in the parent."""
    returned, value = pickle.loads(answer)
    if returned:
        return value
    raise value


def _start_interpreter() -> subprocess.Popen[bytes]:
    """Start a new interpreter that answers questions. Used where the system cannot fork."""
    import subprocess

    process = subprocess.Popen([sys.executable, "-c", _SERVE], stdin=-1, stdout=-1, stderr=subprocess.DEVNULL)
    _send_message(process, pickle.dumps((os.getpid(), sys.path)))
    return process


def _send_message(process: subprocess.Popen[bytes], message: bytes) -> None:
    """Send a message to a new interpreter; ignores one that has ended. Used where the system cannot fork."""
    assert process.stdin is not None
    with suppress(OSError):  # it may have ended
        process.stdin.write(message)
        process.stdin.flush()


def _exchange(process: subprocess.Popen[bytes], question: bytes) -> tuple[bytes, bool]:
    """Ask a new interpreter; returns the answer (empty if it crashed), and whether time was up.

    Used where the system cannot fork.
    """
    messages, late = _Messages(), threading.Event()
    end, timer = math.inf, threading.Timer(0, late.set)

    def kill() -> None:
        late.set()
        process.kill()

    _send_message(process, question)
    assert process.stdout is not None
    try:
        while not messages.answer and (part := os.read(process.stdout.fileno(), 1 << 20)):
            messages.add(part)
            if messages.end != end:
                timer.cancel()
                end, timer = messages.end, threading.Timer(messages.seconds_left(), kill)
                timer.start()
    finally:
        timer.cancel()
    return messages.answer, late.is_set()


def _serve(parent: int) -> None:
    """Answer a question. It is the main function of a new interpreter."""
    target = os.dup(1)
    _end_at_once_with(parent)
    _prepare()
    function, arguments, named = pickle.load(sys.stdin.buffer)
    with open(target, "wb") as stream:
        _respond(stream, partial(function, *arguments, **named))


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


def _room() -> int:
    """The free memory in bytes."""
    return (_kilobytes("MemAvailable") + _kilobytes("SwapFree")) * 1024


def _kilobytes(key: str) -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))
