"""Networks of OpenVINO's own operators, drawn at random, and what becomes of them.

python -m tests.lab random-networks [seconds] [seed] [recipe]
"""

from __future__ import annotations

import pickle
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto
from opshift.passes.errors import Refused
from opshift.passes.openvino import reader

import opshift
from opshift.verification import isolation
from opshift.verification.adapters import literally
from opshift.verification.bounds import compare
from opshift.verification.engines import EngineError, OnnxRuntime
from tests import quirks
from tests.random import openvino_quirks
from tests.random.layers import RECIPES, Draw, Unfit
from tests.random.models import Source
from tests.random.steadiness import as_unsteady, rocked

CHUNK = 25
LIMIT = 60  # seconds for one network: some keep OpenVINO for good
FINE = ("undrawn", "agrees", "refused", "unread", "unrun")
OPSETS = (18, 13, 24)  # one of them beside the one that networks are read at


def networks(seed: int, only: str = "") -> Iterator[tuple[Any, list[Any]]]:
    """Networks of 1 to 20 layers without end, each with the values of its inputs; a seed always draws the same."""
    for number in count():
        if (drawn := network(seed, number, only)) is not None:
            yield drawn


def network(seed: int, number: int, only: str = "") -> tuple[Any, list[Any]] | None:
    """One of them, of a single layer where there is a recipe to follow; None where nothing fits together."""
    import openvino

    draw = Draw(np.random.default_rng([seed, number]))
    names = [only] if only else list(RECIPES)
    wanted = 1 if only else draw.one((1, 1, 1, 2, 3, 5, 8, 20))
    for _ in range(4 * wanted):
        if draw.layers < wanted:
            _add(draw, draw.one(names))
    if not draw.layers:
        return None
    ends = [value for value in draw.made if not value.get_target_inputs()] or draw.made[-1:]
    model = openvino.Model([openvino.opset13.result(end) for end in ends], draw.parameters, f"net{seed}_{number}")
    _forget_sizes(model, draw)
    return model, draw.feeds


def _add(draw: Draw, name: str) -> None:
    """One layer more, or none where the values that there are do not fit it."""
    held = len(draw.parameters), len(draw.made)
    try:
        made = RECIPES[name](draw)
    except (Unfit, RuntimeError, TypeError, ValueError):  # OpenVINO says so, too
        del draw.parameters[held[0] :], draw.feeds[held[0] :], draw.made[held[1] :]
        return
    draw.layers += 1
    draw.made += [made] if hasattr(made, "get_target_inputs") else list(made)


def _forget_sizes(model: Any, draw: Draw) -> None:
    """Some inputs may have other sizes than their values have."""
    import openvino

    for parameter in draw.parameters:
        kept = parameter.get_partial_shape()
        if draw.rng.random() < 0.35 and len(kept):
            dims = [-1 if draw.rng.random() < 0.6 else int(dim.get_length()) for dim in kept]
            try:
                parameter.set_partial_shape(openvino.PartialShape(dims))
                model.validate_nodes_and_infer_types()
            except RuntimeError:
                parameter.set_partial_shape(kept)
                model.validate_nodes_and_infer_types()


def judge(model: Any, feeds: Sequence[Any], other: int) -> tuple[str, str]:
    """What became of a network, and why: `agrees`, `refused`, `unread` where OpenVINO does not run it, or a finding."""
    import openvino

    with TemporaryDirectory() as folder:
        path = Path(folder, "net.xml")
        openvino.serialize(model, path)
        try:
            expected = _expected(model, path, feeds)
        except Exception as error:
            return "unread", " ".join(str(error).split())[-150:]
        try:
            first = reader.read(path).model
        except Refused as refused:
            return "refused", "\n".join(f"{refusal.op}: {refusal.why}" for refusal in refused.refusals)
        except Exception as error:
            return "raises", f"{type(error).__name__}: {error}"
        names = [value.name for value in first.graph.input]
        ran = False
        for opset in (ir_opset(), other):
            try:
                made = first if opset == ir_opset() else opshift.convert_version(str(path), opset)
            except Refused:
                continue
            except Exception as error:
                return "raises", f"opset {opset}: {type(error).__name__}: {error}"
            try:
                Path(folder, "net.onnx").write_bytes(made.SerializeToString())
                onnx.checker.check_model(Path(folder, "net.onnx"), full_check=True)
            except Exception as error:
                return "invalid", f"opset {opset}: {' '.join(str(error).split())[-300:]}"
            given, whole = dict(zip(names, feeds, strict=True)), onnx.load(Path(folder, "net.onnx"))
            try:
                actual = OnnxRuntime(made, folder=folder).run(given)
            except EngineError as error:
                if opset != ir_opset() or "NOT_IMPLEMENTED" in str(error):
                    continue
                if quirks.excuse(OnnxRuntime.engine, whole, given):
                    continue
                if _contradicts_itself(model, feeds):
                    return "unread", "what OpenVINO refuses where more is known of it"
                if excuse := openvino_quirks.excuse(model, feeds):
                    return "unread", excuse
                return "fails", f"opset {opset}: {error}"
            ran = True
            for place, (one, other) in enumerate(zip(expected, actual, strict=True)):
                one = one.astype(np.asarray(other).dtype) if one.dtype == np.float32 else one
                if (why := compare(one, other, "close").why) and not _is_noise(one, np.asarray(other)):
                    if _contradicts_itself(model, feeds, place, other):
                        return "unread", "something else than where more is known, or asked for"
                    if excuse := quirks.excuse(OnnxRuntime.engine, whole, given, why) or openvino_quirks.excuse(
                        model, feeds
                    ):
                        return "unread", excuse
                    if as_unsteady([np.asarray(other)], [one], *_moved(whole, given, place)):
                        return "unread", f"what a rounding of the inputs changes as much: {why}"
                    return "differs", f"opset {opset}, output {place}: {why}"
        return ("agrees", "") if ran else ("unrun", "")


