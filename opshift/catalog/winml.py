"""Write target files from the tables that Microsoft publishes in `winml-cli` (MIT): what execution providers take.

`python -m opshift.catalog.winml winml_cli-0.4.0-py3-none-any.whl [FOLDER]` reads the wheel (`pip download --no-deps
winml-cli`); it needs pyarrow. A table is about one operator since one version, in one provider on one device. A row is
a call: the types, the ranks, what is constant, which sizes are symbols, the attributes, and whether the provider
compiled it, and whether it ran. What is read here of them: for each column, with which values some call did both.
"""

from __future__ import annotations

import io
import json
import re
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from opshift.passes.backends import door as backends
from opshift.passes.backends.door import MeasuredCall, Types
from opshift.passes.model import schemas
from opshift.passes.model.messages import AttributeProto, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import ELEMENT_TYPES

TITLES = {
    "NvTensorRTRTXExecutionProvider_GPU": ("tensorrt-rtx", "NVIDIA TensorRT for RTX"),
    "OpenVINOExecutionProvider_CPU": ("openvino-cpu", "OpenVINO on the CPU"),
    "OpenVINOExecutionProvider_GPU": ("openvino-gpu", "OpenVINO on Intel GPUs"),
    "OpenVINOExecutionProvider_NPU": ("openvino-npu", "OpenVINO on Intel NPUs"),
    "QNNExecutionProvider_GPU": ("qnn-gpu", "Qualcomm QNN on Adreno GPUs"),
    "QNNExecutionProvider_NPU": ("qnn-npu", "Qualcomm QNN on Hexagon NPUs"),
}
"""What targets are called, by the folders of the tables."""
_FILE = re.compile(r"(?P<op>\w+?)_\w+ExecutionProvider_[CGN]PU_(?P<domain>[\w.]+)_opset(?P<version>\d+)\.parquet")
_TYPES = {kind.upper(): f"tensor({kind})" for kind in ("float", "float16", "bfloat16", "double", "bool", "string")} | {
    f"{sign}INT{bits}": f"tensor({sign.lower()}int{bits})" for sign in ("", "U") for bits in (4, 8, 16, 32, 64)
}
_PLACES = frozenset({"axis", "size", "to", "stash_type"})
"""Attributes whose values say as much of the shapes and the types that they were tried with."""
_NONE = '{"t":"bool","v":true}'
_TOLD = (AttributeProto.INT, AttributeProto.STRING)
_RANKS = range(7)
_SHOWN = "no other call in the tables runs"

Seen = dict[Any, bool]
"""Whether some call with a value of a column was compiled, and ran."""


@dataclass
class Table:
    """What a table tells of an operator since a version: `columns` by their names, `ran` if any call did."""

    op: Op
    version: int
    ran: bool
    columns: dict[str, Seen] = field(default_factory=dict)


def targets(wheel: Path) -> Iterator[tuple[str, str]]:
    """The name and the text of each target file."""
    with zipfile.ZipFile(wheel) as held:
        version = wheel.name.split("-")[1]
        for folder, (name, title) in TITLES.items():
            entries = [entry for entry in held.infolist() if f"/{folder}/" in entry.filename]
            read = (table(entry.filename, partial(_read, held, entry)) for entry in entries)
            tables = [found for found in read if found is not None]
            year, month, day, *_ = max(entry.date_time for entry in entries)
            yield name, text(name, title, tables, version, f"{year}-{month:02}-{day:02}")


