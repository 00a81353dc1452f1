"""Time tree models without ai.onnx.ml against onnxruntime's kernels: `python -m benchmarks.trees [FILE.onnx ...]`.

Without files: the tree models of `tests/classical`, and ensembles of random trees in the sizes that people train.
Where Hummingbird is installed (`pip install hummingbird-ml onnxscript`, torch), what it makes of them stands beside.
`--constants` measures what the cost model of `passes/operators/shared/classical/traversal.py` is made of.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper
from opshift.passes.goals import Goal

from benchmarks.latency import ON, latencies
from tests.classical import store
from tests.passes.operators.shared.classical.ensembles import listed, model, random_tree

TREES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
MANY = 2000
HEAD = """
| model | trees | nodes | 1 row: kernel, tables | times | 2,000 rows: kernel, tables | times | size | Hummingbird |
|---|---|---|---|---|---|---|---|---|""".strip()
BESIDE = importlib.util.find_spec("hummingbird") is not None


def models(files: list[Path]) -> Iterator[tuple[str, ModelProto, Mapping[str, np.ndarray]]]:
    """The models, with rows to draw others from."""
    for file in files:
        held = onnx.load(file)
        width = held.graph.input[0].type.tensor_type.shape.dim[-1].dim_value
        yield (
            file.stem,
            held,
            {held.graph.input[0].name: np.random.default_rng(0).normal(size=(40, width)).astype(np.float32)},
        )
    if files:
        return
    for name, held, feeds in store.every():
        if any(node.op_type in TREES for node in held.graph.node) and len(feeds) == 1:
            yield name, held, feeds
    for trees, depth in ((100, 3), (100, 6), (100, 10), (500, 6), (1000, 4), (10, 16)):
        yield f"random {trees} x {depth}", random(trees, depth), {"x": np.zeros((1, 20), np.float32)}


def random(trees: int, depth: int) -> ModelProto:
    """A regressor of random trees."""
    rng = np.random.default_rng(0)
    grown = [
        random_tree(rng, 20, depth, lambda: [(0, float(rng.normal()))], ["BRANCH_LEQ"], lambda: float(rng.normal()))
        for _ in range(trees)
    ]
    return model("TreeEnsembleRegressor", np.float32, 20, {"n_targets": 1, **listed(grown, "target")}, 3)


def measured(files: list[Path], runs: int) -> Iterator[str]:
    """A line for each model, and the medians."""
    ratios: list[tuple[float, float]] = []
    for name, held, feeds in models(files):
        goal = Goal(portable=True, zipmap=True)
        source, made = goal.with_ends(held), goal.run(held).model
        assert made is not None, name
        (given, x), rng, seconds = next(iter(feeds.items())), np.random.default_rng(1), []
        for count in (1, MANY):
            rows = np.concatenate([x] * (count // len(x) + 1))[:count]
            if x.dtype.kind == "f":
                rows = (rows + rng.normal(size=rows.shape)).astype(x.dtype)
            seconds.append(list(latencies([source, made], {given: rows}, ON, runs * 10 if count == 1 else runs)))
        ratios.append((seconds[0][1] / seconds[0][0], seconds[1][1] / seconds[1][0]))
        beside = by_hummingbird(held, source, x, runs) if BESIDE else ""
        cells = [f"{a * 1e6:.0f}, {b * 1e6:.0f} us" for a, b in seconds]
        trees = sum(len(set(a.ints)) for node in source.graph.node for a in node.attribute if a.name == "nodes_treeids")
        size = made.ByteSize() / source.ByteSize()
        yield (
            f"| {name} | {trees} | {len(made.graph.node)} | {cells[0]} | {ratios[-1][0]:.1f} "
            f"| {cells[1]} | {ratios[-1][1]:.1f} | {size:.2f} | {beside} |"
        )
    one, many = (statistics.median(column) for column in zip(*ratios, strict=True))
    yield f"\nmedian of {len(ratios)} models: {one:.1f} times the kernel at 1 row, {many:.1f} times at {MANY} rows"


def by_hummingbird(held: ModelProto, source: ModelProto, x: np.ndarray, runs: int) -> str:
    """Convert a model by Hummingbird: its nodes, its time against the kernel's at 1 row and many, or the error."""
    import hummingbird.ml
    import torch.onnx

    torch.onnx.export, export = functools.partial(torch.onnx.export, dynamo=False), torch.onnx.export
    try:
        made = hummingbird.ml.convert(held, "onnx", x).model
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:60] if str(error).strip() else ''}"
    finally:
        torch.onnx.export = export
    given, own, times = made.graph.input[0].name, source.graph.input[0].name, []
    for count in (1, MANY):
        rows, often = np.concatenate([x] * (count // len(x) + 1))[:count], runs * 10 if count == 1 else runs
        try:
            (kernel,), (theirs,) = (
                latencies([model], {name: rows}, ON, often) for model, name in ((source, own), (made, given))
            )
        except Exception as error:
            return f"{len(made.graph.node)} nodes, fails at {count} rows: {str(error).splitlines()[0][:60]}"
        times.append(theirs / kernel)
    return f"{len(made.graph.node)} nodes, {times[0]:.1f}, {times[1]:.1f}"


def constants(runs: int) -> Iterator[str]:
    """Time the operators that look up tables: for each element, and for a node however small its input is."""
    rng, size = np.random.default_rng(0), 200_000
    places = rng.integers(0, 6400, size).astype(np.int32)
    numbers = rng.normal(size=size).astype(np.float32)
    nodes = {
        "GatherElements of a vector": (("GatherElements", {"axis": 0}, ["table", "places"]),),
        "Gather of a vector": (("Gather", {"axis": 0}, ["table", "places"]),),
        "Add of int32": (("Add", {}, ["places", "places"]),),
        "Less of float32": (("Less", {}, ["numbers", "numbers"]),),
        "Less and Cast to int32": (("Less", {}, ["numbers", "numbers"]), ("Cast", {"to": TensorProto.INT32}, ["Less"])),
    }
    for name, chain in nodes.items():
        seconds = [_chain(chain, places[:count], numbers[:count], runs) for count in (1, size)]
        yield f"{name}: {seconds[0] * 1e9:.0f} ns a node, {(seconds[1] - seconds[0]) / size * 1e9:.2f} ns an element"


def _chain(
    chain: tuple[tuple[str, dict[str, int], list[str]], ...], places: np.ndarray, numbers: np.ndarray, runs: int
) -> float:
    """Seconds of a chain of nodes: the difference of models that hold it ten times and once, a ninth of it."""
    table = np.random.default_rng(0).normal(size=6400).astype(np.float32)
    made = []
    for times in (1, 10):
        nodes = [
            helper.make_node(op, [f"{n}{turn}" if n == "Less" else n for n in inputs], [f"{op}{turn}"], **attributes)
            for turn in range(times)
            for op, attributes, inputs in chain
        ]
        inputs = [
            helper.make_tensor_value_info("places", TensorProto.INT32, ["N"]),
            helper.make_tensor_value_info("numbers", TensorProto.FLOAT, ["N"]),
        ]
        outputs = [helper.make_empty_tensor_value_info(node.output[0]) for node in nodes]
        graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(table, "table")])
        made.append(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    once, often = latencies(made, {"places": places, "numbers": numbers}, ON, runs * 5)
    return (often - once) / 9


def main() -> None:
    """Run what the command line asks for, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--constants", action="store_true")
    options = parser.parse_args()
    if not options.constants:
        print(HEAD)
    for line in constants(options.runs) if options.constants else measured(options.files, options.runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