def _expected(model: Any, path: Path, feeds: Sequence[Any]) -> list[Any]:
    """What OpenVINO computes of a network, which lies at a path; raises what it says of one that it does not run."""
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", literally())
    found = compiled(list(feeds))
    expected = [np.array(found[index]) for index in range(len(compiled.outputs))]
    if not all(map(_is_sane, expected)):
        raise ValueError("numbers from nowhere")
    for value, output in zip(expected, model.outputs, strict=True):
        if not output.get_partial_shape().compatible(openvino.PartialShape(list(value.shape))):
            raise ValueError(f"a shape {value.shape} that it does not state")
    return expected


def _is_noise(one: Any, other: Any) -> bool:
    """Whether numbers are apart by less than what is left where halves and thirds cancel each other out."""
    same = one.dtype == other.dtype and one.shape == other.shape and one.dtype.kind == "f"
    return same and np.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)


def _contradicts_itself(model: Any, feeds: Sequence[Any], place: int | None = None, actual: Any = None) -> bool:
    """Whether OpenVINO takes a network for none, or computes `actual`, where the sizes of its inputs are fixed, those of
    whole numbers are constants, or each value on the way is asked for."""
    import openvino

    for otherwise in (_with_fixed_sizes, _with_constants, _with_all_values):
        made = model.clone()
        try:
            left = otherwise(made, feeds)
        except RuntimeError:
            return True
        if left is None or place is None:
            continue
        try:
            found = openvino.Core().compile_model(made, "CPU", literally())(left)
        except RuntimeError:  # of a network that is one: it lacks something
            continue
        if not compare(np.array(found[place]), actual, "close").why:
            return True
    return False


def _moved(model: ModelProto, feeds: dict[str, Any], place: int) -> list[list[Any]]:
    """What an output is where the inputs of a model are a few roundings off, up and down."""
    found = []
    for way in (1, -1):
        source = rocked(Source(model, feeds, "graph"), way)
        try:
            found.append([np.asarray(OnnxRuntime(source.model).run(source.feeds)[place])])
        except EngineError:
            continue
    return found


def _with_fixed_sizes(model: Any, feeds: Sequence[Any]) -> Sequence[Any] | None:
    """Take the sizes of what is fed for those of a network; None where they are."""
    import openvino

    if not any(value.get_partial_shape().is_dynamic for value in model.inputs):
        return None
    sizes = {port: openvino.PartialShape(list(fed.shape)) for port, fed in zip(model.inputs, feeds, strict=True)}
    model.reshape(sizes)
    return feeds


def _with_constants(model: Any, feeds: Sequence[Any]) -> Sequence[Any] | None:
    """Put constants in the place of inputs of whole numbers; what is left to be fed, None where there are none."""
    import openvino

    left = []
    for parameter, fed in zip(model.get_parameters(), feeds, strict=True):
        if fed.dtype.kind not in "iu":
            left.append(fed)
            continue
        parameter.output(0).replace(openvino.opset13.constant(fed).output(0))
        model.remove_parameter(parameter)
    model.validate_nodes_and_infer_types()
    return left if len(left) < len(feeds) else None


def _with_all_values(model: Any, feeds: Sequence[Any]) -> Sequence[Any]:
    """Ask for each value on the way, which leaves nothing of what OpenVINO would put together."""
    import openvino

    ends = ("Constant", "Parameter", "Result")
    values = [value for node in model.get_ops() if node.get_type_name() not in ends for value in node.outputs()]
    model.add_results([openvino.opset13.result(value) for value in values])
    return feeds


