"""The result of a verification, and the lines that reports show of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from opshift.passes.records import dataclass, replace

EQUAL, DIFFERENT, UNVERIFIED = "equal", "different", "unverified"
UNCOVERED = "not covered"


@dataclass(frozen=True)
class OutputReport:
    """How close an output of both models is, at its worst element.

    Attributes:
        output: its name.
        difference: how far apart the two are.
        allowed: how far apart they may be.
        is_same: whether they were the same in all runs, bit for bit.
        is_random: whether only types and shapes were compared, as the first model's output is random.
        by_user: whether the user gave the tolerance.
        part: the share of elements that are wrong.
        why: what is wrong; empty if nothing is.
    """

    output: str
    difference: float = 0.0
    allowed: float = 0.0
    is_same: bool = True
    is_random: bool = False
    by_user: bool = False
    part: float = 0.0
    why: str = ""
    counted: bool = False

    @property
    def share(self) -> float:
        """How much of the allowance is used."""
        return self.difference / self.allowed if self.allowed else float(self.difference > 0)

    def worse(self, other: OutputReport) -> OutputReport:
        """Return the wrong one of two reports, or the one closer to its bound."""
        worst = self if self.why or (self.share >= other.share and not other.why) else other
        is_same, is_random = self.is_same and other.is_same, self.is_random or other.is_random
        return replace(worst, is_same=is_same, is_random=is_random, part=max(self.part, other.part))


@dataclass(frozen=True)
class Finding:
    """The result for one kind of region.

    Attributes:
        before, after: the operators in both models, such as `LayerNormalization`.
        values: the values that one place of the kind computes.
        nodes: the nodes of the first model there, by name or first output.
        made: the nodes of the second model there.
        places: how many places are of this kind.
        status: `equal`, `different`, or `not covered`.
        runs: on how many sets of inputs both sides ran, captured and drawn.
        captured: whether values captured in runs of the model were among these.
        difference, allowed: the difference at the element that is nearest to its bound, and the bound.
        is_same: whether all results were the same, bit for bit.
        label: the inputs on which they differ.
        why: what differs, or why nothing was run.
        engines: the engines that ran them.
        is_reached: False if it lies in a branch of an If, which a run may skip.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    values: tuple[str, ...]
    nodes: tuple[str, ...]
    made: tuple[str, ...]
    places: int = 1
    status: str = EQUAL
    runs: int = 0
    captured: bool = False
    difference: float = 0.0
    allowed: float = 0.0
    is_same: bool = True
    label: str = ""
    why: str = ""
    engines: str = ""
    is_reached: bool = True


@dataclass(frozen=True)
class Verification:
    """The result for two models.

    Attributes:
        status: `equal`, `different`, or `unverified` where a changed part could not be run.
        is_same: whether all that was compared was the same, bit for bit.
        engine: what ran the whole models, such as `onnxruntime`; empty where nothing did.
        runs: on how many sets of inputs the whole models ran.
        absolute, relative: the largest difference of any output, and the largest as a part of the value.
        inputs: the shape of each input, run by run; of a single integer, its value.
        outputs: how near each output is.
        regions: the result for each kind of changed part.
        tensor: the first value that differs.
        why: what differs there, or why nothing could be run.
        node, op: the node that computes it in the second model.
        parts: the nodes of the first model that compute it, by name or first output.
        blamed: the nodes of all parts that differ.
        weights: the constants that these read, which have the same name in both models, but other values.
        cast: inputs and outputs of another precision in one of the models, which were cast.
        repro: the folder with the smallest models that differ.
        remarks: notes that do not change the status, and what was not covered.
    """

    status: str
    is_same: bool = False
    engine: str = ""
    runs: int = 0
    absolute: float = 0.0
    relative: float = 0.0
    inputs: tuple[Mapping[str, Any], ...] = ()
    outputs: tuple[OutputReport, ...] = ()
    regions: tuple[Finding, ...] = ()
    tensor: str = ""
    why: str = ""
    node: str = ""
    op: str = ""
    parts: tuple[str, ...] = ()
    blamed: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    cast: tuple[str, ...] = ()
    repro: str = ""
    remarks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        return "\n".join(summary(self))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return table(self)

    @property
    def equal(self) -> bool:
        return self.status == EQUAL

    @property
    def drawn(self) -> tuple[str, ...]:
        """Random outputs, compared only by type and shape."""
        return tuple(output.output for output in self.outputs if output.is_random)

    @property
    def worst(self) -> OutputReport | None:
        """The output closest to its bound; None if no output moved."""
        return max((o for o in self.outputs if o.difference), key=lambda output: output.share, default=None)


# --- what is said of it -------------------------------------------------------------------------------------


def text(name: str | bytes) -> str:
    """Return a name as a string: protobuf returns bytes for one that is not UTF-8."""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def several(count: int, noun: str) -> str:
    """Write a number and a noun: `1 run`, `3 runs`."""
    return f"{count} {noun}{'s' if count != 1 else ''}"


_SHOWN = 8  # inputs of a run


