"""A page for each operator, and one that lists them: from the ledger, the definitions and the targets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from html import escape

import inserted
from opshift.passes.backends import target_files
from opshift.passes.backends.backend import Backend
from opshift.passes.inlining import definable
from opshift.passes.model import schemas

from opshift.catalog import definitions, ledger

DOMAINS = tuple(dict.fromkeys((*definable.DOMAINS, *schemas.VENDORS)))
GITHUB = "https://github.com/opshift/opshift/blob/main"
Op = tuple[str, str]


def pages() -> Iterator[tuple[str, str]]:
    """Each page's file and text, the list first."""
    every = [(domain, op) for domain in DOMAINS for op in definable.operators(domain)]
    yield "index.md", listed(every)
    for op in every:
        yield f"{spelled(op)}.md", "\n".join(page(op)) + "\n"


def spelled(op: Op) -> str:
    """How commands and files name an operator; the default domain of onnxruntime is ONNX's own."""
    domain, name = op
    return name if not domain else f"{domain.replace(' (onnxruntime)', '.onnxruntime')}.{name}"


def listed(every: list[Op]) -> str:
    """All operators, which a script narrows to what is typed."""
    lines = [
        "# Operators",
        "",
        "What changed with each version of an operator, what becomes of it in both directions, what it is replaced by,",
        "and which targets lack it. *Down to* is the lowest opset that a call of it has been brought to, as it is or",
        "expressed by others.",
        "",
        '<input class="filter" type="search" placeholder="Type a name, a family, a version"'
        ' aria-label="Operators" data-filter="#operators">',
        "",
        '<table id="operators"><thead><tr><th>operator</th><th>versions</th><th>down to</th>'
        "<th>definition</th><th>folds</th></tr></thead><tbody>",
    ]
    for op in every:
        cells = ", ".join(map(str, schemas.versions(*op))), reach(op), defined(op), definitions.folds(*op)
        name = f'<a href="{spelled(op)}.html">{escape(op[1])}</a>' + (
            f" <small>{escape(op[0])}</small>" if op[0] else ""
        )
        family = f' data-words="{escape(f"{op[0]} {family_of(op)}")}"'
        lines.append(f"<tr{family}><td>{name}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    return "\n".join([*lines, "</tbody></table>", '<p class="nothing" hidden>No operator is called so.</p>']) + "\n"


def page(op: Op) -> Iterator[str]:
    """One operator: what it is, what it becomes, what happened to it, and who lacks it."""
    domain, name = op
    known = schemas.versions(*op)
    yield f"# {name if domain in ('', *definable.DOMAINS) else f'{name} ({domain})'}\n"
    if domain and domain in definable.DOMAINS:
        yield f"Domain `{domain}`. "
    if known:
        since = f"Since version {known[0]}" + (f", changed at {', '.join(map(str, known[1:]))}." if known[1:] else ".")
        newest = schemas.schema(domain, name, known[-1])
        yield f"{since} Family *{family_of(op)}*.{' [The text of ONNX](' + text_of(op) + ').' if text_of(op) else ''}\n"
        if newest is not None:
            yield from signature(newest)
    yield "## Definition\n"
    yield from definition(op)
    yield from history(op)
    yield from targets(op)


def signature(schema: schemas.Schema) -> Iterator[str]:
    """What a call of the newest version holds."""
    options = {"Optional": "?", "Variadic": "…"}
    for title, formals in (("Inputs", schema.inputs), ("Outputs", schema.outputs)):
        if formals:
            yield f"{title}: {', '.join(f'`{p.name}{options.get(p.option, str())}`' for p in formals)}.\n"
    if schema.attributes:
        yield f"Attributes: {', '.join(f'`{name}`' for name in schema.attributes)}.\n"


def definition(op: Op) -> Iterator[str]:
    """What takes the operator's place, and how to ask for it."""
    domain, name = op
    why = definitions.refused_operators().get(op)
    held = [] if why else list(definitions.of(domain, name))
    if not held:
        yield f"None{': ' + why if why else ''}.\n"
        return
    for found in held:
        path, _, function = found.code.partition(": ")
        written = f"at opset {found.opset}" if found.opset else "at the opset of the node"
        yield f"> {found.formula.replace('*', chr(92) + '*').replace('|', '&#124;')}\n"
        yield f"*{found.grade}*, written {written}, in [`{function}`]({GITHUB}/{path}); {judged(op)}{found.source}.\n"
    if lowest(op):
        yield f"Reaches down to opset {lowest(op)}.\n"
    asked = name if domain in ("", schemas.ONNXRUNTIME) else f"{domain}::{name}"
    yield f"```console\n$ opshift inline in.onnx out.onnx --op {asked}\n```\n"
    folds = definitions.folds(*op)
    if folds != "no":
        yield "Where it is written out, " + (
            "it is found again:\n" if folds == "yes" else "it is found again when it is asked for by name:\n"
        )
        yield f"```console\n$ opshift fold in.onnx out.onnx{'' if folds == 'yes' else f' --op {asked}'}\n```\n"


def history(op: Op) -> Iterator[str]:
    """Each version, newest first, and what both directions do at it."""
    held = [] if op[0] in schemas.VENDORS else ledger.history("::".join(op) if op[0] else f"ai.onnx::{op[1]}").rows
    if held:
        yield "## History\n"
    for row in reversed(held):
        yield f"### {row.newer}, from {row.older}\n" if row.older else f"### {row.newer}, its first\n"
        for way, story in (("Up", row.up), ("Down", row.down)):
            if story is None:
                continue
            told = f"*{story.grade}*: {plain(story.what)}." if story.what else "refused."
            yield f"**{way}** {told}\n"
            reasons = list(dict.fromkeys(story.refused))
            if reasons:
                items = "".join(f"<li>{escape(why)}</li>" for why in reasons)
                yield f"<details><summary>refused where … ({len(reasons)})</summary><ul>{items}</ul></details>\n"


def targets(op: Op) -> Iterator[str]:
    """Which targets lack the operator, or some of its versions, and which do not run each call of it."""
    for title, tell in (("Targets that lack it", lack), ("Targets that run some calls of it", limits)):
        told: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for backend in target_files.targets().values():
            base, _, version = backend.name.rpartition("-")
            if what := tell(backend, op):
                told[what][base].append(version)
        if told:
            yield f"## {title}\n"
        for what in sorted(told):
            named = "; ".join(f"{base} {', '.join(versions)}" for base, versions in told[what].items())
            yield f"- **{named}**: {what}"
        yield ""


def lack(backend: Backend, op: Op) -> str:
    """Whether a backend has not got an operator, in words; empty if it has all versions that its opset holds."""
    known = schemas.versions(*op) or (1,)
    newest = backend.opset if not op[0] else backend.ml_opset if op[0] == "ai.onnx.ml" else 0
    read = [version for version in known if not newest or version <= newest]
    if not read:
        return f"older than the operator, which came with opset {known[0]}"
    held = [version for version in read if backend.has(*op, version)]
    if not held:
        return "lacked"
    return f"lacked from version {min(set(read) - set(held))} on" if held != read else ""


def limits(backend: Backend, op: Op) -> str:
    """What a backend that has an operator says of the calls that it runs; empty if it says nothing."""
    told = [] if lack(backend, op) else [limit.why for limit in backend.limits if op in limit.ops]
    return "; ".join(dict.fromkeys(quoted(why) for why in told if why))


def reach(op: Op) -> str:
    """The lowest opset that it comes down to, in a word."""
    known = schemas.versions(*op)
    low = lowest(op)
    return low or (str(known[0]) if known and op[0] not in schemas.VENDORS else "")


def defined(op: Op) -> str:
    """The grade of its definition, or a dash."""
    if op in definitions.refused_operators():
        return "–"
    return ", ".join(dict.fromkeys(found.grade for found in definitions.of(*op))) or "–"


@cache
def _lowest() -> dict[str, str]:
    return {cells[0]: cells[3] for cells in inserted.rows("definitions.md") if len(cells) == 8}


def lowest(op: Op) -> str:
    """The lowest opset of the definition, as it stands in the table; "" where it has none."""
    told = _lowest().get("::".join(filter(None, op)), "")
    return "" if told == "None" else told


def family_of(op: Op) -> str:
    """The family of an operator."""
    schema = schemas.schema(*op, max(schemas.versions(*op), default=1))
    return schema.family if schema else ""


def judged(op: Op) -> str:
    """By what the definition is judged, as words before the source."""
    return "judged by " if op[0] in schemas.VENDORS else "after "


def text_of(op: Op) -> str:
    """Where ONNX says what the operator does."""
    if op[0] not in ("", "ai.onnx.ml", definable.TRAINING):
        return ""
    prefix = "onnx" if not op[0] else op[0].replace(".", "").replace("aionnx", "onnx_aionnx")
    return f"https://onnx.ai/onnx/operators/{prefix}__{op[1]}.html" if not op[0] else "https://onnx.ai/onnx/operators/"


def quoted(text: str) -> str:
    """The same, with what stands in backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return plain(text)
    return "".join(f"`{part}`" if index % 2 else plain(part) for index, part in enumerate(parts))


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\*_`[]<>" else c for c in text)