def table(path: str, rows: Callable[[], Mapping[str, list[Any]]]) -> Table | None:
    """One table, of its columns; None for those of patterns of several operators, and of quantized calls."""
    named = _FILE.fullmatch(path.rpartition("/")[2])
    if named is None or named["op"].endswith("Pattern"):
        return None
    columns = dict(rows())
    ran = [compiled and ended for compiled, ended in columns.pop("compile_run_success")]
    found = Table((normalize_domain(named["domain"]), named["op"]), int(named["version"]), any(ran))
    for name, cells in columns.items():
        given = columns.get(f"{name.removesuffix('_is_constant')}_is_none") if name.endswith("_is_constant") else None
        seen: dict[str, bool] = {}
        for cell, done, none in zip(cells, ran, given or cells, strict=True):
            if given is None or none != _NONE:
                seen[cell] = seen.get(cell, False) or done
        found.columns[name] = {}
        for cell, done in seen.items():
            value = _value(cell)
            found.columns[name][value] = found.columns[name].get(value, False) or done
    return found


def _read(wheel: zipfile.ZipFile, entry: zipfile.ZipInfo) -> dict[str, list[Any]]:
    import pyarrow.parquet

    return dict(pyarrow.parquet.read_table(io.BytesIO(wheel.read(entry))).to_pydict())


def _value(cell: str) -> Any:
    """What a cell says: a value, or how many a list has."""
    held = json.loads(cell)
    value = held.get("v")
    return len(value) if isinstance(value, list) else value


def text(name: str, title: str, tables: Iterable[Table], version: str, date: str) -> str:
    """The target file for what tables say."""
    by_op: dict[Op, list[Table]] = {}
    for table in sorted(tables, key=lambda table: (table.op, table.version)):
        by_op.setdefault(table.op, []).append(table)
    lacks = [_name(op) for op, held in by_op.items() if not any(table.ran for table in held)]
    since: list[str] = []
    rows: dict[str, list[str]] = {}
    measured: dict[str, str] = {}
    for op, held in by_op.items():
        ran = [table for table in held if table.ran]
        if not ran:
            continue
        if ran[0] is not held[0]:
            since.append(f"{_name(op)}-{ran[0].version}")
        if ran[-1] is not held[-1]:
            lacks.append(f"{_name(op)}-{next(table.version for table in held if table.version > ran[-1].version)}")
        for ops, row in _limits(op, ran):
            rows.setdefault(json.dumps(row), []).append(ops)
        measured[_name(op)] = _describe_calls(op, ran)
    limits = [{"ops": ops, **json.loads(row), "why": _SHOWN} for row, ops in sorted(rows.items())]
    source = f"Microsoft, the tables in winml-cli {version}, {date} (MIT); https://github.com/microsoft/winml-cli"
    said = (
        "The tables are Copyright (c) Microsoft Corporation, MIT License, read by `python -m opshift.catalog.winml`. "
        "They name no release of the provider: the version is their date. An operator is missing where the provider "
        "compiled no call of it, or none ran; a limit is what all calls that ran had. Of other operators nothing is "
        "known."
    )
    facts = {"date": date, "lacks": sorted(lacks), "since": since, "measured": measured}
    return backends.write(
        name,
        f"{title}, as onnxruntime's execution provider",
        source,
        ".".join(date.split("-")[:2]),
        {key: value for key, value in facts.items() if value},
        limits,
        [f"# {line}" for line in textwrap.wrap(said, 118, break_on_hyphens=False)],
    )


def _name(op: Op) -> str:
    return f"{op[0]}::{op[1]}" if op[0] else op[1]


def _describe_calls(op: Op, tables: Iterable[Table]) -> str:
    """The ranks of the first input and the types with which calls ran, and whether sizes were symbols in some."""
    ranks: set[int] = set()
    ran: dict[str, set[str]] = {}
    symbolic = False
    for table in tables:
        first = _first(op, table.version)
        ranks |= {int(rank) for rank, did in table.columns.get(f"{first}_dim", {}).items() if did and rank in _RANKS}
        symbolic = symbolic or any(did for axes, did in table.columns.get(f"{first}_dynamic_axes", {}).items() if axes)
        for variable, kinds in _kinds(table):
            ran.setdefault(variable, set()).update(kinds)
    types = {variable: Types(frozenset(kinds)) for variable, kinds in ran.items()}
    return backends.spell_call(MeasuredCall(tuple(sorted(ranks)), symbolic, types))


