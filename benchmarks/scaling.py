"""`python -m benchmarks scaling [--nodes N ...] [--runs N]`: what one more node costs, from small graphs to large ones.

Whole processes, and nothing but opshift; `--nodes 1000 10000 100000 1000000` goes on to a million.
`python -m benchmarks scaling --steps [--op NAME ...]` repeats the nodes of each frozen case and converts them to the
ends of what the case reaches, in this process: what four times as many nodes cost, where it is more than `MOST` times.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import process_time

from onnx import ModelProto
from opshift.passes.conversion import convert

from benchmarks import models
from benchmarks.conversions import CONVERT, once

OURS = "opshift convert --no-verify"
SHAPES = {
    "a chain": models.reduce_chain,
    "a weight for each node": models.weights,
    "20 Ifs in each other": models.nested,
    "20 Loops in each other": models.loops,
}
Shapes = Mapping[str, Callable[[int], ModelProto]]
MOST = 5.0  # times as long for four times as many nodes
LEAST = 250  # calls, fewer of which are over before it can be told what they cost

HEAD = """## What one more node costs

Whole processes as above. What those nodes cost that a graph has more than the one in the row above: the same in every
row, if time and memory grow with the nodes alone. `python -m benchmarks scaling` writes this table anew.

| model, 13 -> 18 | nodes | seconds | MB | us a node | bytes a node |
|---|---|---|---|---|---|"""


def measure(
    nodes: Sequence[int], runs: int, limit: int, shapes: Shapes = SHAPES, command: Sequence[str] = tuple(CONVERT[OURS])
) -> Iterator[str]:
    """Rows of the table in Markdown; the best of the runs, behind one that does not count."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, make in shapes.items():
            before: tuple[int, float, float] | None = None
            for count in sorted(nodes):
                arguments = [*command, str(models.write(folder / "in.onnx", make(count))), str(folder / "out.onnx")]
                found = [once(arguments, folder, limit) for _ in range(runs + 1)][1:]
                if None in found:
                    yield f"| {title} | {count:,} | more than {limit} | | | |"
                    break
                seconds, megabytes = (min(held) for held in zip(*filter(None, found), strict=True))
                more = ""
                if before is not None:
                    added = count - before[0]
                    more = f"{(seconds - before[1]) / added * 1e6:.2f} | {(megabytes - before[2]) / added * 1e6:.0f}"
                yield f"| {title} | {count:,} | {seconds:.2f} | {megabytes:.0f} | {more or ' | '} |"
                before = count, seconds, megabytes


def steps(ops: Sequence[str]) -> Iterator[str]:
    """A line for each frozen case of which four times as many nodes take more than `MOST` times as long."""
    from tests.frozen import store

    reached = store.read_reach()
    for opset in store.frozen_opsets():
        for case in store.read(opset):
            if ops and not {node.op_type for node in case.model.graph.node} & set(ops):
                continue
            few, many = (repeated(case.model, LEAST * times) for times in (1, 4))
            for target in sorted({min(reached[opset][case.name]), max(reached[opset][case.name])} - {opset}):
                if not convert.convert(case.model, {"": target}).changes:
                    continue
                ratio = _seconds(many, target) / _seconds(few, target)
                if ratio > MOST:  # once more, and the best of three: others work on this machine, too
                    ratio = min(_seconds(many, target) for _ in range(3)) / min(_seconds(few, target) for _ in range(3))
                if ratio > MOST:
                    yield f"{case.name} {opset} -> {target}: {ratio:.1f}"


def repeated(of: ModelProto, times: int) -> ModelProto:
    """The nodes of a model so many times over, all reading the same inputs."""
    made = ModelProto()
    made.CopyFrom(of)
    own = {name for node in of.graph.node for name in node.output if name}
    for copy in range(1, times):
        for node in of.graph.node:
            added = made.graph.node.add()
            added.CopyFrom(node)
            added.input[:] = [f"{name}/{copy}" if name in own else name for name in node.input]
            added.output[:] = [f"{name}/{copy}" if name else "" for name in node.output]
        for value in of.graph.output:
            output = made.graph.output.add()
            output.CopyFrom(value)
            output.name += f"/{copy}"
    return made


def _seconds(source: ModelProto, target: int) -> float:
    started = process_time()
    convert.convert_model(source, {"": target})
    return process_time() - started
