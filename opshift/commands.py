"""What each verb of the command line does."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from opshift import api, files, report
from opshift.cli import DIFFERENT, DONE, REFUSED
from opshift.passes import convert as engine
from opshift.passes import schemas
from opshift.passes.expand import Op
from opshift.report import Outcome
from opshift.verification import Verification, verify_protos

if TYPE_CHECKING:
    from rich.console import Console


def convert(options: argparse.Namespace) -> int:
    """`opshift convert`."""
    targets: dict[str, int] = {}
    ir: int | None = None
    for text in options.opset:
        domain, equals, number = text.rpartition("=")
        found, of_target = api.resolve({domain: int(number)} if equals and number.isdigit() else text)
        targets.update(found)
        ir = of_target or ir
    label = "-".join(f"{domain or 'opset'}{opset}" for domain, opset in targets.items())
    return _rewrite(options, targets, [], options.ir_version or ir, label)


def inline(options: argparse.Namespace) -> int:
    """`opshift inline`."""
    if not options.op:
        raise ValueError("name at least one operator with --op")
    if options.target and options.opset:
        raise ValueError("--target and --opset say the same thing; give one")
    ops = [api.operator(op) for op in options.op]
    target = options.target or options.opset
    targets, ir = api.resolve(target) if target else ({}, None)
    return _rewrite(options, targets, ops, options.ir_version or ir, "inlined")


def _rewrite(options: argparse.Namespace, targets: dict[str, int], ops: list[Op], ir: int | None, label: str) -> int:
    output = _output(options, label)
    started = perf_counter()
    source = files.read(options.model)
    folder = str(Path(options.model).resolve().parent)
    seconds = {"read": perf_counter() - started}
    started = perf_counter()
    result = engine.attempt(source, targets or api.own_opset(source), ops=ops, ir_version=ir, folder=folder)
    seconds["convert"] = perf_counter() - started
    before = report.facts(source, os.path.getsize(options.model))
    if result.model is None:
        nearest = engine.nearest(source, result.refusals, targets, folder) if targets and not ops else None
        outcome = Outcome(options.model, "", before, None, result.changes, result.refusals, "", seconds, nearest)
        _show(options, outcome)
        return REFUSED
    if options.dry_run:
        after = report.facts(result.model, files.size(result.model))
        _show(options, Outcome(options.model, "", before, after, result.changes, (), result.grade, seconds))
        return DONE
    started = perf_counter()
    with files.Draft(result.model, output, folder, options.external_data, options.threshold) as draft:
        seconds["write"] = perf_counter() - started
        verification = None
        if not options.no_verify:
            started = perf_counter()
            verification = verify_protos(
                source,
                draft.written(),
                grade=result.grade,
                seed=options.seed,
                before_folder=folder,
                after_folder=str(output.parent),
            )
            seconds["verify"] = perf_counter() - started
        code = _code(verification)
        if code == DONE:
            draft.publish()
    after = report.facts(result.model, draft.size)
    written = str(output) if code == DONE else ""
    outcome = Outcome(
        options.model, written, before, after, result.changes, (), result.grade, seconds, None, verification
    )
    _show(options, outcome)
    return code


def _output(options: argparse.Namespace, label: str) -> Path:
    """The path to write; raises `ValueError` for one that must not be written."""
    if options.in_place:
        if options.output:
            raise ValueError("--in-place writes to the model itself; give no output")
        return Path(options.model).resolve()
    model = Path(options.model)
    beside = model.with_name(f"{model.stem}.{label}{model.suffix or '.onnx'}")
    output = Path(options.output) if options.output else beside
    if output.exists() and not output.is_file():
        raise ValueError(f"{output} is no regular file; give the path of a file")
    if output.exists() and model.exists() and output.samefile(model):
        raise ValueError("the output is the input; give another path, or --in-place")
    return output


def _code(found: Verification | None) -> int:
    if found is None or found.equal:
        return DONE
    return DIFFERENT if found.status == "different" else REFUSED


def _show(options: argparse.Namespace, outcome: Outcome) -> None:
    if options.format == "json":
        print(report.as_json(outcome))
    else:
        report.show(outcome, _console())


def _console() -> Console | None:
    """A console for a terminal; None for a file or a pipe, where each entry is one plain line."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console(emoji=False)


def verify(options: argparse.Namespace) -> int:
    """`opshift verify`."""
    found = api.verify(options.before, options.after, grade="close" if options.close else "exact", seed=options.seed)
    print(json.dumps(asdict(found), indent=2) if options.format == "json" else report.verdict(found))
    return _code(found)


def inspect(options: argparse.Namespace) -> int:
    """`opshift inspect`."""
    source = files.read(options.model)
    engine.check_imports(source)
    found = report.facts(source, os.path.getsize(options.model))
    folder = str(Path(options.model).resolve().parent)
    reach = {opset: engine.attempt(source, {"": opset}, folder=folder) for opset in range(1, schemas.latest() + 1)}
    if options.format == "json":
        held = {
            str(opset): {
                "reachable": not result.refusals,
                "grade": result.grade,
                "why": list(map(str, result.refusals)),
            }
            for opset, result in reach.items()
        }
        print(json.dumps({**asdict(found), "reach": held}, indent=2))
        return DONE
    report.inspection(found, reach, _console())
    return DONE


def ledger(options: argparse.Namespace) -> int:
    """`opshift ledger`."""
    from opshift import ledger as table

    if options.opset is not None:
        found = table.needed(options.opset)
        print("\n".join(found) if found else f"the installed onnx changes nothing at opset {options.opset}")
    elif options.markdown:
        print(table.as_markdown(), end="")
    else:
        for row in table.rows():
            print(f"{row.op} {row.older or 'new'} -> {row.newer}: {f'up {row.up}; ' if row.up else ''}down {row.down}")
    return DONE


def targets(options: argparse.Namespace) -> int:
    """`opshift targets`."""
    from opshift.backends import targets as known

    if options.format == "json":
        print(json.dumps({name: asdict(target) for name, target in known().items()}, indent=2))
        return DONE
    for target in known().values():
        print(f"{target.name:20} opset {target.opset:2}  IR {target.ir_version:2}  {target.source}")
    return DONE
