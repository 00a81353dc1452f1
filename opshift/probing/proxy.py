"""Runs models in a backend under an interpreter of its own, where one file of `opshift/adapters` serves it."""

from __future__ import annotations

import json
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opshift.adapters import serve
from opshift.files.writing import scratch
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.probing.worker import Verdict, Worker, WorkerQuestion
from opshift.verification.engines import EngineError, Feeds

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

_START = 120.0
"""Seconds that a backend may take to be imported."""
_KEPT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "SYSTEMROOT")
"""What of the environment goes on."""
_OFFLINE = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
_ENCODED = {number: name.removeprefix("tensor(").removesuffix(")") for name, number in ELEMENT_TYPES.items()}
_NUMPY = {"double": "float64", "float": "float32", "string": "str"}


class Absent(ValueError):
    """The backend is not there, or not under this interpreter."""


class NoPython(Absent):
    """Raised where a file is no interpreter of Python, in which a package could be installed."""


class _Ended(EngineError):
    """The process died, or did not answer in time."""

    def __init__(self, verdict: Verdict):
        super().__init__(verdict.why)
        self.verdict = verdict


class Proxy(Worker):
    """A process that serves one backend, started anew whenever it died or hung: what `Worker` is, elsewhere.

    `adapter` is the file that serves it, `python` the interpreter, `timeout` how many seconds a question may take.
    """

    def __init__(self, adapter: str, python: str, timeout: float, options: Sequence[str] = ()):
        self._adapter, self._python, self._timeout = adapter, python, timeout
        self.options = tuple(options)
        """What the compiler is told besides the model."""
        self._server: subprocess.Popen[bytes] | None = None
        self._folder: Any = None  # of `scratch`
        self._life = -1
        self._end = math.inf
        self._reasons: list[str] = []
        self._said = 0  # bytes of the log that are of questions before
        self._ended: Verdict | None = None

    def ask(self, question: WorkerQuestion[Any], seconds: float = math.inf) -> Any:
        """What the backend makes of a question; a verdict, `died` or `hung`, where it comes to none."""
        self._end = time.monotonic() + min(self._timeout, seconds)
        self._ended = None
        answer = question.answer(self._session)
        return self._ended or answer

    def hello(self) -> dict[str, Any]:
        """The release of the backend and the options that its compiler takes; raises `Absent`."""
        self.stop()
        self._folder = scratch()
        theirs, self._life = os.pipe()
        os.set_inheritable(theirs, True)
        log = os.open(os.path.join(self._folder.name, "log"), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        command = [self._python, "-I", serve.__file__, self._adapter, self._folder.name, str(theirs)]
        apart: dict[str, Any] = {"start_new_session": True, "pass_fds": [theirs]} if os.name == "posix" else {}
        try:
            self._server = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=self._environment(), **apart
            )
        except OSError as error:
            self.stop()
            raise NoPython(f"{self._python} is no interpreter of Python: {error.strerror or error}") from None
        finally:
            os.close(theirs)
            os.close(log)
        self._end = time.monotonic() + _START
        try:
            told = self._answer()
        except _Ended as ended:
            raise Absent(f"{self._python} does not start the backend: {ended}") from None
        except ValueError:  # no line of JSON
            self.stop()
            raise NoPython(f"{self._python} is no interpreter of Python: it does not run the adapter") from None
        if "missing" in told:
            self.stop()
            raise Absent(f"{self._python} does not have the backend: {told['missing']}")
        self._reasons = told["reasons"]
        return told

    def stop(self) -> None:
        """End the process and all that it started."""
        if self._server is not None:
            with suppress(OSError):
                os.killpg(self._server.pid, signal.SIGKILL) if os.name == "posix" else self._server.kill()
            self._server.wait()
            for pipe in (self._server.stdin, self._server.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        if self._life >= 0:
            os.close(self._life)
        if self._folder is not None:
            self._folder.cleanup()
        self._server, self._folder, self._life = None, None, -1

    def _environment(self) -> dict[str, str]:
        """A PATH of its own, and nothing that leads to another installation or to a network.

        Temporary files lie in the folder that goes with the process: RKNN and TensorFlow leave theirs.
        """
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        path = os.pathsep.join([os.path.dirname(os.path.abspath(self._python)), os.defpath])
        temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder.name)
        return {**kept, **_OFFLINE, **temporary, "PATH": path}

    def _session(self, model: ModelProto, outputs: object = None, folder: object = None) -> _Session:
        return _Session(self, model)

    def tell(self, question: Mapping[str, object]) -> None:
        """Ask the process something; raises `EngineError` with its words where it refuses."""
        self._begin()
        assert self._server is not None
        assert self._server.stdin is not None
        assert self._folder is not None
        self._said = os.path.getsize(os.path.join(self._folder.name, "log"))
        try:
            self._server.stdin.write(f"{json.dumps(question)}\n".encode())
            self._server.stdin.flush()
            told = self._answer()
        except BrokenPipeError:
            self._raise_death()
        except _Ended as ended:
            self._ended = ended.verdict
            raise
        if "why" in told:
            raise EngineError(_short(told["why"]))

    def path(self, name: str) -> str:
        """Where a file for the process lies."""
        self._begin()
        assert self._folder is not None
        return os.path.join(self._folder.name, name)

    def _begin(self) -> None:
        """Start the process, if there is none; that is not part of a question's time."""
        if self._server is None:
            left = self._end - time.monotonic()
            self.hello()
            self._end = time.monotonic() + left

    def _answer(self) -> dict[str, Any]:
        """The next line; raises `_Ended`."""
        assert self._server is not None
        assert self._server.stdout is not None
        held = bytearray()
        while not held.endswith(b"\n"):
            left = self._end - time.monotonic()
            if os.name == "posix" and not (left > 0 and select.select([self._server.stdout], [], [], left)[0]):
                self.stop()
                raise _Ended(Verdict("hung", f"no answer within {self._timeout:.3g} s"))
            part = os.read(self._server.stdout.fileno(), 1 << 16)
            if not part:
                self._raise_death()
            held += part
        answer: dict[str, Any] = json.loads(held)
        return answer

    def _raise_death(self) -> None:
        """Raise what the process died of, with its last words."""
        assert self._server is not None
        assert self._folder is not None
        with suppress(OSError):
            os.killpg(self._server.pid, signal.SIGKILL) if os.name == "posix" else self._server.kill()
        code = self._server.wait()
        log = Path(self._folder.name, "log").read_bytes()[self._said :]
        said = serve.reason(log.decode(errors="replace"), self._reasons)
        how = signal.strsignal(-code) if code < 0 else f"exit code {code}"
        self.stop()
        raise _Ended(Verdict("died", f"its compiler ended: {how}{f'; {_short(said)}' if said else ''}"))


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:200]}...{text[-97:]}"


