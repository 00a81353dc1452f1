"""Read target files: what backends support, from `targets/` or from a file of the user.

A file describes one backend. Its keys, those of each version, and those of a limit are listed in `_FILE`, `_VERSION`
and `_LIMIT`; docs/targets.md explains them. A version inherits what it does not say from the one before it.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from opshift.passes.backends import measurements
from opshift.passes.backends.backend import Backend, Limit, MeasuredCall
from opshift.passes.model import schemas, tensor_data
from opshift.passes.model.messages import normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.passes.spelling import hint

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILE = {"name", "title", "source", "base", "versions", "limits"}
_LISTS = ("supports", "adds", "lacks", "since", "vendors")
_FACTS = ("static_shapes", "functions", "folds_sizes", "folded")
_VERSION = {"opset", "ir", "ml", "date", "source", "types", "lacks_types", "casts", "measured", *_FACTS, *_LISTS}
_TOLD = {"measured": ["# Ranks of the first input, whether sizes were symbols, and the types that ran, or did not."]}
_LIMIT = {
    "ops", "before", "attribute", "takes", "refuses", "constant", "unused", "types", "ranks", "symbolic", "copied",
    "most", "read", "given", "own", "input", "repeated", "reached", "strict", "why", "source", "first", "last",
}  # fmt: skip


def loads(text: str, where: str) -> dict[str, Any]:
    """Parse TOML; raises `ValueError`, which calls the text `where`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where}: {error}") from None


