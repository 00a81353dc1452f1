"""The table of definitions: every operator that can be expanded, how, and from where.

It is read from the registry, the ledger, the compiled functions, and the operators' schemas.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from opshift import functions
from opshift.catalog import ledger
from opshift.passes.inlining import definable
from opshift.passes.inlining.definable import DOMAINS, operators, way_down
from opshift.passes.model import schemas
from opshift.passes.rewrite import registry


@dataclass(frozen=True)
class Definition:
    """How an operator is expanded.

    Attributes:
        formula: its formula, or the sentence that its step says.
        opset: the opset at which the definition is written, from where its nodes go on to any other; 0 for that of
            the node itself.
        grade: `exact`, `close`, or what it depends on.
        source: the text that it follows: the operator's own, a specification, or a paper that it names.
        code: the file and the function in it.
    """

    domain: str
    op: str
    formula: str
    opset: int
    grade: str
    source: str
    code: str


def definitions() -> Iterator[Definition]:
    """Every definition, by domain and name; an operator may have one for each group of element types."""
    registry.all_registrations()
    for domain in DOMAINS:
        for op in operators(domain):
            held = registry.definition(domain, op)
            if held is None or not held.why:
                yield from of(domain, op)


def of(domain: str, op: str) -> Iterator[Definition]:
    """The definitions of an operator."""
    on_request = registry.definition(domain, op)
    if on_request is not None:
        told = ledger.story(domain, op, 0, "inlined", on_request.step)
        yield _step(domain, op, on_request.step, told, on_request.opset, on_request.source)
    for body, grade in functions.bodies(domain, op):
        opset = next(i.version for i in body.opset_import if not i.domain)
        code = f"functions/{functions.source(domain, op)}.py: {body.name}"
        yield Definition(domain, op, _first_sentence(body.doc_string), opset, grade, _text(domain, op), code)
    below = way_down(domain, op)
    if on_request is None and below is not None:
        step, opset = below
        yield _step(domain, op, step, ledger.story(domain, op, opset + 1, "down", step), opset)


def _step(domain: str, op: str, step: registry.Step, story: ledger.Story, opset: int, source: str = "") -> Definition:
    module = inspect.unwrap(step).__module__
    code = f"{module.removeprefix('opshift.').replace('.', '/')}.py: {step.__name__}"
    return Definition(domain, op, story.what, opset, story.grade, source or _text(domain, op), code)


def _text(domain: str, op: str) -> str:
    """Where the operator's own text stands, in the repository of onnx or on the pages of OpenVINO."""
    if domain == functions.OPENVINO:
        return f"the specification of OpenVINO's {op}"
    if domain in schemas.VENDORS:
        return "its kernel" if schemas.kernels(domain, op) else "its text alone"
    schema = schemas.schema(domain, op, schemas.latest(domain))
    file = "Operators-ml.md" if domain == "ai.onnx.ml" else "Operators.md"
    page = f"onnx/docs/{file}#{f'{domain}.{op}' if domain else op}"
    return f"{page}, with a body" if schema and schema.body else page


def _first_sentence(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split()).rstrip(".")


def folds(domain: str, op: str) -> str:
    """Whether an operator is recognised where its definition is written out: `yes`, `by name` or `no`."""
    from opshift.passes.fusion.door import FAMILIES, family

    if family((domain, op)) is None:
        return "no"
    return "yes" if (domain, op) in FAMILIES else "by name"


def without() -> list[str]:
    """The operators that came after opset 1 and have no definition."""
    found = {(d.domain, d.op) for d in definitions()}
    later = [(d, op) for d in ledger.DOMAINS for op in schemas.operators(d) if schemas.versions(d, op)[0] > 1]
    return sorted(f"{domain}::{op}" if domain else op for domain, op in set(later) - found)


def as_markdown() -> str:
    """The whole table; converts a call of every operator, which takes seconds."""
    from opshift.catalog.lowest import lowest_opset

    lines = [
        "# Definitions",
        "",
        "Written by `opshift ledger --definitions`; do not edit. What `opshift inline --op` puts in the place of an",
        "operator, and what conversion does below the opset that brought it. A definition is written at the opset of",
        "the table, 0 being that of the node, and is converted to that of the model, down to the lowest opset: found",
        "by converting a call of onnx's node tests, of float32 where there is one; other calls may need a newer one.",
        "What a call does not need of it, by its types, shapes and constants, is left out. *Exact* means the same",
        "values for all inputs, *close* the same real-number function with other rounding. The source is the text",
        "that the definition follows. *Folds* tells whether `opshift fold` puts the operator where its definition is",
        "written out: *yes*, or *by name*, when it is asked for with `--op`.",
        "",
        "| operator | definition | written at | lowest opset | grade | folds | source | code |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for found in definitions():
        name = f"{found.domain}::{found.op}" if found.domain else found.op
        formula = found.formula.replace("|", "\\|")
        cells = (
            name,
            formula,
            found.opset,
            lowest_opset(found.domain, found.op),
            found.grade,
            folds(found.domain, found.op),
            found.source,
            found.code,
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "Operators that came after opset 1 and have none: " + ", ".join(without()) + "."]
    return "\n".join([*lines, *_vendors()]) + "\n"


def of_vendors() -> Iterator[Definition]:
    """The definitions of operators that are not ONNX's, by domain and name."""
    for domain in schemas.VENDORS:
        for op in definable.operators(domain):
            held = registry.definition(domain, op)
            if held is None or not held.why:
                yield from of(domain, op)


def refused_operators() -> dict[tuple[str, str], str]:
    """Say why some operators of vendors or of ai.onnx.ml have no definition, by domain and name."""
    ops = [(domain, op) for domain in (*schemas.VENDORS, "ai.onnx.ml") for op in definable.operators(domain)]
    return {op: held.why for op in ops if (held := registry.definition(*op)) is not None and held.why}


def _vendors() -> Iterator[str]:
    """The operators that onnxruntime has beside ONNX's: what each becomes, and why others become nothing."""
    source = schemas.vendor_table()["source"]
    yield from (
        "",
        "## Operators of vendors",
        "",
        f"As {source} registers them, in domains of its own and in the default one. A definition is judged by",
        "the kernel on the CPU where there is one, over all combinations of what is optional, else by the text of the",
        "operator alone. It is written at the opset of the table and goes from there to that of the model. A call that",
        "it does not take is refused with the reason.",
        "",
        "| operator | definition | written at | grade | judged by | code |",
        "|---|---|---|---|---|---|",
    )
    for found in of_vendors():
        name, formula = _spell(found.domain, found.op), found.formula.replace("|", "\\|")
        yield f"| {name} | {formula} | {found.opset} | {found.grade} | {found.source} | {found.code} |"
    yield from ("", "These have none:", "", "| operator | why |", "|---|---|")
    yield from (f"| {_spell(*op)} | {why} |" for op, why in refused_operators().items())


def _spell(domain: str, op: str) -> str:
    return f"{op} (default domain)" if domain == schemas.ONNXRUNTIME else f"{domain}::{op}"