def _is_sane(value: Any) -> bool:
    """Whether no number looks like memory that nobody wrote, which some kernels leave behind."""
    if value.dtype == bool:
        return bool(value.reshape(-1).view(np.uint8).max(initial=0) < 2)
    if value.dtype != np.float32:
        return bool(value.dtype.kind not in "iu" or np.abs(value.astype(np.float64)).max(initial=0) < 2**33)
    sizes = np.abs(value[np.isfinite(value) & (value != 0)])
    return bool(sizes.max(initial=0) < 1e25 and sizes.min(initial=1) > 1e-25)


def ir_opset() -> int:
    from opshift.passes.openvino.layer import OPSET

    return OPSET


def told(model: Any) -> str:
    """A network in lines: what each layer is, its attributes, and where its inputs come from."""
    lines = []
    for node in model.get_ordered_ops():
        inputs = ", ".join(
            f"{value.get_node().get_friendly_name()}:{value.get_index()}" for value in node.input_values()
        )
        shape = [str(output.get_partial_shape()) for output in node.outputs()]
        kind = [output.get_element_type().get_type_name() for output in node.outputs()]
        kept = {key: value for key, value in node.get_attributes().items() if node.get_type_name() != "Constant"}
        data = (
            f" = {node.get_data().reshape(-1)[:8].tolist()}"
            if node.get_type_name() == "Constant" and node.get_data().size < 40
            else ""
        )
        version = node.get_type_info().version_id
        lines.append(f"  {node.get_friendly_name()} [{version}]({inputs}) {kept} -> {kind} {shape}{data}")
    return "\n".join(lines)


def judged(seed: int, numbers: Sequence[int], only: str = "", log: Path | None = None) -> list[tuple[str, str, str]]:
    """The outcome, the reason and the network, of each that can be drawn; `log` has them even if the process ends."""
    found = []
    for number in numbers:
        isolation.end_after(LIMIT)
        outcome, why, shown = "agrees", "", ""
        if (drawn := network(seed, number, only)) is not None:
            outcome, why = judge(*drawn, OPSETS[number % len(OPSETS)])
            shown = "" if outcome in FINE else told(drawn[0])
        found.append((outcome if drawn is not None else "undrawn", why, shown))
        if log is not None:
            log.write_bytes(pickle.dumps(found))
    return found


def _of_the_end(seed: int, number: int, only: str, why: str) -> tuple[str, str, str]:
    """The outcome of a network that ended its process: a finding where what is made of it does so alone."""
    try:
        isolation.call(_run_made, seed, number, only)
    except isolation.Ended:
        drawn = network(seed, number, only)
        return "dies", why, told(drawn[0]) if drawn is not None else ""
    return "unread", why, ""


def _run_made(seed: int, number: int, only: str) -> None:
    """Run what becomes of a network, without OpenVINO."""
    import openvino

    isolation.end_after(LIMIT)
    drawn = network(seed, number, only)
    if drawn is None:
        return
    with TemporaryDirectory() as folder, suppress(Refused, EngineError):
        path = Path(folder, "net.xml")
        openvino.serialize(drawn[0], path)
        made = reader.read(path).model
        OnnxRuntime(made, folder=folder).run(
            dict(zip((value.name for value in made.graph.input), drawn[1], strict=True))
        )


def run(seconds: float, seed: int, only: str = "", counts: Counter[str] | None = None) -> list[str]:
    """Draw and judge for a time; each finding with the network that shows it. `counts` takes all outcomes."""
    findings, counts = [], Counter() if counts is None else counts
    until = time.monotonic() + seconds
    number = 0
    with TemporaryDirectory() as folder:
        while time.monotonic() < until:
            log = Path(folder, str(number))
            try:  # a process for many: some networks end the one that OpenVINO runs in
                outcomes = isolation.call(judged, seed, range(number, number + CHUNK), only, log)
            except isolation.Ended as ended:
                done = pickle.loads(log.read_bytes()) if log.exists() else []
                outcomes = [*done, _of_the_end(seed, number + len(done), only, str(ended))]
            for outcome, why, shown in outcomes:
                counts[outcome] += 1
                counts.update(f"{outcome} {line[:110]}" for line in why.splitlines() if outcome in FINE)
                if outcome not in FINE:
                    findings.append(f"{outcome} (seed {seed}, network {number}): {why}\n{shown}")
                number += 1
    return findings


def main() -> int:
    given = dict(enumerate(sys.argv[1:]))
    counts = Counter[str]()
    findings = run(float(given.get(0, 60)), int(given.get(1, 0)), given.get(2, ""), counts)
    print("\n".join(findings))
    for reason, number in counts.most_common(60):
        print(number, reason)
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
