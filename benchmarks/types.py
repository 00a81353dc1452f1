"""`python -m benchmarks types [--models FOLDER] [--peer NAME=PYTHON ...] [--name REGEX] [--rows FILE] [--markdown]`.

Converters to half precision on the small hard models of `tests/types`, on exported models, and on the trained ones of a
folder (`NAME.onnx` beside `NAME.npz` with its inputs, which are drawn where there are none). Each contender runs in the
Python of its own environment. A result is right if onnx's checker with strict inference takes it, its nodes stand in
order, its interface is the source's, and its outputs, with every half value rounded, are within 2 % of float32; of a
small model, if no node is float32 that could be half; of others, if at least half of the weights or nodes are half.
With `--kind bfloat16`, models go to opset 22 first, the first one in which Conv and pooling take it.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

import opshift
from tests.exported import store
from tests.types import cases as _cases  # noqa: F401  adds them
from tests.types import judge, peers
from tests.types.case import CASES

KINDS = {"float16": ("fp16", judge.FLOAT16), "bfloat16": ("bf16", judge.BFLOAT16)}
IN_ORDER = "onnxruntime, its files put in order"
CONTENDERS = {
    IN_ORDER: "onnxruntime",
    "onnxruntime": "onnxruntime",
    "modelopt": "modelopt",
    "onnxconverter-common": "onnxconverter-common",
    "onnxsim": "onnxsim",
    peers.OURS: peers.OURS,
}
GROUPS = {"small": "small hard models", "exported": "exported models", "trained": "trained models"}
UNREASONED = "float32 without a reason"

# One export of each kind of model and exporter; the newest opset that all contenders read.
EXPORTED = (
    r"jax/(activations|attention|mlp|encoder.dynamic|image_norms|llama|norms)/jax2onnx_decomposed-21"
    r"|keras/(cnn|decoder|encoder|norms|recurrent)/tf2onnx-18|paddle/(cnn|encoder|norms)/paddle2onnx-17"
    r"|tensorflow/(activations|encoder.dynamic|image_norms|loop|norms)/tf2onnx-17"
    r"|torch/(attention_bool_mask|attention_causal|decoder.dynamic|encoder_by_hand|gru|instance_norm|llama_by_hand"
    r"|lstm|mobilenet|norms|resnet|shapes)/torchscript-18|torch/(group_norm|embedding)/dynamo-20"
    r"|transformers/(bert.sdpa.dynamic|gpt2.sdpa|llama.sdpa|qwen3.sdpa|t5.eager|vit.sdpa|whisper.eager)/dynamo-18"
    r"|transformers/(bert.eager|gpt2.eager|llama.eager.dynamic)/torchscript-13"
)


@dataclass(frozen=True)
class Subject:
    """A model, inputs, and the group that it is counted with."""

    group: str
    name: str
    model: ModelProto
    feeds: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Row:
    """The result of one converter for one model: `wrong` is empty if it is right, `error` says why there is none."""

    group: str
    model: str
    contender: str
    wrong: tuple[str, ...]
    casts: int
    difference: float
    weights: float
    nodes: float
    seconds: float

    @property
    def kind(self) -> str:
        """In which column the row is counted."""
        if not self.wrong:
            return "right"
        first = self.wrong[0]
        if first.startswith("no result"):
            return "no result"
        if first.startswith(("onnx.checker", "not in order", "does not load", "cannot be read", "does not run")):
            return "not valid"
        if any(" differs by " in one for one in self.wrong):
            return "other values"
        return "float32 only" if all(one.startswith(UNREASONED) for one in self.wrong) else "not valid"


def subjects(folder: Path | None, name: str) -> Iterator[Subject]:
    """List the models whose names match a regular expression."""
    for case in CASES.values():
        if re.search(name, case.name):
            yield Subject("small", case.name, case.model, case.feeds)
    for framework in store.frameworks():
        for export in store.read(framework):
            if re.fullmatch(EXPORTED, export.name) and re.search(name, export.name):
                yield Subject("exported", export.name, export.model, (export.feeds,))
    for path in sorted(folder.glob("*.onnx")) if folder else ():
        if re.search(name, path.stem):
            model = onnx.load(path)
            yield Subject("trained", path.stem, model, (_inputs(path, model),))


def _inputs(path: Path, model: ModelProto) -> Mapping[str, Any]:
    """Read the inputs beside a model; without any, draw them, however long that takes."""
    stored = path.with_suffix(".npz")
    if stored.exists():
        with np.load(stored) as held:
            return dict(held)
    from opshift.verification.feeding import inputs as feeding
    from opshift.verification.feeding.asked import DRAWN
    from opshift.verification.side import Side

    side = Side(model, str(path.parent))
    return next(iter(feeding.running(side, side.open().run, replace(DRAWN, seed=11)))).given


def measure(
    chosen: Sequence[Subject],
    pythons: Mapping[str, str],
    kind: str,
    rows: Path | None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Row]:
    """A row for each model and contender that has a Python; those in the file are not measured again."""
    stored = json.loads(rows.read_text()) if rows and rows.exists() else []
    found = [Row(**{**row, "wrong": tuple(row["wrong"])}) for row in stored]
    done = {(row.contender, row.model) for row in found}
    bfloat16 = KINDS[kind][1] == judge.BFLOAT16
    able = [one for one, peer in CONTENDERS.items() if peer in pythons and not (bfloat16 and peer in peers.NARROW_ONLY)]
    for place, contender in enumerate(able):
        left = {one.name: one for one in chosen if (contender, one.name) not in done}
        peer = CONTENDERS[contender]
        models = {name: _at_opset_22(one.model) if bfloat16 else one.model for name, one in left.items()}
        for name, made in peers.convert(peer, models, pythons[peer], KINDS[kind][0]):
            if progress is not None:
                progress(f"{contender}: {name}", place, len(able))
            found.append(_row(left[name], contender, made, KINDS[kind][1]))
            if rows:
                rows.write_text(json.dumps([asdict(row) for row in found], indent=0))
    return found


def _at_opset_22(model: ModelProto) -> ModelProto:
    if model.opset_import[0].version >= 22:
        return model
    try:
        return opshift.convert_version(model, 22)
    except opshift.InvalidModel:  # its nodes stand in no order
        return model


def _row(subject: Subject, contender: str, made: peers.Converted, wanted: int) -> Row:
    where = subject.group, subject.name, contender
    if made.model is None:
        return Row(*where, (f"no result: {made.error}",), 0, 0, 0, 0, made.seconds)
    model = judge.sort(made.model) if contender == IN_ORDER else made.model
    if subject.group == "small":
        found = judge.judge(CASES[subject.name], model, wanted)
    else:
        found = judge.judge_model(subject.model, model, subject.feeds, wanted)
    try:
        weights, nodes = judge.shares(model, wanted)
    except Exception:  # of a model that is not valid
        weights = nodes = 0.0
    wrong = found.wrong
    if subject.group != "small" and max(weights, nodes) < 0.5:
        wrong = (*wrong, f"{UNREASONED}: {1 - weights:.0%} of the weights, {1 - nodes:.0%} of the nodes")
    return Row(*where, wrong, found.casts, found.error, weights, nodes, made.seconds)


def as_markdown(rows: Sequence[Row]) -> str:
    """A section of docs/benchmarks.md: a table for each group."""
    lines = [*HEAD.splitlines(), ""]
    for group, title in GROUPS.items():
        here = [row for row in rows if row.group == group]
        if here:
            count = len({row.model for row in here})
            lines += [f"### {count} {title}", "", *_table(here), ""]
    return "\n".join(lines)


HEAD = """\
Right: valid under `onnx.checker` with strict inference, nodes in order, the interface kept, and outputs within 2 % of
float32 when every half value is rounded; of small models, no node float32 that could be half; of others, half of the
weights or nodes half. Casts and nodes are of the models that both opshift and onnxruntime do rightly. Seconds are
medians without imports, of opshift without its proof. `python -m benchmarks types --markdown` writes this anew."""
COLUMNS = ("right", "float32 only", "other values", "not valid", "no result")


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield f"| contender | {' | '.join(COLUMNS)} | casts | nodes in half | seconds |"
    yield "|---|" + "---|" * (len(COLUMNS) + 3)
    by_contender: dict[str, list[Row]] = {}
    for row in rows:
        by_contender.setdefault(row.contender, []).append(row)
    right = [{row.model for row in by_contender.get(name, []) if not row.wrong} for name in (IN_ORDER, peers.OURS)]
    both = set.intersection(*[one for one in right if one]) if any(right) else set()
    for contender, own in by_contender.items():
        counts = [sum(row.kind == column for row in own) for column in COLUMNS]
        shared = [row for row in own if row.model in both and not row.wrong]
        casts = (
            str(sum(row.casts for row in shared))
            if len(shared) == len(both)
            else f"{sum(row.casts for row in shared)} on {len(shared)}"
        )
        half = f"{statistics.fmean(row.nodes for row in shared):.0%}" if shared else ""
        seconds = [row.seconds for row in own if row.kind != "no result"]
        spent = f"{statistics.median(seconds):.3f}" if seconds else ""
        yield f"| {contender} | {' | '.join(map(str, counts))} | {casts} | {half} | {spent} |"


def pythons_of(given: Sequence[str]) -> dict[str, str]:
    """The Python of each peer, of NAME=PYTHON; opshift runs in this one."""
    return {peers.OURS: sys.executable, **dict(one.split("=", 1) for one in given)}
