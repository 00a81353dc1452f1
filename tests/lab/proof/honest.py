"""Conversions by the command line, whose results are right: neither their own proof nor `verify` may call them different."""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import onnx
from onnx import ModelProto

from tests.lab.proof import forms, made, signals, trained
from tests.lab.proof.running import Row, run, verify

COMMANDS: dict[str, tuple[str, ...]] = {
    "to opset 13": ("convert", "--opset", "13"),
    "to opset 11": ("convert", "--opset", "11"),
    "to opset 23, optimized": ("convert", "--opset", "23", "--optimize"),
    "modernized": ("convert", "--opset", "23", "--modernize", "--optimize"),
    "portable": ("inline", "--portable"),
    "QOperator": ("convert", "--quantization", "qoperator"),
    "QDQ": ("convert", "--quantization", "qdq"),
}
OF_FLOATS = ("to opset 13", "to opset 11", "to opset 23, optimized", "modernized")

Case = Callable[[], list[Row]]


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """All of the small corpora and trained files, and as many conversions of exported models as asked for."""
    for kind, sources in (
        ("signals", _signals()),
        ("quantized", _quantized()),
        ("fused", ((name, model, "portable") for name, model in made.fused_bert())),
        ("fixed", _fixed()),
        ("exported", _exported(options)),
    ):
        if options.kind in ("", kind):
            for name, model, command in sources:
                if options.only in f"{name} {command}":
                    yield lambda kind=kind, name=name, model=model, command=command: _of_model(
                        kind, name, model, command, options
                    )
    if options.kind in ("", "trained") and (options.kind or options.models):
        for name, path in trained.find(options.models):
            for command in (*OF_FLOATS, "portable"):
                if options.only in f"{name} {command}" and path.stat().st_size <= options.largest * 1e6:
                    yield lambda name=name, path=path, command=command: _judge("trained", name, path, command, options)


def _signals() -> Iterator[tuple[str, ModelProto, str]]:
    for name, model in signals.models():
        yield name, model, "to opset 13"


def _quantized() -> Iterator[tuple[str, ModelProto, str]]:
    for number, (name, model) in enumerate(made.quantized_exports()):
        yield name, model, "QOperator" if name.endswith("QDQ") else "QDQ"
        yield name, model, OF_FLOATS[number % len(OF_FLOATS)]


def _fixed() -> Iterator[tuple[str, ModelProto, str]]:
    """One export of each dynamic family, with the sizes of its sample inputs."""
    families = set()
    for source in forms.exported():
        family, _, _ = source.name.rpartition("/")
        if family.endswith(".dynamic") and family not in families:
            families.add(family)
            sizes = " ".join(
                f"--fix-shape {name}:{','.join(map(str, value.shape))}" for name, value in source.inputs.items()
            )
            yield source.name, source.model, f"optimize {sizes}"


def _exported(options: argparse.Namespace) -> Iterator[tuple[str, ModelProto, str]]:
    pairs = [(source, command) for source in forms.exported() for command in OF_FLOATS]
    for source, command in random.Random(options.seed).sample(pairs, min(options.count, len(pairs))):
        yield source.name, source.model, command


def _of_model(kind: str, name: str, model: ModelProto, command: str, options: argparse.Namespace) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "source.onnx"
        onnx.save(model, path)
        return _judge(kind, name, path, command, options)


def _judge(kind: str, name: str, path: Path, command: str, options: argparse.Namespace) -> list[Row]:
    """The conversion, and what `verify` says of its result. A refusal is right, and what is taken back is not."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.onnx"
        verb, *rest = COMMANDS.get(command) or command.split()
        proof = run([verb, path, result, *rest], limit=options.limit)
        if proof.status == "unverified":
            proof = replace(proof, status="refused")
        taken_back = [line.strip() for line in proof.said.splitlines() if "taken back" in line.lower()]
        right = proof.status in ("equal", "refused") and not taken_back
        last = (taken_back or proof.said.splitlines() or [""])[-1 if not taken_back else 0]
        rows = [
            Row(
                kind,
                f"{name} {command}",
                proof,
                right,
                "" if proof.status == "equal" and not taken_back else last[:200],
            )
        ]
        if proof.status == "equal":
            answer = verify(path, result, () if options.plain else ("--close",), options.limit)
            said = "" if answer.status == "equal" else " ".join(answer.said.split())[:200]
            rows.append(Row(f"{kind}, verified", f"{name} {command}", answer, answer.status == "equal", said))
    return rows