@cache
def targets() -> dict[str, Backend]:
    """Return every known target by name. Read once, when it is first asked for."""
    by_name: dict[str, Backend] = {}
    for entry in sorted(files("opshift.passes.backends").joinpath("targets").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            by_name |= parse(entry.read_text(encoding="utf-8"), entry.name)
    return by_name


def newest() -> list[Backend]:
    """The newest version of each known target."""
    return list({name.rpartition("-")[0]: backend for name, backend in targets().items()}.values())


def find(name: str) -> Backend:
    """Find a target: `onnxruntime-1.8`, `onnxruntime` for the newest version, or a TOML file. Runs for `--target`.

    Raises:
        ValueError: there is no such target, or the file is not one.
    """
    if name.endswith(".toml"):
        return list(read(name).values())[-1]
    known = targets()
    releases: dict[str, list[str]] = {}
    for each in known:
        stem, _, version = each.rpartition("-")
        releases.setdefault(stem, []).append(version)
    if name in releases:
        return known[f"{name}-{releases[name][-1]}"]
    if name not in known and (stem := name.rpartition("-")[0]) in releases:
        within = [each for each in releases[stem] if f"{stem}-{each}".startswith(f"{name}.")]
        name = f"{stem}-{within[-1]}" if within else name  # tensorrt-11
    if name not in known:
        raise ValueError(f"unknown target {name!r}{_suggest_nearest(name, releases)}")
    return known[name]


_OPSET = re.compile(r"(?:opset|v|(?:ai\.)?onnx)[-_:= ]?v?(\d+)", re.IGNORECASE)
"""An opset as other tools write it."""

_NUMBER = re.compile(r"[-+]?[\d.,_]*\d[\d.,_]*")


def _suggest_nearest(name: str, releases: Mapping[str, Sequence[str]]) -> str:
    """Suggest known targets with a similar name, as the end of an error message. Runs for an unknown target."""
    if opset := _OPSET.fullmatch(name):
        return f"; did you mean {opset[1]}?"
    if _NUMBER.fullmatch(name):
        return "; an opset is a whole number"
    stem = name.rpartition("-")[0]
    if stem in releases:
        return f"; versions of {stem}: {', '.join(releases[stem])}"
    kinds = f"an opset, latest, a TOML file, and versions of {', '.join(releases)} (`opshift targets` lists them)"
    return hint(name, ("latest", *releases, *targets())) or f"; known are {kinds}"


def read(path: str | os.PathLike[str]) -> dict[str, Backend]:
    """Read the targets in a TOML file by name, the newest last.

    Raises:
        ValueError: it is not a target file; the message names the key or the operator.
    """
    return parse(text_of(path), os.fspath(path))


def text_of(path: str | os.PathLike[str]) -> str:
    """Read a text file in the encodings that editors write; raises `ValueError` for anything else.

    Used for target files and lists of operators.
    """
    data = Path(tensor_data.reachable(os.fspath(path))).read_bytes()
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as PowerShell's `>` does
    try:
        return data.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{os.fspath(path)}: not UTF-8 text") from None


def parse(text: str, where: str) -> dict[str, Backend]:
    """Parse the text of a target file; messages call it `where`. Used for files of opshift and of users."""
    table = loads(text, where)
    try:
        return _make_backends(table)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{where}: {type(error).__name__}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _make_backends(held: Mapping[str, Any]) -> dict[str, Backend]:
    """Make the backends of a target file, one for each version; each version adds to the one before."""
    _check_keys(held, _FILE, "the file")
    order = list(held["versions"])
    limits = [(_find_places(row, order), _parse_limit(row)) for row in held.get("limits", ())]
    by_name: dict[str, Backend] = {}
    state, inherited = _start_from_base(held["base"]) if "base" in held else ({}, ())
    for place, (version, row) in enumerate(held["versions"].items()):
        _check_keys(row, _VERSION, f"version {version}")
        state = _inherit(state, row)
        applying = (*inherited, *(limit for places, limit in limits if place in places))
        name = f"{held['name']}-{version}"
        by_name[name] = _make_backend(name, state, row.get("source", held["source"]), applying)
    return by_name


def _start_from_base(name: str) -> tuple[dict[str, Any], tuple[Limit, ...]]:
    """Start a file from a known target (`base`): its state and its limits. Part of `parse`."""
    base = find(name)
    state: dict[str, Any] = {"opset": base.opset, "ir": base.ir_version, "ml": base.ml_opset, "lacks": dict(base.lacks)}
    state["since"] = dict(base.oldest)
    state |= {fact: getattr(base, fact) for fact in _FACTS}
    state |= {"vendors": dict.fromkeys(base.vendors, 1), "measured": base.measured, "casts": base.casts}
    state |= {"types": sorted(base.types)} if base.types else {}
    state |= {"supports": dict.fromkeys(base.supports, 1)} if base.supports is not None else {}
    return state, base.limits


def _check_keys(row: Mapping[str, Any], keys: set[str], where: str) -> None:
    """Raise `ValueError` for keys that a target file cannot have. Part of `parse`."""
    unknown = sorted(set(row) - keys)
    if unknown:
        raise ValueError(f"{where} has unknown keys: {', '.join(unknown)}; the keys are {', '.join(sorted(keys))}")


def _inherit(state: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Merge what a version says into the state of the version before it; returns the new state.

    `adds` removes operators from the missing ones; vendor operators and measured calls are added to earlier ones.
    """
    after = {**state, **{key: value for key, value in row.items() if key not in _LISTS}}
    supports = dict(state.get("supports") or {}) if "supports" not in row else {}
    lacks = dict(state.get("lacks") or {}) if "supports" not in row else {}
    supports |= _parse_operators(row.get("supports", ()))
    added = _parse_operators(row.get("adds", ()))
    lacks = {op: version for op, version in lacks.items() if op not in added} | _parse_operators(row.get("lacks", ()))
    listed = "supports" in row or "supports" in state
    after["since"] = {**({} if "supports" in row else state.get("since", {})), **_parse_operators(row.get("since", ()))}
    after["vendors"] = {**state.get("vendors", {}), **_parse_operators(row.get("vendors", ()))}
    after["measured"] = {**state.get("measured", {}), **_parse_measured(row.get("measured", {}))}
    return {**after, "lacks": lacks, **({"supports": supports | added} if listed else {})}


def _make_backend(name: str, state: Mapping[str, Any], source: str, limits: tuple[Limit, ...]) -> Backend:
    """Make one version of a backend from what the file says up to this version. Part of `parse`."""
    latest, latest_ml = schemas.latest(), schemas.latest("ai.onnx.ml")
    opset, ml = int(state.get("opset", 0)), int(state.get("ml", 0))
    if not 0 <= opset <= latest or not 0 <= ml <= latest_ml:
        raise ValueError(
            f"{name} has the unknown opset {opset} or opset of ai.onnx.ml {ml}; supported: 1 to "
            f"{latest}, ai.onnx.ml 1 to {latest_ml}"
        )
    types, missing = _parse_types(state.get("types", ELEMENT_TYPES)), _parse_types(state.get("lacks_types", ()))
    return Backend(
        name,
        opset,
        int(state.get("ir", 0)),
        ml,
        source,
        frozenset(state["supports"]) if "supports" in state else None,
        state["lacks"],
        state["since"],
        frozenset(state["vendors"]),
        types - missing if types - missing != set(ELEMENT_TYPES) else frozenset(),
        _parse_casts(state.get("casts", {})),
        **{fact: bool(state.get(fact, False)) for fact in _FACTS},
        limits=limits,
        measured=state["measured"],
    )


def _parse_limit(row: Mapping[str, Any]) -> Limit:
    """Parse a row of `limits`; raises `ValueError` for an operator, attribute or input that ONNX does not have.

    Part of `parse`.
    """
    _check_keys(row, _LIMIT, "a limit")
    ops = _parse_operators(row["ops"])
    attribute, constant, unused = row.get("attribute", ""), row.get("constant", ()), row.get("unused", ())
    read, given = row.get("read", ()), row.get("given", ())
    for domain, op in ops:
        declared = [s for v in schemas.versions(domain, op) if (s := schemas.schema(domain, op, v)) is not None]
        attributes = {name for schema in declared for name in schema.attributes}
        inputs = {parameter.name for schema in declared for parameter in schema.inputs}
        if attribute and attribute not in attributes | inputs:
            raise ValueError(f"{op} has no attribute {attribute}")
        named = (name for name in (*given, *unused) if name not in attributes)
        for name in (*constant, *read, *named, *filter(None, [row.get("input")])):
            if not any(name == p.name for schema in declared for p in (*schema.inputs, *schema.outputs)):
                raise ValueError(f"{op} has no input or output {name}")
    return Limit(
        frozenset(ops),
        max(ops.values(), default=1),
        int(row.get("before", 0)),
        attribute,
        tuple(row.get("takes", ())),
        tuple(row.get("refuses", ())),
        tuple(constant),
        tuple(unused),
        _parse_types(row.get("types", ())),
        tuple(row.get("ranks", ())),
        not row.get("symbolic", True),
        tuple(row.get("copied", ())),
        int(row.get("most", 0)),
        tuple(read),
        tuple(given),
        tuple(row.get("own", ())),
        row.get("input", ""),
        not row.get("repeated", True),
        bool(row.get("reached", False)),
        bool(row.get("strict", False)),
        row.get("why", ""),
        row.get("source", ""),
    )


def _parse_casts(rows: Mapping[str, str]) -> Mapping[str, str]:
    """Parse types that the backend computes in another type: `{ int64 = "int32" }`. Part of `parse`."""
    _parse_types((*rows, *rows.values()))
    return dict(rows)


def _parse_measured(rows: Mapping[str, str]) -> dict[Op, MeasuredCall]:
    """Parse measured calls: `{ Relu = "1-6 symbolic; T: floats", Conv = "3-5" }`."""
    return {op: measurements.read(name, text) for name, text in rows.items() for op in _parse_operators([name])}


def _find_places(row: Mapping[str, Any], order: Sequence[str]) -> range:
    """Find the versions that a limit applies to, from `first` to `last`."""
    first, last = row.get("first", order[0]), row.get("last", order[-1])
    return range(order.index(first), order.index(last) + 1)


def _parse_operators(names: Iterable[str]) -> dict[Op, int]:
    """Parse `Name`, `Name-13` (from that version on) or `domain::Name`. Part of `parse`."""
    since: dict[Op, int] = {}
    for name in names:
        domain, _, op = name.rpartition("::")
        op, _, version = op.partition("-")
        domain = normalize_domain(domain)
        if schemas.is_onnx_domain(domain):
            versions = schemas.versions(domain, op)
            if not versions or (version and int(version) not in versions):
                raise ValueError(f"ONNX defines no operator {name}")
        since[domain, op] = int(version or 1)
    return since


def _parse_types(names: Iterable[str]) -> frozenset[str]:
    """Parse element types, with or without `tensor()`. Part of `parse`."""
    spelled = frozenset(name if name.startswith("tensor(") else f"tensor({name})" for name in names)
    unknown = sorted(spelled - set(ELEMENT_TYPES))
    if unknown:
        raise ValueError(f"{unknown[0]} is not a type; supported: {', '.join(ELEMENT_TYPES)}")
    return spelled


def write(
    name: str,
    title: str,
    source: str,
    version: str,
    facts: Mapping[str, object],
    limits: Sequence[Mapping[str, object]] = (),
    remarks: Sequence[str] = (),
    *,
    base: str = "",
) -> str:
    """Write the text of a target file with one version, for `probe` and `--learn`.

    `facts` are the keys of the version, `remarks` the comments on top.
    """
    said = (("name", name), ("title", title), ("source", source), *((("base", base),) if base else ()))
    head = [f"{key} = {json.dumps(value)}" for key, value in said]
    rows = [", ".join(f"{key} = {json.dumps(value)}" for key, value in limit.items()) for limit in limits]
    limited = ["limits = [", *(f"    {{ {row} }}," for row in rows), "]"] if rows else []
    body = [_write_entry(key, value) for key, value in facts.items() if not isinstance(value, Mapping)]
    for key, table in facts.items():
        if isinstance(table, Mapping):
            body += [
                "",
                *_TOLD.get(key, ()),
                f'[versions."{version}".{key}]',
                *(f"{_key(k)} = {json.dumps(v)}" for k, v in table.items()),
            ]
    return "\n".join([*remarks, *head, *limited, "", f'[versions."{version}"]', *body, ""])


def _key(name: str) -> str:
    return name if name.isalnum() else json.dumps(name)


def _write_entry(key: str, value: object) -> str:
    """Write one TOML entry; a list fills lines of at most 120 characters. Part of `write`."""
    line = f"{key} = {json.dumps(value)}"
    if len(line) <= 120 or not isinstance(value, list):
        return line
    lines = [""]
    for item in map(json.dumps, value):
        if len(lines[-1]) + len(item) + 7 > 120:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else '    '}{item},"
    return "\n".join([f"{key} = [", *lines, "]"])