def _kinds(table: Table) -> Iterator[tuple[str, set[str]]]:
    """The type variables of an operator, each with the types of it that ran; where an attribute names one, it does."""
    for name, values in table.columns.items():
        variable, _, op = name.partition("_")
        if op == table.op[1]:
            yield variable, {_TYPES[kind] for kind, did in values.items() if did and kind in _TYPES}
    named = {number for number, did in table.columns.get("attr_to", {}).items() if did}
    if named:
        yield "T2", {kind for kind, number in ELEMENT_TYPES.items() if number in named}


def _first(op: Op, version: int) -> str:
    schema = schemas.schema(*op, version)
    return schema.inputs[0].name if schema is not None and schema.inputs else ""


def _limits(op: Op, tables: list[Table]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each limit with the operator, as a file spells it; one that holds for several versions in a row is one."""
    held: dict[str, int] = {}
    for place, table in enumerate(tables):
        found = {json.dumps(row, sort_keys=True) for row in limits(table)}
        for row in sorted(held.keys() - found):
            yield _since(op, held.pop(row), tables), {**json.loads(row), "before": table.version}
        held.update(dict.fromkeys(found - held.keys(), tables[place].version))
    for row, version in sorted(held.items()):
        yield _since(op, version, tables), json.loads(row)


def _since(op: Op, version: int, tables: list[Table]) -> str:
    return _name(op) if version == tables[0].version else f"{_name(op)}-{version}"


def limits(table: Table) -> Iterator[dict[str, Any]]:
    """What calls of an operator need, as entries of a target file: what some had that were tried, and none that ran."""
    schema = schemas.schema(*table.op, table.version)
    if schema is None:
        return
    yield from _list_types(table, schema)
    first = _first(table.op, table.version)
    ranks = table.columns.get(f"{first}_dim", {})
    missing = {rank for rank, ran in ranks.items() if not ran}
    if missing and any(ranks.values()):
        yield {"ranks": [rank for rank in _RANKS if rank not in missing]}
    sizes = table.columns.get(f"{first}_dynamic_axes", {})
    if any(sizes) and not any(ran for axes, ran in sizes.items() if axes):
        yield {"symbolic": False}
    held = {p.name: table.columns.get(f"{p.name}_is_constant") for p in schema.inputs}
    constant = [name for name, seen in held.items() if seen == {False: False, True: True}]
    if constant:
        yield {"constant": constant}
    for name, declared in schema.attributes.items():
        values = table.columns.get(f"attr_{name}", {})
        takes = sorted(value for value, ran in values.items() if ran and value is not None)
        if declared.type in _TOLD and name not in _PLACES and takes and not all(values.values()):
            yield {"attribute": name, "takes": takes}


def _list_types(table: Table, schema: schemas.Schema) -> Iterator[dict[str, Any]]:
    """List the types that ran, and the only types of inputs; nothing if every type ran."""
    seen: dict[str, bool] = {}
    for name, values in table.columns.items():
        if name.startswith("T"):
            for kind, ran in values.items():
                if kind in _TYPES:
                    seen[_TYPES[kind]] = seen.get(_TYPES[kind], False) or ran
    if all(seen.values()):
        return
    only = {kind for formal in schema.inputs if len(formal.types) == 1 for kind in formal.types}
    kinds = only | {kind for kind, ran in seen.items() if ran}
    yield {"types": [kind.removeprefix("tensor(").removesuffix(")") for kind in ELEMENT_TYPES if kind in kinds]}


def main(arguments: list[str]) -> None:
    """Write the files into a folder, or among the targets that come with opshift."""
    folder = Path(arguments[1]) if len(arguments) > 1 else Path(backends.__file__).with_name("targets")
    for name, written in targets(Path(arguments[0])):
        backends.parse(written, name)
        (folder / f"{name}.toml").write_text(written, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
