"""Which backends are installed, here or under another interpreter, and in which release."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

from opshift import adapters as files
from opshift.passes.records import dataclass, replace
from opshift.passes.spelling import hint
from opshift.probing import proxy
from opshift.probing.worker import Worker
from opshift.verification import adapters


@dataclass(frozen=True)
class Installed:
    """A backend that can be tried.

    Attributes:
        name, release: which one, as `mnn` and `3.6.1`.
        adapter: how models are opened in it.
        python: the interpreter that has it, where that is one of its own.
        options: what its compiler may be told besides a model.
    """

    name: str
    release: str
    adapter: adapters.Adapter
    python: str = ""
    options: tuple[str, ...] = ()

    def open(self, seconds: float | None = None) -> Worker:
        """What runs models in it, each in so many seconds at most."""
        if self.adapter.session:
            return Worker(self.adapter.session, self.adapter.seconds if seconds is None else seconds)
        return proxy.Proxy(self.adapter.file, self.python, self.adapter.seconds if seconds is None else seconds)


def check_name(backend: str) -> str:
    """The name of a backend that can be tried; raises `ValueError` for another one."""
    if backend not in adapters.KNOWN:
        likely = hint(backend, adapters.KNOWN) or f"; {', '.join(adapters.KNOWN)} can be probed and tried"
        raise ValueError(f"unknown backend {backend!r}{likely}")
    return backend


def find(backend: str, python: str | None = None, file: str | None = None) -> Installed:
    """The backend of a name, or of a user's own adapter `file`, under the interpreter `python` or the one that is set.

    Raises:
        ValueError: there is no such backend, it is not installed, or the interpreter is not one that has it.
    """
    if file is not None:
        if not os.path.isfile(file):
            raise ValueError(f"the adapter {file} does not exist; give --adapter the path of a Python file")
        adapter = adapters.Adapter(file=os.path.abspath(file), seconds=300, within=0.01)
    else:
        adapter = adapters.KNOWN[check_name(backend)]
    if adapter.session:
        if python is not None:
            raise ValueError(f"{backend} runs in opshift's own Python, so --python has no effect; leave it out")
        return Installed(backend, release(backend), adapter)
    if adapter.file == os.path.basename(adapter.file):
        adapter = replace(adapter, file=str(Path(files.__file__).with_name(adapter.file)))
    interpreter = proxy.interpreter(backend, python)
    server = proxy.Proxy(adapter.file, interpreter, adapter.seconds)
    try:
        told = server.hello()
    except proxy.Absent as absent:
        variable = proxy.variable(backend)
        lacks_it = adapter.packages and not isinstance(absent, proxy.NoPython)
        install = f"{interpreter} -m pip install {' '.join(adapter.packages)}" if lacks_it else ""
        where = f"name the interpreter that has it with --python or {variable}"
        raise ValueError(f"{absent}; {where}{f', or {install}' if install else ''}") from None
    finally:
        server.stop()
    return Installed(backend, told["release"], adapter, interpreter, tuple(told["options"]))


def release(backend: str) -> str:
    """The release of a backend in this interpreter; raises `ValueError` if there is none."""
    packages = adapters.KNOWN[backend].packages
    for package in packages:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise ValueError(f"{backend} is not installed: pip install {packages[0]}")
