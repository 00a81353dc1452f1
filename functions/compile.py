"""Compile the definitions: `python -m opshift.functions.compile` writes `<family>.binpb` beside the sources."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from onnx import ModelProto
from opshift.functions import define

from opshift import functions

_TOOLS = {"compile", "define"}


def families() -> dict[str, ModelProto]:
    """Every family's definitions as a ModelProto that holds nothing but functions."""
    compiled: dict[str, ModelProto] = {}
    for module in pkgutil.iter_modules(functions.__path__):
        if module.name in _TOOLS:
            continue
        importlib.import_module(f"opshift.functions.{module.name}")
    for definition in define.registered:
        source = definition.function.function.__module__.rpartition(".")[2]
        compiled.setdefault(source.partition("_")[0], ModelProto()).functions.append(definition.body())
    return compiled


def main() -> None:
    """Write every family's file."""
    for family, model in families().items():
        path = Path(functions.__path__[0]) / f"{family}.binpb"
        path.write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
