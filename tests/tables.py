"""Names of operators and element types in the tables of a room: each must be one."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from onnx import TensorProto
from opshift.passes.model import schemas

from opshift import functions

VENDORS = (schemas.MICROSOFT, schemas.ONNXRUNTIME, "com.microsoft.nchwc", "com.ms.internal.nhwc")
NAME = re.compile(r"[A-Z]\w+")


def unknown(room: str, *others: str) -> set[tuple[str, str]]:
    """The tables of a package that hold a name in capitals that nothing bears, or an operator in a domain that lacks it."""
    domains = (*schemas.domains(), *VENDORS)
    held = {domain: set(schemas.operators(domain)) for domain in domains}
    held[functions.OPENVINO] = set(functions.operators(functions.OPENVINO))
    names = set().union(*held.values(), TensorProto.DataType.keys(), others)
    found = set()
    for table, value in _tables(room):
        for domain, word in _words(value):
            if word not in names if domain is None else word not in held.get(domain, ()):
                found.add((table, word if domain is None else f"{domain}::{word}"))
    return found


def _tables(room: str) -> Iterator[tuple[str, Any]]:
    for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if not name.startswith("__") and not isinstance(value, type):
                yield f"{module.name.removeprefix(room)[1:]}.{name}", value


def _words(value: object) -> Iterator[tuple[str | None, str]]:
    """Each name in a table, and the domain before it where there is one."""
    if isinstance(value, str):
        if NAME.fullmatch(value):
            yield None, value
    elif isinstance(value, tuple) and len(value) == 2 and _is_named(*value):
        yield value
    elif isinstance(value, dict):
        for key, held in value.items():
            yield from _words(key)
            yield from _words(held)
    elif isinstance(value, (set, frozenset, list, tuple)):
        for held in value:
            yield from _words(held)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _words(getattr(value, field.name, None))


def _is_named(domain: object, op: object) -> bool:
    """Whether they are a domain, which begins in small letters where it is not the default, and an operator."""
    if not isinstance(domain, str) or not isinstance(op, str) or not NAME.fullmatch(op):
        return False
    return not domain or not domain[0].isupper()