def verdict(found: Verification) -> str:
    """Write the first line of a proof: whether the models are equal, and where they differ if not."""
    if found.status == "unverified":
        return f"not proved: {found.why}"
    if found.equal and not found.engine:
        return f"every changed part is equal; outputs were not compared{f' ({found.why})' if found.why else ''}"
    if found.equal:
        return f"equal: {'the same values' if found.is_same else 'the same function, other rounding'}"
    place = f' at "{shorten(found.tensor)}"' if found.tensor else ""
    named = f" {shorten(found.node)!r}" if found.node != found.tensor else ""
    maker = f", made by {found.op}{named}" if found.node else ""
    said = [f"other weights: {', '.join(found.weights)}"] if found.weights else []
    said += [f"the smallest models that differ are in {found.repro}"] if found.repro else []
    return "; ".join([f"DIFFERENT{place}{maker}: {found.why}", *said])


_LONG = 80
"""Letters of a name; exporters join the names of all that they fused."""


def shorten(name: str) -> str:
    """Cut the middle out of a long name. JSON and reports hold the whole one."""
    return name if len(name) <= _LONG else f"{name[: _LONG // 2]}...{name[-_LONG // 2 :]}"


def list_measurements(found: Verification) -> list[str]:
    """Write the other lines of a proof: largest difference, inputs, remarks. Printed by every command that proves."""
    lines = []
    worst, is_inside = found.worst, found.status == DIFFERENT and bool(found.node)
    if worst is not None and not found.is_same:
        whose = f' (output "{shorten(worst.output)}")' if len(found.outputs) > 1 else ""
        agree = (
            "the outputs of the whole models agree: "
            if is_inside and not any(output.why for output in found.outputs)
            else ""
        )
        lengths = (9,) if worst.counted else (1, 2, 9)
        digits = next(d for d in lengths if d > 8 or f"{worst.difference:.{d}g}" != f"{worst.allowed:.{d}g}")
        apart, allowed = (f"{number:.{digits}g}" for number in (worst.difference, worst.allowed))
        said = "elements that differ:" if worst.counted else "largest difference"
        lines.append(f"{agree}{said} {apart}, allowed {allowed}{whose}")
    elif is_inside and found.engine and all(output.is_same for output in found.outputs):
        lines.append("the outputs of the whole models are the same")
    elif is_inside and not found.engine:
        lines.append("the outputs of the whole models were not compared")
    elif found.equal and found.regions:
        worst_region = max(found.regions, key=lambda region: region.difference)
        if worst_region.difference:
            said = f"{worst_region.difference:.1g}, allowed {worst_region.allowed:.1g}"
            same = "the outputs of the whole models are the same: " if found.engine else ""
            lines.append(f"{same}largest difference of a changed part {said}")
    if found.inputs:
        shown = Counter(_shapes(run) for run in found.inputs)
        told = [
            f"{one} ({count} times)" if count > 1 and len(shown) > 1 else one for one, count in shown.items() if one
        ]
        lines.append(f"tested on {several(len(found.inputs), 'input')}: {'; '.join(told)}".rstrip(": "))
    if found.drawn:
        lines.append(f"random outputs, compared by type and shape: {', '.join(found.drawn)}")
    if found.cast:
        lines.append(f"compared in the narrower type: {', '.join(found.cast)}")
    return [*lines, *(f"remark: {remark}" for remark in found.remarks)]


def _shapes(run: Mapping[str, Any]) -> str:
    """Write the inputs of a run: `x 1x3x64x64, length 7`."""
    shown = [f"{text(name)} {_sizes(shape)}" for name, shape in list(run.items())[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(run) - _SHOWN} more" if len(run) > _SHOWN else "")


def _sizes(held: Any) -> str:
    """Write a shape, the shapes of a sequence, or a single number. Part of the line of inputs."""
    if isinstance(held, int):
        return f"= {held}"
    if any(isinstance(size, list) for size in held):
        return f"[{', '.join(map(_sizes, held))}]"
    return "x".join(map(str, held)) or "scalar"


_LINES = 5  # of what is printed


def summary(found: Verification) -> list[str]:
    """Write the verdict and the measurements, in at most five lines. Shown by `print(verification)`."""
    lines = [verdict(found), *list_measurements(found)]
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"and {len(lines) - _LINES + 1} more remarks"]


def table(found: Verification) -> str:
    """Write the same as HTML, with a row for each output. Shown in notebooks."""
    head = "".join(f"<p>{escape(line)}</p>" for line in summary(found))
    rows = [
        (output.output, f"{output.difference:.2g}", f"{output.allowed:.2g}", output.why or "agrees")
        for output in found.outputs
    ]
    return head + (html_table(("output", "largest difference", "allowed", ""), rows) if rows else "")


def escape(shown: str) -> str:
    """Escape a text for HTML. Used for notebooks and HTML reports."""
    import html  # not wanted where nothing is shown so

    return html.escape(shown)


def html_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Write a table as HTML. Used for notebooks and HTML reports."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
