"""Whether replay changes anything: each conversion of the frozen and the exported models, with it and without.

    python -m tests.replays               # all of them
    python -m tests.replays --sample 50   # so many, drawn by chance

Frozen cases are of one node: they are copied four times over, so that there is something to replay.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator

from onnx import ModelProto
from opshift.passes.conversion import convert
from opshift.passes.conversion.replay.switch import EARLIEST, replay_from

from tests.exported import store as exported
from tests.frozen import store as frozen

OPSETS = (7, 10, 13, 17, 18, 20, 23, 26)
Named = tuple[str, ModelProto]


def four_times(of: ModelProto) -> ModelProto:
    """The nodes of a model four times over, reading the same inputs; two of the copies carry notes of their own."""
    made = ModelProto()
    made.CopyFrom(of)
    own = {name for node in of.graph.node for name in node.output if name}
    for copy in ("/2", "/3", "/4"):
        for node in of.graph.node:
            added = made.graph.node.add()
            added.CopyFrom(node)
            added.input[:] = [f"{name}{copy}" if name in own else name for name in node.input]
            added.output[:] = [f"{name}{copy}" if name else "" for name in node.output]
            if copy != "/2":
                added.name = f"node{copy}"
                added.doc_string = f"copy {copy}"
                added.metadata_props.add(key="copy", value=copy)
        for value in of.graph.output:
            added_value = made.graph.output.add()
            added_value.CopyFrom(value)
            added_value.name += copy
        for value in [v for v in of.graph.value_info if v.name in own]:
            made.graph.value_info.add(name=value.name + copy, type=value.type)
    return made


def behind_claims(of: ModelProto) -> ModelProto:
    """The same of what operators that nobody defines make of each input: its type is what the model declares, no more."""
    made = ModelProto()
    made.CopyFrom(of)
    given = {value.name: value for value in of.graph.input} if not of.graph.initializer else {}
    del made.graph.node[:]
    for name, value in given.items():
        made.graph.node.add(op_type="Own", domain="own", input=[name], output=[f"{name}/own"])
        made.graph.value_info.add(name=f"{name}/own", type=value.type)
    for node in of.graph.node:
        made.graph.node.add().CopyFrom(node)
        made.graph.node[-1].input[:] = [f"{name}/own" if name in given else name for name in node.input]
    made.opset_import.add(domain="own", version=1)
    return made


def models() -> Iterator[Named]:
    """Everything that is frozen, also behind what is claimed, and everything that exporters wrote."""
    for opset in frozen.frozen_opsets():
        for case in frozen.read(opset):
            yield f"frozen/{opset}/{case.name}", four_times(case.model)
            yield f"claimed/{opset}/{case.name}", four_times(behind_claims(case.model))
    for framework in exported.frameworks():
        yield from ((f"exported/{export.name}", export.model) for export in exported.read(framework))


def differences(name: str, model: ModelProto) -> Iterator[str]:
    """The conversions in which replay shows: to two opsets, and without one of the operators."""
    draw = random.Random(name)
    own = next((entry.version for entry in model.opset_import if not entry.domain), 1)
    ops = sorted({node.op_type for node in model.graph.node if not node.domain})
    asked = [(opset, None) for opset in draw.sample(OPSETS, 2)]
    for opset, op in [*asked, *((own, op) for op in draw.sample(ops, min(1, len(ops))))]:
        found = []
        for call in (EARLIEST, None):
            with replay_from(call):
                try:
                    result = convert.attempt(model, {"": opset}, ops=[("", op)] if op else ())
                except Exception as error:
                    found.append((type(error).__name__, str(error)))
                    continue
            data = result.model and result.model.SerializeToString(deterministic=True)
            found.append((data, result.changes, result.refusals))
        if found[0] != found[1]:
            yield f"{name} to {opset}{f' without {op}' if op else ''}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replays", description=__doc__)
    parser.add_argument("--sample", type=int)
    options = parser.parse_args()
    found = list(models())
    drawn = found if options.sample is None else random.sample(found, options.sample)
    wrong = [line for name, model in drawn for line in differences(name, model)]
    print("\n".join(wrong))
    print(f"{len(wrong)} conversions of {len(drawn)} models are others with replay")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
