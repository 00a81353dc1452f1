"""What each verb of the command line does."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from opshift import api, files, report
from opshift.cli import DIFFERENT, DONE, REFUSED
from opshift.passes import convert as engine
from opshift.passes import fit, schemas
from opshift.passes.backend import Backend
from opshift.passes.obstacles import obstacles, open_dimensions
from opshift.passes.protos import ModelProto
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

    def attempt(source: ModelProto, folder: str) -> engine.Result:
        return engine.attempt(source, targets, ir_version=options.ir_version or ir, folder=folder)

    return _rewrite(options, label, attempt, targets=targets)


def inline(options: argparse.Namespace) -> int:
    """`opshift inline`."""
    if options.target and options.opset:
        raise ValueError("--target and --opset say the same thing; give one")
    names = [*options.op, *(_denied(Path(options.deny)) if options.deny else ())]
    if not names and not options.domain and not options.target:
        raise ValueError("name what is to go: --op, --deny, --domain or --target")
    backend = api.backend_of(options.target)
    targets = api.resolve(options.opset)[0] if options.opset else {}

    def attempt(source: ModelProto, folder: str) -> engine.Result:
        ops = api.named(source, names, options.domain)
        if backend is not None:
            return fit.attempt(source, backend, ops=ops, ir_version=options.ir_version, folder=folder)
        goal = targets or api.own_opset(source)
        return engine.attempt(source, goal, ops=ops, ir_version=options.ir_version, folder=folder)

    label = f"for-{backend.name}" if backend is not None else "inlined"
    return _rewrite(options, label, attempt, backend=backend)


def _denied(path: Path) -> list[str]:
    """The operators in a deny list: `ops` of a TOML file, else one a line, comments behind `#`."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        from opshift.backends import loads

        held = loads(text).get("ops")
        if not isinstance(held, list):
            raise ValueError(f"{path} holds no list `ops`")
        return [str(name) for name in held]
    return [name for line in text.splitlines() if (name := line.partition("#")[0].strip())]


def _rewrite(
    options: argparse.Namespace,
    label: str,
    attempt: Callable[[ModelProto, str], engine.Result],
    *,
    targets: Mapping[str, int] | None = None,
    backend: Backend | None = None,
) -> int:
    """From file to file; `targets` are the opsets that a refusal looks for near ones to."""
    output = _output(options, label)
    started = perf_counter()
    source = files.read(options.model)
    folder = str(Path(options.model).resolve().parent)
    seconds = {"read": perf_counter() - started}
    started = perf_counter()
    result = attempt(source, folder)
    seconds["convert"] = perf_counter() - started
    before = report.facts(source, os.path.getsize(options.model), result.before if targets else None)
    needs = tuple(open_dimensions(source, backend)) if backend is not None else ()
    outcome = Outcome(options.model, "", before, None, result.changes, result.refusals, "", seconds, needs=needs)
    if result.model is None:
        nearest = engine.nearest(source, result.refusals, targets, folder) if targets else None
        _show(options, replace(outcome, nearest=nearest))
        return REFUSED
    outcome = replace(outcome, grade=result.grade)
    if options.dry_run:
        _show(options, replace(outcome, after=report.facts(result.model, files.size(result.model), result.after)))
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
    outcome = replace(outcome, after=report.facts(result.model, draft.size, result.after), verification=verification)
    _show(options, replace(outcome, output=str(output) if code == DONE else ""))
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
    backend = api.backend_of(options.target)
    if backend is not None:
        result = fit.attempt(source, backend, folder=folder)
        prospect = report.Prospect(
            backend.name,
            tuple(obstacles(source, backend, folder)),
            result.changes,
            result.refusals,
            tuple(open_dimensions(source, backend)),
        )
        if options.format == "json":
            print(json.dumps({**asdict(found), "target": report.as_facts(prospect)}, indent=2))
        else:
            report.prospect(found, prospect, _console())
        return REFUSED if result.refusals else DONE
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
    elif options.definitions:
        from opshift import definitions

        print(definitions.as_markdown(), end="")
    else:
        for row in table.rows():
            print(f"{row.op} {row.older or 'new'} -> {row.newer}: {f'up {row.up}; ' if row.up else ''}down {row.down}")
    return DONE


def targets(options: argparse.Namespace) -> int:
    """`opshift targets`."""
    from opshift.backends import targets as known

    if options.format == "json":
        print(json.dumps({name: report.of_backend(target) for name, target in known().items()}, indent=2))
    else:
        report.targets(list(known().values()), _console())
    return DONE


def probe(options: argparse.Namespace) -> int:
    """`opshift probe`."""
    from opshift import probe as prober

    with report.progress() as advance:
        text = prober.probe(options.backend, options.op, advance)
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return DONE
