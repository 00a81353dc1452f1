"""`python -m tests.random.worker`: runs models for the process that started it, which outlives what kills this one."""

from __future__ import annotations

import pickle
import resource
import signal
import struct
import sys
from typing import Any, BinaryIO

import onnx.defs
import onnx.inliner
from onnx import ModelProto

from tests.conformance.engines import OLDEST_WITH_KERNELS, AsWritten, EngineError, Judge, Raised
from tests.node_calls import all_values
from tests.random.loops import Looping
from tests.runtime import Runtime, every_node, opset

SECONDS = 3.0  # of computing, after which an engine has no answer, unless it is given more
MEMORY = 6 << 30
VALUES = "all values"


class Old(Raised):
    """onnxruntime, for a model below the opsets that it has kernels for after onnx's own converter."""

    def __init__(self, model: ModelProto):
        if opset(model) < OLDEST_WITH_KERNELS:
            super().__init__(model)
        else:
            Runtime.__init__(self, model)


ENGINES: dict[str, Judge] = {
    "onnxruntime": Runtime,
    "as written": AsWritten,
    "onnx.reference": Looping,
    "raised": Old,
}


def flat(model: ModelProto) -> ModelProto:
    """What the functions of a model mean, by onnx's own inliner, without the inputs that a caller left out at an end."""
    if not model.functions:
        return model
    made = onnx.inliner.inline_local_functions(_with_defaults(model))
    opsets = {entry.domain: entry.version for entry in made.opset_import}
    for node in every_node(made.graph.node):
        least = 0
        if node.domain in opsets:  # else onnx's inliner lost it, with the function that imported it
            least = onnx.defs.get_schema(node.op_type, opsets[node.domain], node.domain).min_input
        while len(node.input) > least and not node.input[-1]:
            node.input.pop()
    return made


def _with_defaults(model: ModelProto) -> ModelProto:
    """A copy whose calls say what attributes are by default: onnx's inliner and onnx.reference do not look."""
    defaults = {(f.domain, f.name): f.attribute_proto for f in model.functions if f.attribute_proto}
    if not defaults:
        return model
    made = ModelProto()
    made.CopyFrom(model)
    for body in (made.graph.node, *(function.node for function in made.functions)):
        for node in every_node(body):
            given = {attribute.name for attribute in node.attribute}
            found = defaults.get((node.domain, node.op_type), ())
            node.attribute.extend(attribute for attribute in found if attribute.name not in given)
    return made


def receive(stream: BinaryIO) -> Any:
    """The next message; None at the end."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    return pickle.loads(stream.read(struct.unpack("<q", head)[0]))


def send(stream: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(struct.pack("<q", len(data)) + data)
    stream.flush()


def answer(engine: str, data: bytes, feeds: dict[str, Any]) -> tuple[list[Any] | dict[str, Any] | None, str]:
    """The outputs, or why there are none; all values by their names where it is these that are asked for."""
    try:
        if engine == VALUES:
            return all_values(ModelProto.FromString(data), feeds), ""
        return ENGINES[engine](ModelProto.FromString(data)).run(feeds), ""
    except EngineError as error:
        return None, str(error)
    except Exception as error:
        return None, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def main() -> None:
    """Answer until nothing more comes."""
    given, told = sys.stdin.buffer, sys.stdout.buffer
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    while (asked := receive(given)) is not None:
        seconds, *call = asked
        signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends this process, whatever the engine does
        try:
            found = answer(*call)
            signal.setitimer(signal.ITIMER_PROF, 0)
            send(told, found)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            send(told, (None, f"no answer: {error}"))


if __name__ == "__main__":
    main()
