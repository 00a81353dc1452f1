"""The commands: what each does with its parsed options."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from opshift.cli import display, effects, outputs
from opshift.cli.printing import print_document
from opshift.cli.working import working
from opshift.files import external, formats, model_file
from opshift.files.external import THRESHOLD, Packing, size_of
from opshift.files.writing import write_beside, writing
from opshift.jobs import documents
from opshift.jobs import outcome as outcome_
from opshift.jobs.exit_codes import DIFFERENT, DONE, REFUSED, code_of, fault
from opshift.jobs.outcome import FileFacts, Outcome
from opshift.jobs.rewrite import Manner, rewrite
from opshift.passes import goals, process, progress
from opshift.passes import targets as resolving
from opshift.passes.changes import Result
from opshift.passes.conversion import convert as engine
from opshift.passes.errors import InvalidModel
from opshift.passes.goals import OPTIONS, Goal, Refinement, with_options
from opshift.passes.inputs.wanted import Wanted
from opshift.passes.inputs.wanted import parse_wanted as fixed
from opshift.passes.model import schemas
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import asdict, replace
from opshift.verification.feeding.asked import Asked, check_inputs, read_options
from opshift.verification.side import Side

if TYPE_CHECKING:
    from rich.console import Console

    from opshift.jobs.preparing import Preparation
    from opshift.passes.backends.door import Backend
    from opshift.trying.door import TrialManner as Trying


def convert_goal(options: argparse.Namespace) -> Goal:
    """Make the goal of `opshift convert`. `main` calls it before any model is read."""
    goal_named = options.opset or options.target is not None or options.ir_version is not None
    refined = options.quantization is not None or options.optimize or options.modernize
    if not goal_named and not refined and not _has_options(options):
        known = "--opset, --target, --ir-version, --types, --quantization, --fix-shape"
        raise ValueError(f"nothing to do: give {known} or another change")
    wanted = Refinement(options.modernize, optimize=options.optimize)
    if options.quantization is not None:
        wanted = replace(wanted, quantization=goals.check_quantization(options.quantization))
    if options.target is None:
        return _make_conversion_goal(options, wanted)
    if options.opset:
        raise ValueError(_SAME)
    return goals.inlining((), None, _find_backend(options), options.ir_version, wanted)


def _has_options(options: argparse.Namespace) -> bool:
    """Whether the command asks for any change besides its own, such as `--annotate` or `--external-data`.

    `opshift convert` then needs no opset.
    """
    given = any((value := getattr(options, name)) is not None and value is not False for name in OPTIONS)
    return given or bool(options.external_data or options.dedupe or options.shard)


_TRIED_UNASKED, _READ_UNASKED = 200, 2_000
"""Nodes of the largest model that `inspect` takes to each opset, and looks up for each target, without being asked."""

_SAME = "give --target or --opset, not both"


def _find_backend(options: argparse.Namespace) -> Backend | None:
    """Find the backend that `--target` names; raises `ValueError` for an opset."""
    backend = resolving.find_backend(options.target)
    if backend is None and options.target is not None:
        raise ValueError(f"{options.target} is an opset: use --opset {options.target}")
    return backend


def fold_goal(options: argparse.Namespace) -> Goal:
    """Make the goal of `opshift fold`."""
    return _make_conversion_goal(options, goals.folding(options.op or None, optimize=options.optimize))


def optimize_goal(options: argparse.Namespace) -> Goal:
    """Make the goal of `opshift optimize`."""
    return goals.conversion(None, options.ir_version, Refinement(optimize=True))


def _make_conversion_goal(options: argparse.Namespace, wanted: Refinement) -> Goal:
    """Make a goal that also reaches every opset that `--opset` names, one for each domain.

    Used by `fold`, `extract` and `merge`.
    """
    targets: dict[str, int] = {}
    ir: int | None = None
    backend: Backend | None = None
    for text in options.opset:
        domain, equals, number = text.rpartition("=")
        target = {domain: int(number)} if equals and number.isdigit() else text
        named, of_target = resolving.resolve_target(target)
        for domain, opset in named.items():
            if targets.setdefault(domain, opset) != opset:
                raise ValueError(
                    f"--opset names two opsets for domain {domain or 'ai.onnx'!r}: {targets[domain]} and "
                    f"{opset}; give one"
                )
        ir = of_target or ir
        backend = resolving.find_backend(target) or backend
    return Goal(
        targets, resolving.check_ir_version(options.ir_version) or ir, refinement=replace(wanted, backend=backend)
    )


def inline_goal(options: argparse.Namespace) -> Goal:
    """Make the goal of `opshift inline`. `main` calls it before any model is read."""
    if options.target is not None and options.opset:
        raise ValueError(_SAME)
    names = (*options.op, *(_read_deny_list(Path(options.deny)) if options.deny else ()))
    named = bool(names or options.portable) or options.domain is not None or options.target is not None
    if not named and not _has_options(options):
        raise ValueError("nothing to do: give --op, --deny, --domain, --portable or --target, or another change")
    wanted = Refinement(options.modernize, optimize=options.optimize)
    backend = _find_backend(options)
    targets = resolving.resolve_target(options.opset)[0] if options.opset else {}
    reader = backend or resolving.find_backend(options.opset)
    ir, wanted = resolving.check_ir_version(options.ir_version), replace(wanted, backend=reader)
    return Goal(targets, ir, names, options.domain, backend, wanted, options.portable)


def part_goal(options: argparse.Namespace) -> Goal:
    """Make the goal of `opshift extract` and `opshift merge`: what to do to the part, or to the joined model."""
    return _make_conversion_goal(options, Refinement(optimize=options.optimize))


GOALS = {
    "convert": convert_goal,
    "extract": part_goal,
    "fold": fold_goal,
    "inline": inline_goal,
    "merge": part_goal,
    "optimize": optimize_goal,
}
"""The commands that rewrite models. They differ in their goals, and in what they do before."""


def _plan_preparation(options: argparse.Namespace) -> Preparation | None:
    """Plan what to do before the stages: cut a part out (`extract`) or join two models (`merge`); None for other
    commands.
    """
    if options.command == "extract":
        from opshift.jobs.preparing import Extraction
        from opshift.passes.inputs.parts import part_of

        return Extraction(part_of(options.to, options.start, options.around, options.depth))
    if options.command == "merge":
        from opshift.jobs.preparing import Merging
        from opshift.passes.inputs.matching import CONNECT, pairs

        if options.in_place or options.out_dir is not None:
            raise ValueError("merge writes one model: give the path of the output after the paths of the two models")
        if os.path.exists(options.output) and os.path.samefile(options.output, options.other):
            raise ValueError("the output is one of the two models: give another path")
        return Merging(options.other, pairs(options.connect, CONNECT))
    return None


_LABELS = {"extract": "part"}
"""What names of output files say of verbs that prepare."""


def _read_deny_list(path: Path) -> list[str]:
    """Read a list of operators (`inline --deny`): `ops` of a TOML file, or one a line with `#` comments."""
    from opshift.passes.backends.door import loads, text_of

    text = text_of(path)
    if path.suffix == ".toml":
        ops = loads(text, str(path)).get("ops")
        if not isinstance(ops, list):
            raise ValueError(f'{path} has no list `ops`; write ops = ["Gelu", "Sub"]')
        return [str(name) for name in ops]
    return [name for line in text.splitlines() if (name := line.partition("#")[0].strip())]


def rewrite_models(options: argparse.Namespace, goal: Goal) -> int:
    """Convert one model, or many into a folder, and print the outcome; returns the exit code.

    This is every command that writes models: convert, inline, fold, optimize, extract, merge.
    """
    effects.check(options)
    goal = with_options(goal, **{name: getattr(options, name) for name in OPTIONS})
    manner = Manner(
        options.external_data,
        Packing(
            THRESHOLD if options.threshold is None else options.threshold,
            size_of(options.shard) if options.shard else None,
            dedupe=options.dedupe,
        ),
        not options.no_verify,
        options.dry_run,
        wanted=_read_inputs(options),
        trying=_read_trying(options, goal),
        nchwc_width=options.nchwc_width,
        preparation=_plan_preparation(options),
    )
    if options.out_dir is not None:
        if manner.trying is not None and (options.jobs is not None or options.backend is not None):
            raise ValueError("--try runs one model at a time: leave out --jobs and --backend")
        return _rewrite_all(options, goal, manner)
    output = outputs.check_output(options, _LABELS.get(options.command, goal.label))
    models = [options.model, output, *([options.other] if options.command == "merge" else [])]
    beside = outputs.check_beside(options.report, _file(options.save_inputs), options.evidence, models=models)
    manner = replace(manner, beside=beside)
    with working(options):
        report = partial(_write_report, options) if options.report else None
        code, outcome = rewrite(Path(options.model), output, goal, manner, report)
        if report is not None and not outcome.output:
            with report(outcome):
                pass
    if options.format == "json":
        print(documents.render_document(options.command, documents.as_facts(outcome)))
    elif code != DONE or not options.quiet:
        stages = options.verbose or options.dry_run
        display.show(outcome, _console(), verbose=options.verbose, stages=stages)
    return code


def _read_trying(options: argparse.Namespace, goal: Goal) -> Trying | None:
    """Read the options of `--try`, which runs the result in an installed backend; None without it."""
    if not getattr(options, "try_", False):
        for option in ("tries", "seconds", "learn", "python", "adapter"):
            if getattr(options, option, None) is not None:
                raise ValueError(f"--{option} needs --try")
        return None
    from opshift.trying import door as trying

    given = {name: value for name in ("tries", "seconds") if (value := getattr(options, name)) is not None}
    bound = trying.Bound(**given)
    if bound.tries < 1 or not bound.seconds > 0:  # NaN is not, either
        raise ValueError("--tries must be 1 or more, --seconds more than 0")
    if options.learn is not None:
        trying.check_learnt(Path(options.learn))
    file = options.target if options.target and options.target.endswith(".toml") else ""
    backend = trying.backend_of(goal, options.python, options.adapter)
    return trying.TrialManner(backend, bound, options.repro, options.learn, file)


def _write_report(
    options: argparse.Namespace, outcome: Outcome, source: ModelProto | None = None, result: ModelProto | None = None
) -> AbstractContextManager[None]:
    """Write the HTML report once the result is written; it draws changes from both models."""
    from opshift.cli import report

    return write_beside(options.report, report.page(outcome, source, result, ["opshift", *options.typed]))


def _file(path: str | None) -> str | None:
    """Return the path of `--save-inputs` if it is a file; None for a folder."""
    return path if path is not None and path.endswith(".npz") else None


def _read_inputs(options: argparse.Namespace) -> Asked:
    """Read what the options say of the proof: inputs, their sizes and ranges, runs, engine, tolerances."""
    return read_options(
        options.inputs,
        options.input_shape,
        options.val_range,
        options.runs,
        options.seed or 0,
        options.save_inputs,
        options.repro,
        options.engine,
        options.rtol,
        options.atol,
        options.set if options.command == "verify" else None,
        options.map if options.command == "verify" else None,
        options.evidence,
    )


def _rewrite_all(options: argparse.Namespace, goal: Goal, manner: Manner) -> int:
    """Convert many models into a folder; if one fails, the others go on. Runs for `--out-dir`."""
    from opshift.jobs import batch

    if options.in_place:
        raise ValueError("give --in-place or --out-dir, not both")
    jobs = batch.arrange(options.paths, options.out_dir, goal, manner)
    console = _console()
    plain = console is None and options.format == "text" and not options.quiet
    with working(options) as clear:

        def tell(result: batch.FileResult, place: int) -> None:
            """Print the line of a finished model. Called after each one."""
            if plain:
                clear()
                display.say(display.describe_result(result))
            progress.tell("convert models", place, len(jobs))

        progress.tell("convert models", 0, len(jobs))
        results = batch.run(jobs, options.jobs, options.backend, tell)
    if options.format == "json":
        print(
            documents.render_document(options.command, {"models": [documents.of_result(result) for result in results]})
        )
    elif not options.quiet or any(result.code for result in results):
        display.summarize(results, console)
    return max(result.code for result in results)


def _console() -> Console | None:
    return display.open_console(sys.stdout)


def _folder(model: str) -> str:
    return str(Path(model).resolve().parent)


def verify(options: argparse.Namespace) -> int:
    """Run `opshift verify`: prove that two models compute the same."""
    from opshift.verification.verify import compare_models  # slow to import, and not wanted without a proof

    if options.evidence and os.path.exists(options.evidence):
        return _repeat_proof(options)
    models = options.before, options.after
    beside = outputs.check_beside(options.report, _file(options.save_inputs), options.evidence, models=models)
    with working(options):
        before, after = (_side(path).checked() for path in models)
        for side in (before, after):
            external.check_outputs(beside, side.model, side.folder or "")
        wanted = check_inputs(_read_inputs(options), before.model)
        verification = compare_models(before, after, wanted, exact=options.exact)
    if options.evidence:
        from opshift.jobs import evidence

        how = {"promise": False, "exact": options.exact}
        models = evidence.digests(options.before), evidence.digests(options.after)
        with evidence.write(options.evidence, *models, verification, how, wanted):
            pass
    if options.report:
        sides = ((options.before, before), (options.after, after))
        one, other = (outcome_.facts(side.model, os.path.getsize(path)) for path, side in sides)
        whole = Outcome(options.before, options.after, one, other, (), (), "", {}, verification=verification)
        with _write_report(options, whole):
            pass
    if options.format == "json":
        print(documents.render_document(options.command, asdict(verification)))
    elif not verification.equal or not options.quiet:
        lines = [outcome_.verdict(verification), *outcome_.list_measurements(verification)]
        print("\n".join(lines + (outcome_.proof_details(verification) if options.verbose else [])))
    return code_of(verification)


@process.ours()
def diff(options: argparse.Namespace) -> int:
    """Run `opshift diff`: print how two models differ."""
    from opshift.jobs.difference import difference

    beside = outputs.check_beside(options.report, models=(options.before, options.after))
    with working(options):
        one, other = (_side(path).checked() for path in (options.before, options.after))
        for side in (one, other):
            external.check_outputs(beside, side.model, side.folder or "")
        differences = difference(one, other, (options.before, options.after))
    if options.report:
        from opshift.cli import report

        with write_beside(
            options.report, report.difference_page(differences, one.model, other.model, ["opshift", *options.typed])
        ):
            pass
    if options.format == "json":
        print(documents.render_document(options.command, asdict(differences)))
    else:
        for line in differences.lines:
            display.say(line)
    return DIFFERENT if differences else DONE


def _repeat_proof(options: argparse.Namespace) -> int:
    """Run `opshift verify` with an evidence file: repeat that proof, and report whether it still holds."""
    from opshift.jobs import evidence
    from opshift.verification.verify import (
        compare_models,
        verify_apart,
    )  # slow to import, and not wanted without a proof

    recorded = evidence.read_evidence(options.evidence)
    why = evidence.mismatch(recorded, options.before, options.after)
    if why:
        raise ValueError(why)
    how = recorded["how"]
    with working(options):
        before, after = (_side(path) for path in (options.before, options.after))
    wanted = check_inputs(evidence.read_asked(recorded), before.model)
    with working(options):
        if how["promise"]:
            proof = {name: how[name] for name in ("grade", "plain", "promise", "rounded_to")}
            verification = verify_apart(before, after, wanted=wanted, **proof)
        else:
            verification = compare_models(before, after, wanted, exact=how["exact"])
    said = evidence.compare_proofs(recorded, verification)
    kinds = f"{outcome_.several(len(recorded['regions']), 'kind')} of changed parts proved again"
    parts = kinds if recorded["regions"] else "all nodes are the same"
    lines = said or [f"the evidence is confirmed: {recorded['status']}, {parts}"]
    if options.format == "json":
        print(
            documents.render_document(
                options.command, {"holds": not said, "differs": said, "verification": asdict(verification)}
            )
        )
    else:
        print("\n".join(lines))
    return DIFFERENT if said else DONE


def strip(options: argparse.Namespace) -> int:
    """Run `opshift strip`: write a model without its weights."""
    return _strip_or_fill(options)


def fill(options: argparse.Namespace) -> int:
    """Run `opshift fill`: write a stripped model with random weights."""
    return _strip_or_fill(options)


def _strip_or_fill(options: argparse.Namespace) -> int:
    """Run `opshift strip` or `opshift fill`, which differ in one call only."""
    from opshift.jobs import sharing

    output = outputs.check_output_of_weights(options.model, options.output)
    with working(options):
        if options.command == "strip":
            least = {} if options.threshold is None else {"least": options.threshold}
            done = sharing.strip_file(options.model, output, **least)
        else:
            done = sharing.fill_file(options.model, output)
    if options.format == "json":
        print(documents.render_document(options.command, asdict(done)))
    else:
        display.print_shared(done)
    return DONE


def _side(path: str) -> Side:
    progress.tell(f"read {os.path.basename(path)}")
    return Side(model_file.read(path), _folder(path), path if formats.is_foreign(path) else None)


def inspect(options: argparse.Namespace) -> int:
    """Run `opshift inspect` for one model or several. One that cannot be read does not stop the others."""
    if options.strict and options.target is None and options.opset is None:
        raise ValueError("--strict needs --target or --opset")
    if not options.more:
        return _inspect(options)
    if options.format == "json":
        raise ValueError("--format json takes one model")
    codes, several = [], [options.model, *options.more]
    for path in several:
        display.say(f"== {path}")
        options.model = path
        try:
            codes.append(_inspect(options))
        except (InvalidModel, OSError) as error:
            code, lines = fault(error, path)
            codes.append(code)
            for line in lines:
                display.say(line)
    return max(codes)


@process.ours()
def _inspect(options: argparse.Namespace) -> int:
    """Run `opshift inspect` for one model: describe it, or say what a target or opset would take."""
    if options.target is not None and options.opset is not None:
        raise ValueError(_SAME)
    everywhere = options.target == "all"
    backend = None if everywhere else _find_backend(options)
    targets = resolving.resolve_target(options.opset)[0] if options.opset is not None else {}
    sizes = fixed(options.fix_shape, options.set)
    if sizes and not (everywhere or backend is not None or targets):
        raise ValueError("--fix-shape and --set are of no effect here without --target or --opset")
    with working(options):
        given = _side(options.model).model
        source = engine.check_in_any_order(given)
    file_facts = outcome_.facts(source, os.path.getsize(options.model))
    if everywhere:
        return _ask_all_targets(options, source, file_facts, sizes)
    if backend is not None or targets:
        return _show_prospect(options, source, file_facts, Goal(targets, backend=backend, fixed=sizes))
    return _describe(options, source, file_facts, in_order=source is given)


def _describe(options: argparse.Namespace, source: ModelProto, found: FileFacts, *, in_order: bool) -> int:
    """Run `opshift inspect`: show what a model consists of, who reads it, and which opsets it can reach."""
    from opshift.jobs.contents import contents
    from opshift.jobs.fates import fates
    from opshift.jobs.readers import readers

    folder = _folder(options.model)
    light = source.ByteSize() <= model_file.WHOLE  # a tree ensemble's one node has as many bytes as it has trees
    asked, few = options.reach, light and found.nodes <= _TRIED_UNASKED
    tried = range(1, schemas.latest() + 1) if asked or few else ()
    reach = dict[int, Result]()
    with working(options):
        progress.tell("look at operators and weights")
        described = contents(source, os.path.getsize(options.model), folder, in_order=in_order)
        of = fates(source, folder)
        for opset in tried:
            progress.tell("try each opset", opset, len(tried))
            reach[opset] = replace(engine.convert_model(source, {"": opset}, folder=folder), model=None)
        read = readers(source, folder) if asked or (light and found.nodes <= _READ_UNASKED) else None
    if options.format == "json":
        print(documents.render_document(options.command, documents.of_inspection(found, described, of, reach, read)))
    else:
        display.show_inspection(found, described, of, reach, read, _console(), verbose=options.verbose)
    return DONE


def _show_prospect(options: argparse.Namespace, source: ModelProto, found: FileFacts, goal: Goal) -> int:
    """Run `opshift inspect --target` or `--opset`: show what would change, and what would be refused."""
    from opshift.jobs.advice import advice

    folder = _folder(options.model)
    with working(options):
        result = goal.run(source, folder)
        nearest = goal.find_nearest_opset(source, result, folder)
        prospect = _ask_target(source, goal, result, folder)
        if prospect.refusals:
            prospect = replace(prospect, tries=advice(source, goal, result, nearest, folder))
    if options.format == "json":
        print(documents.render_document(options.command, {**asdict(found), "target": documents.as_facts(prospect)}))
    else:
        display.show_prospect(found, prospect, _console(), verbose=options.verbose)
    is_refused = prospect.refusals or prospect.needs
    return REFUSED if is_refused or (options.strict and (prospect.obstacles or result.changes)) else DONE


def _ask_target(source: ModelProto, goal: Goal, result: Result, folder: str | None) -> outcome_.Prospect:
    """Find out what a target lacks in a model, what would change, and what would be refused.

    Nothing is written. Used by `inspect --target`.
    """
    from opshift.passes.backends.door import find_known_calls as known_calls
    from opshift.passes.backends.door import find_unread_forms, obstacles

    backend, sized = goal.backend, goal.fix_sizes(source)
    needs, at_numbers = goal.ask_for_numbers(source, result, folder)
    in_the_way = tuple(obstacles(sized, backend, folder)) if backend is not None else ()
    if backend is not None:
        named = {refusal.node for refusal in in_the_way}
        in_the_way += tuple(each for each in find_unread_forms(sized, backend, folder) if each.node not in named)
    return outcome_.Prospect(
        backend.name if backend is not None else goal.description.removeprefix("at "),
        in_the_way,
        (result if result.model is not None else at_numbers).changes,
        at_numbers.refusals,
        needs,
        backend is None,
        outcome_.knowledge(known_calls(sized, backend, folder, in_the_way)) if backend is not None else (),
        casts=_list_cast_types(sized, backend) if backend is not None else {},
        unread=goal.find_unread(at_numbers.model, folder) if at_numbers.model is not None and in_the_way else (),
    )


def _list_cast_types(source: ModelProto, backend: Backend) -> dict[str, str]:
    """List types of a model that the target computes in another type, such as int64 in int32; constants alone do not
    count. `inspect --target` prints them as a warning.
    """
    if not backend.casts:
        return {}
    from opshift.passes.types.door import describe

    named = {kind: f"{kind}={other}" for kind, other in backend.casts.items()}
    found = {kind: describe(source, asked, None) for kind, asked in named.items()}
    return {kind: backend.casts[kind] for kind, of in found.items() if of is not None and of.narrow}


def _ask_all_targets(options: argparse.Namespace, source: ModelProto, found: FileFacts, held: Wanted) -> int:
    """Run `opshift inspect --target all`: ask the newest version of each measured target."""
    from opshift.passes.backends.door import newest

    folder, prospects = _folder(options.model), []
    measured = [backend for backend in newest() if backend.measured]
    with working(options):
        for place, backend in enumerate(measured, 1):
            progress.tell(f"convert for {backend.name}", place, len(measured))
            goal = Goal(backend=backend, fixed=held)
            prospects.append(_ask_target(source, goal, goal.run(source, folder), folder))
    if options.format == "json":
        everywhere = {prospect.target: documents.as_facts(prospect) for prospect in prospects}
        print(documents.render_document(options.command, {**asdict(found), "targets": everywhere}))
    else:
        display.show_prospects(found, prospects, _console())
    return DONE


def ledger(options: argparse.Namespace) -> int:
    """Run `opshift ledger`: print what each version of an operator changes."""
    from opshift.catalog import ledger as table

    if options.op:
        histories = [table.history(name) for name in options.op]
        print("\n\n".join("\n".join(history.lines(options.opset)) for history in histories))
    elif options.opset is not None:
        needed = table.list_changes(options.opset)
        if not needed and not 1 <= options.opset <= schemas.latest() + 1:  # the next one is asked for before it is out
            raise ValueError(f"unknown opset {options.opset}; supported: 1 to {schemas.latest()}")
        print("\n".join(needed) if needed else f"no operator changes at opset {options.opset} of the installed onnx")
    elif options.markdown:
        print_document(table.as_markdown())
    elif options.definitions:
        from opshift.catalog import definitions

        print_document(definitions.as_markdown())
    elif options.types:
        from opshift.catalog import widths

        print_document(widths.as_markdown())
    else:
        for row in table.rows():
            print(f"{row.op} {row.older or 'new'} -> {row.newer}: {f'up {row.up}; ' if row.up else ''}down {row.down}")
    return DONE


def targets(options: argparse.Namespace) -> int:
    """Run `opshift targets`: list the known backends, or describe one."""
    from opshift.passes.backends.door import targets as known

    if options.format == "json":
        print(
            documents.render_document(
                options.command, {"targets": {name: documents.of_backend(target) for name, target in known().items()}}
            )
        )
    else:
        display.show_targets(list(known().values()), _console())
    return DONE


def schema(options: argparse.Namespace) -> int:
    """Run `opshift schema`: print the JSON Schema of `--format json`."""
    print(documents.schema_file().read_text(encoding="utf-8"), end="")
    return DONE


def probe(options: argparse.Namespace) -> int:
    """Run `opshift probe`: measure which operators an installed backend runs."""
    from opshift.probing import probe as prober

    outputs.check_beside(options.output)
    with working(options):
        models = Path(options.models) if options.models else None
        keep = Path(options.keep) if options.keep else None
        where = options.python, options.adapter, keep
        text = prober.probe(options.backend, options.op, progress.tell, models, *where, quick=options.quick)
    if options.output:
        with writing(options.output):
            Path(options.output).write_text(text, encoding="utf-8", newline="\n")
    else:
        print_document(text)
    return DONE