class _Session:
    """A model that another process has compiled."""

    def __init__(self, proxy: Proxy, model: ModelProto):
        self._proxy = proxy
        held = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [value for value in model.graph.input if value.name not in held]
        self._outputs = list(model.graph.output)
        path = proxy.path("model.onnx")
        Path(path).write_bytes(model.SerializeToString())
        proxy.tell(
            {
                "load": path,
                "inputs": dict(map(_describe_value, self._inputs)),
                "outputs": dict(map(_describe_value, self._outputs)),
                "options": proxy.options,
            }
        )

    def run(self, feeds: Feeds) -> list[Any]:
        """See `Session.run`; integers and floats come back in the types that the model declares."""
        import numpy as np

        given, made = self._proxy.path("feeds.npz"), self._proxy.path("outputs.npz")
        arrays = [feeds[value.name] for value in self._inputs]
        if any(not hasattr(array, "dtype") or array.dtype.type.__module__ != "numpy" for array in arrays):
            raise EngineError("an input is of a type that cannot be handed over")
        np.savez(given, **{str(place): _plain(array) for place, array in enumerate(arrays)})
        self._proxy.tell({"run": given, "to": made})
        with np.load(made) as held:
            found = [held[str(place)] for place in range(len(held.files))]
        kinds = [_describe_value(value)[1][0] for value in self._outputs]
        return [_cast_to_declared(array, kind) for array, kind in zip(found, kinds, strict=False)] + found[len(kinds) :]


def _plain(array: Any) -> Any:
    """Texts as numpy keeps them in files."""
    return array.astype(str) if array.dtype.kind == "O" else array


def _describe_value(value: ValueInfoProto) -> tuple[str, list[Any]]:
    """The name of a value with its type as numpy calls it, and its sizes, None where there is no number."""
    kind = _ENCODED.get(value.type.tensor_type.elem_type, "")
    dims = value.type.tensor_type.shape.dim
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
    return value.name, [_NUMPY.get(kind, kind), sizes]


def _cast_to_declared(array: Any, kind: str) -> Any:
    """An output in its declared type, where that loses nothing: compilers keep int64 as int32 and bool as either."""
    import numpy as np

    if str(array.dtype) == kind or not hasattr(np, f"{kind}_" if kind == "bool" else kind):
        return array
    wanted = np.dtype(kind)
    if wanted.kind in "biu" and array.dtype.kind in "biu":
        made = array.astype(wanted)
        return made if np.array_equal(made.astype(array.dtype), array) else array
    with np.errstate(over="ignore"):
        return array.astype(wanted) if wanted.kind == array.dtype.kind == "f" else array


def variable(backend: str) -> str:
    """The variable of the environment that names the interpreter for a backend."""
    return f"OPSHIFT_PYTHON_{backend.upper().replace('-', '_')}"


def interpreter(backend: str, python: str | None) -> str:
    """The interpreter for a backend: the one that is named, the one that is set, or this one."""
    named = python or os.environ.get(variable(backend), "")
    if os.sep in named:
        return os.path.abspath(os.path.expanduser(named))
    return shutil.which(named) or named if named else sys.executable
