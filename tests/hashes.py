"""Record what every verb makes of the frozen, exported and sampled published cases, to show that a change of the code changes nothing.

    python -m tests.lab hashes record FILE    # before
    python -m tests.lab hashes compare FILE   # after: lists the results that differ

Models are hashed as bytes. Refusals, other errors and reports are hashed as their text, without times.
`--without-texts` leaves sentences out, so that they can be written anew: of a refusal it keeps the node, operator, domain,
boundary and direction, of a report the nodes, opsets, grades and exit codes. `--part 20` takes every 20th model, which
`compare` holds against a record of all. `--core` asks only for what the core does, where no extra can be imported.

Everything is asked for by the public names of `opshift`, so that modules can move.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import re
import runpy
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from onnx import ModelProto
from opshift.passes.model import schemas
from opshift.passes.model.imports import opsets
from opshift.passes.model.traversal import bodies

import opshift
from tests import extras
from tests.conformance.cases import all_cases, installed
from tests.exported import store as exported
from tests.frozen import store as frozen
from tests.networks.corpus import save_network

OPSETS = (7, 9, 12, 13, 17, 18, 20, 21, 23, 26, 28)
TARGETS = ("onnxruntime-1.8", "opencv-5.0", "rknn-2.1", "tensorrt-8.6", "tract-0.23")
PUBLISHED, NETWORKS = 2500, 100
OF_EXTRAS = ("--target", "--modernize", "--optimize", "fold ", "inspect ")
"""What a command line asks extras for."""
Named = tuple[str, ModelProto]
Results = Iterator[tuple[str, object]]
"""What came of a call, by the name of the case: a model, a plan, an error, or what a command did."""


@dataclass
class Ended:
    """What a command printed, with which exit code it ended, and the models that it wrote."""

    printed: str
    errors: str
    code: str
    written: list[bytes]


def cases() -> Iterator[Named]:
    """The frozen cases, and a sample of the published ones."""
    for opset in frozen.frozen_opsets():
        yield from ((f"frozen/{opset}/{case.name}", case.model) for case in frozen.read(opset))
    published = sorted(all_cases(), key=lambda case: (case.name, case.opset, case.release))
    for case in random.Random(1).sample(published, PUBLISHED):
        yield f"published/{case.release}/{case.name}", case.model


def exports() -> Iterator[Named]:
    """What exporters wrote: of each family by each exporter the oldest and the newest."""
    series: dict[str, list[exported.Export]] = {}
    for framework in exported.frameworks():
        for export in exported.read(framework):
            series.setdefault(export.name.rpartition("-")[0], []).append(export)
    for found in series.values():
        found.sort(key=lambda export: export.opset)
        for export in found if len(found) == 1 else (found[0], found[-1]):
            yield f"exported/{export.name}", export.model


def of_case(name: str, model: ModelProto, core: bool) -> Results:
    """A few of the opsets that its name settles, each of its operators in others, and all that is optional."""
    draw = random.Random(name)
    for opset in sorted(draw.sample(OPSETS, 4)):
        yield f"{name} to {opset}", _made(opshift.convert_version, model, opset)
    for op in sorted({f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in model.graph.node}):
        yield f"{name} without {op}", _made(opshift.inline, model, [op])
    if not core:
        yield from _refined(name, model, draw)


def of_export(name: str, model: ModelProto, core: bool) -> Results:
    """The same of whole models, which take longer."""
    draw = random.Random(name)
    for opset in sorted(draw.sample(OPSETS, 2)):
        yield f"{name} to {opset}", _made(opshift.convert_version, model, opset)
        yield f"{name} plan {opset}", _made(opshift.plan, model, opset)
    ops = sorted({node.op_type for node in model.graph.node if not node.domain})
    yield f"{name} without any", _made(opshift.inline, model, domain="ai.onnx")
    for op in draw.sample(ops, min(2, len(ops))):
        yield f"{name} without {op}", _made(opshift.inline, model, [op])
    if core:
        return
    target = draw.choice(TARGETS)
    yield f"{name} for {target}", _made(opshift.inline, model, target=target)
    yield f"{name} plan {target}", _made(opshift.plan, model, target)
    yield from _refined(name, model, draw)


def _refined(name: str, model: ModelProto, draw: random.Random) -> Results:
    opset = draw.choice(OPSETS)
    yield f"{name} folded", _made(opshift.fold, model)
    yield f"{name} optimized", _made(opshift.optimize, model)
    refined = _made(opshift.convert_version, model, opset, modernize=True, optimize=True)
    yield f"{name} to {opset} refined", refined


def calls_vendor(model: ModelProto) -> bool:
    """Whether any node is of a vendor's operator, which is an extra; some of onnxruntime's are in the default domain."""
    opset = opsets(model).get("", 1)
    return any(
        node.domain in schemas.VENDORS or (not node.domain and not schemas.since("", node.op_type, opset))
        for body in bodies(model)
        for node in body.node
    )


def of_networks() -> Results:
    """OpenVINO IR, as ONNX at two opsets; the networks are those that OpenVINO makes of published cases."""
    found = {case.name: case for case in installed()}
    chosen = random.Random(2).sample(sorted(found), NETWORKS)
    for name in chosen:
        with TemporaryDirectory() as folder:
            network = _network(found[name].model, folder)
            if network is None:
                yield f"network/{name}", None
                continue
            for opset in (13, 21):
                yield f"network/{name} to {opset}", _made(opshift.convert_version, str(network), opset)


def _network(model: ModelProto, folder: str) -> Path | None:
    source, path = Path(folder, "model.onnx"), Path(folder, "net.xml")
    source.write_bytes(model.SerializeToString())
    try:
        save_network(source, path)
    except Exception:
        return None
    return path


def of_commands(core: bool) -> Results:
    """What the command line prints, in text and JSON, and what it writes."""
    root = Path(__file__).parents[1]
    for line in (
        ()
        if core
        else ("ledger", "ledger --markdown", "ledger --definitions", "targets", "targets --format json", "--help")
    ):
        yield f"opshift {line}", _command(line)
    for verb in () if core else ("convert", "inline", "fold", "verify", "inspect", "ledger", "targets", "probe"):
        yield f"opshift {verb} --help", _command(f"{verb} --help")
    for model in sorted((root / "examples").glob("*.onnx")):
        for line in (
            f"inspect {model.name}",
            f"inspect {model.name} --format json",
            f"inspect {model.name} --target rknn-2.1 --format json",
            *(f"convert {model.name} out.onnx --opset {opset} --format json" for opset in (9, 13, 21)),
            f"convert {model.name} out.onnx --opset 23 --modernize --optimize --format json --no-verify",
            f"convert {model.name} out.onnx --opset 12 --dry-run",
            f"inline {model.name} out.onnx --op LayerNormalization --op Gelu --format json --no-verify",
            f"inline {model.name} out.onnx --target opencv-5.0 --format json --no-verify",
            f"fold {model.name} out.onnx --no-verify",
            f"convert {model.name} --out-dir many --opset 13 --format json",
            f"convert {model.name} --opset 99",
            f"convert absent-{model.name} --opset 13",
        ):
            if core and any(asked in line for asked in OF_EXTRAS):
                continue
            with _inside(TemporaryDirectory()):
                Path(model.name).write_bytes(model.read_bytes())
                yield f"opshift {line}", _command(line)


@contextlib.contextmanager
def _inside(temporary: TemporaryDirectory[str]) -> Iterator[None]:
    before = os.getcwd()
    with temporary as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _command(line: str) -> Ended:
    out, errors, arguments, code = io.StringIO(), io.StringIO(), sys.argv, None
    sys.argv = ["opshift", *line.split()]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            runpy.run_module("opshift", run_name="__main__")
    except SystemExit as left:
        code = left.code
    finally:
        sys.argv = arguments
    written = [path.read_bytes() for path in (Path("out.onnx"), *sorted(Path("many").glob("*.onnx"))) if path.exists()]
    return Ended(out.getvalue(), errors.getvalue(), str(code), written)


def _made(verb: Callable[..., object], *given: object, **wanted: object) -> object:
    try:
        return verb(*given, **wanted)
    except Exception as error:
        return error


def describe_whole(result: object) -> list[str | bytes]:
    """All that a user sees of a result, but for times."""
    if isinstance(result, ModelProto):
        return [result.SerializeToString(deterministic=True)]
    if isinstance(result, Exception):
        return [type(result).__name__, str(result)]
    if isinstance(result, Ended):
        timeless = re.sub(r'"(read|convert|write|verify|seconds)": [\d.e-]+', "", result.printed)
        timeless = re.sub(r"\b[\d.]+ m?s\b", "", timeless)
        return [timeless, result.errors, result.code, *result.written]
    return [repr(result)]


def describe_without_texts(result: object) -> list[str | bytes]:
    """What stays the same when every sentence is written anew."""
    if isinstance(result, ModelProto):
        return [result.SerializeToString(deterministic=True)]
    if isinstance(result, opshift.Refused):
        return ["Refused", str(result.target), str(result.nearest), *_refusals(result.refusals)]
    if isinstance(result, Exception):
        return [type(result).__name__]
    if isinstance(result, opshift.Plan):
        return [
            *_changes(result.changes),
            *_refusals(result.refusals),
            str(result.nearest),
        ]
    if isinstance(result, Ended):
        return [result.code, *result.written, *(_report(result.printed) if result.printed.startswith("{") else ())]
    return [repr(result)]


_OF_CHANGE = ("node", "op", "domain", "source", "target", "grade")
_OF_REFUSAL = ("node", "op", "domain", "since", "up")


def _changes(changes: Iterable[object]) -> list[str]:
    return [_fields(change, _OF_CHANGE) for change in changes]


def _refusals(refusals: Iterable[object]) -> list[str]:
    """Each node, operator and boundary once: sentences about the same node may become one."""
    return sorted({_fields(refusal, _OF_REFUSAL) for refusal in refusals})


def _fields(record: object, names: Iterable[str]) -> str:
    return repr([record[name] if isinstance(record, dict) else getattr(record, name) for name in names])


def _report(printed: str) -> Iterator[str]:
    """The nodes, opsets, grades and codes of a JSON document, whatever verb it is of."""
    document = json.loads(printed)
    for report in document.get("models") or [document]:
        yield repr([_facts(report.get(side)) for side in ("before", "after")])
        yield repr([_facts(report), report.get("grade"), report.get("nearest"), report.get("folded")])
        yield repr([report.get("code"), bool(report.get("output")), (report.get("verification") or {}).get("status")])
        yield from _changes(report.get("changes", ()))
        yield from _changes(report.get("taken_back", ()))
        yield from _refusals(report.get("refusals", ()))
        yield repr({opset: (held["reachable"], held["grade"]) for opset, held in report.get("reach", {}).items()})


def _facts(facts: Mapping[str, Any] | None) -> list[object]:
    return [(facts or {}).get(name) for name in ("opsets", "ir_version", "nodes", "functions", "size", "ops")]


def _hash(parts: Iterable[str | bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode("utf-8", "backslashreplace") if isinstance(part, str) else part)
        found.update(b"\0")
    return found.hexdigest()[:16]


def everything(step: int = 1, core: bool = False) -> Results:
    """The results of all corpora, or of every `step`th model; networks are left out of parts.

    Those of the `core` leave out what extras do, and models that call operators of vendors.
    """
    warnings.simplefilter("ignore")
    for name, model in islice(cases(), 0, None, step):
        if not (core and calls_vendor(model)):
            yield from of_case(name, model, core)
    for name, model in islice(exports(), 0, None, step):
        if not (core and calls_vendor(model)):
            yield from of_export(name, model, core)
    if step == 1 and not core:
        yield from of_networks()
    yield from of_commands(core)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab hashes", description=__doc__)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--without-texts", action="store_true", help="hash no sentences")
    parser.add_argument("--part", type=int, default=1, metavar="N", help="take every Nth model")
    parser.add_argument("--core", action="store_true", help="ask for what the core does, without any extra")
    options = parser.parse_args()
    if options.core:
        extras.block()
    describe = describe_without_texts if options.without_texts else describe_whole
    found = {name: _hash(describe(result)) for name, result in everything(options.part, options.core)}
    if options.what == "record":
        options.file.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
        print(f"{len(found)} hashes with onnx {onnx.__version__}")
        return 0
    recorded = json.loads(options.file.read_text(encoding="utf-8"))
    names = found.keys() | (recorded.keys() if options.part == 1 and not options.core else set())
    changed = sorted(name for name in names if found.get(name) != recorded.get(name))
    print("\n".join(changed))
    print(f"{len(changed)} of {len(found)} hashes differ")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
