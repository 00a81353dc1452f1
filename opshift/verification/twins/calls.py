"""One call of an operator in float64: in onnxruntime, or, where that has no kernel, in numpy or onnx.reference.

What the others compute is held against onnxruntime in float32 on the same values. Where that is something else, or
where nobody knows the operator in double, the call stays as narrow as the model has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from typing import Any

import numpy as np

from opshift.passes.model import schemas
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, ValueInfoProto, default_domain
from opshift.passes.records import dataclass, field
from opshift.verification.bounds import half_unit
from opshift.verification.engines import EngineError, OnnxRuntime, Reference, Session, runtime
from opshift.verification.twins import kernels, plain
from opshift.verification.twins.memory import Memory

Array = Any
DOUBLE = "tensor(double)"
APART = 1e-2
"""How far a kernel in float64 may be from onnxruntime's in float32, as a part of the largest element."""


_ROUNDING = {"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"}


class Call:
    """A node apart from what it is given, and what is the same of it whatever that is.

    Attributes:
        schema: of the operator; None where nobody has one.
        marks: what it has in common with those that are prepared alike.
    """

    def __init__(self, node: NodeProto, opset: int):
        self.node, self.opset = node, opset
        self.schema = schemas.schema(node.domain, node.op_type, opset)
        attributes = tuple(sorted(attribute.SerializeToString() for attribute in node.attribute))
        self.marks = node.domain, node.op_type, opset, attributes, tuple(map(bool, node.output))
        self._takes: dict[int, bool] = {}
        self._like: dict[tuple[int, int], tuple[str, list[int]]] = {}

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """As numpy takes them."""
        found = {attribute.name: attribute_value(attribute) for attribute in self.node.attribute}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}

    def takes_double(self, index: int) -> bool:
        """Whether an input may be double, going by the schema."""
        if index not in self._takes:
            formal = self.schema.input(index) if self.schema is not None else None
            self._takes[index] = formal is None or DOUBLE in formal.types
        return self._takes[index]

    def like(self, index: int, count: int) -> tuple[str, list[int]]:
        """The type of an output in the words of the schema, and which of so many inputs have the same."""
        if (index, count) not in self._like:
            formal = self.schema.output(index) if self.schema is not None else None
            kind = "" if formal is None else formal.type
            formals = [self.schema.input(k) for k in range(count)] if self.schema is not None and kind else []
            self._like[index, count] = kind, [k for k, held in enumerate(formals) if held and held.type == kind]
        return self._like[index, count]

    def key(self, inputs: Sequence[Array | None]) -> Any:
        """What calls have in common that one session runs."""
        types = tuple(None if v is None else "list" if isinstance(v, list) else v.dtype for v in inputs)
        return self.marks, types


@dataclass
class Calls:
    """Runs calls; equal ones share what was prepared for them.

    `elsewhere` and `narrow` count calls by operator; `unit` is the rounding of narrow ones that do not quantize.
    """

    elsewhere: dict[str, int] = field(default_factory=dict)
    narrow: dict[str, int] = field(default_factory=dict)
    unit: float = 0.0
    memory: Memory = field(default_factory=Memory)
    _sessions: dict[Any, Session | str] = field(default_factory=dict)
    _able: dict[Any, bool] = field(default_factory=dict)
    _held: set[Any] = field(default_factory=set)  # kinds of calls that were held against onnxruntime

    def beside(self) -> Calls:
        """Another one that counts for itself, and runs what was prepared here."""
        return Calls(memory=self.memory, _sessions=self._sessions, _able=self._able, _held=self._held)

    def count(self, other: Calls) -> None:
        """Count what another one has counted, too."""
        for mine, others in ((self.elsewhere, other.elsewhere), (self.narrow, other.narrow)):
            for op, number in others.items():
                mine[op] = mine.get(op, 0) + number
        self.unit = max(self.unit, other.unit)

    def run(
        self, node: NodeProto, opset: int, inputs: Sequence[Array | None], widths: Sequence[np.dtype[Any] | None]
    ) -> list[Array]:
        """The outputs. `widths` are the types that inputs have in the model; only what is narrow there was widened.

        Raises:
            EngineError: nobody runs it.
        """
        return self.called(Call(node, opset), inputs, widths)

    def called(self, call: Call, inputs: Sequence[Array | None], widths: Sequence[np.dtype[Any] | None]) -> list[Array]:
        """The same of a call that may be used again."""
        node = call.node
        if call.schema is None:
            return self._narrowly(call, inputs, widths)
        found = None if node.domain else kernels.tails(node.op_type, inputs)
        if found is not None:
            self.elsewhere[node.op_type] = self.elsewhere.get(node.op_type, 0) + 1
            return [found]
        moved = None if node.domain else plain.compute(node.op_type, call.opset, inputs, call.attributes)
        if moved is not None:
            return moved
        mixed = [
            value if call.takes_double(index) else _as(value, width)
            for index, (value, width) in enumerate(zip(inputs, widths, strict=True))
        ]
        if any(isinstance(value, list) for value in inputs):
            return self._in_reference(call, mixed)
        key = call.key(mixed)
        if key not in self._able:
            self._able[key] = not any(map(_is_wide, mixed)) or _has_kernel(call)
        if self._able[key]:
            try:
                made = self._in_runtime(call, mixed, key)
            except EngineError:  # it has none, or one that refuses to run
                self._able[key] = False
            else:
                if node.domain == "ai.onnx.ml" and any(map(_is_single, made)):  # its scores are float32 by its text
                    self._count(node, [np.dtype(np.float32)])
                return made
        return self._elsewhere(call, inputs, mixed, widths)

    def _elsewhere(
        self,
        call: Call,
        inputs: Sequence[Array | None],
        mixed: Sequence[Array | None],
        widths: Sequence[np.dtype[Any] | None],
    ) -> list[Array]:
        made, narrow, op = self._wide(call, mixed), None, call.node.op_type
        kind = (*call.key(mixed), *(getattr(value, "shape", None) for value in mixed))
        if made is not None and kind in self._held:
            self.elsewhere[op] = self.elsewhere.get(op, 0) + 1
            return made
        single = [np.dtype(np.float32) if width is not None else None for width in widths]
        with suppress(EngineError):
            narrow = self._in_runtime(call, [_as(v, w) for v, w in zip(inputs, single, strict=True)])
        if made is not None and (narrow is None or _near(made, narrow)):
            if narrow is not None and op in _BY_SHAPE:
                self._held.add(kind)
            self.elsewhere[op] = self.elsewhere.get(op, 0) + 1
            return made
        if narrow is None:
            return self._narrowly(call, inputs, widths)
        self._count(call.node, [None if width is None else np.dtype(np.float32) for width in widths])
        return narrow

    def _wide(self, call: Call, inputs: Sequence[Array | None]) -> list[Array] | None:
        """What is computed by numpy, by onnxruntime with the operator's definition, or by onnx.reference."""
        if not call.node.domain and all(_is_number(value) for value in inputs[:2]):
            with suppress(ValueError, IndexError, KeyError, TypeError), np.errstate(all="ignore"):
                made = kernels.compute(call.node.op_type, call.opset, inputs, call.attributes)
                if made is not None:
                    return made
        for way in (self._in_runtime, self._in_reference):
            with suppress(EngineError):
                return way(call, inputs)
        return None

    def _narrowly(
        self, call: Call, inputs: Sequence[Array | None], widths: Sequence[np.dtype[Any] | None]
    ) -> list[Array]:
        self._count(call.node, widths)
        given = [_as(value, width) for value, width in zip(inputs, widths, strict=True)]
        try:
            return self._in_runtime(call, given)
        except EngineError:
            return self._in_reference(call, given)

    def _count(self, node: NodeProto, widths: Sequence[np.dtype[Any] | None]) -> None:
        self.narrow[node.op_type] = self.narrow.get(node.op_type, 0) + 1
        if node.op_type not in _ROUNDING:
            self.unit = max([self.unit, *(half_unit(width) for width in widths if width is not None)])

    def _in_runtime(self, call: Call, inputs: Sequence[Array | None], key: Any = None) -> list[Array]:
        return self._prepared("runtime", OnnxRuntime, key or call.key(inputs), call, inputs)

    def _in_reference(self, call: Call, inputs: Sequence[Array | None]) -> list[Array]:
        return self._prepared("reference", Reference, call.key(inputs), call, inputs)

    def _prepared(
        self,
        name: str,
        engine: Callable[[ModelProto], Session],
        key: Any,
        call: Call,
        inputs: Sequence[Array | None],
    ) -> list[Array]:
        """The outputs as an engine computes them, which is asked once whether it loads such a call."""
        if (name, key) not in self._sessions:
            try:
                self._sessions[name, key] = engine(_model(call.node, call.opset, inputs))
            except EngineError as error:
                self._sessions[name, key] = str(error)
        session = self._sessions[name, key]
        if isinstance(session, str):
            raise EngineError(session)
        return session.run(_feeds(inputs))


_BY_SHAPE = frozenset(["AveragePool", "Conv", "ConvTranspose", "Erf", "GlobalAveragePool", "InstanceNormalization"])
"""What is computed in one way for all values of a shape, so that one call tells of all."""


@cache
def _kernels() -> dict[tuple[str, str], list[tuple[int, int]]]:
    """The versions of operators that onnxruntime has for double."""
    try:
        state = runtime().capi.onnxruntime_pybind11_state
    except ImportError:
        return {}
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for kernel in state.get_all_opkernel_def():
        kinds = list(kernel.type_constraints.values())
        if kernel.provider == "CPUExecutionProvider" and (not kinds or any(DOUBLE in types for types in kinds)):
            found.setdefault((default_domain(kernel.domain), kernel.op_name), []).append(kernel.version_range)
    return found


_DEFINED = frozenset([
    "Clip", "GreaterOrEqual", "LayerNormalization", "LessOrEqual", "LogSoftmax", "Range", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "Relu", "Softmax",
])  # fmt: skip
"""What onnxruntime has kernels for in double though it could run the operator's definition as well."""


def _has_kernel(call: Call) -> bool:
    """Whether onnxruntime has one in double, as far as a session does not say so; it is long in telling of all."""
    node = call.node
    if not node.domain and call.schema is not None:
        if node.op_type in kernels.LACKING:
            return False
        if node.op_type in _DEFINED or not call.schema.body:
            return True
    ranges = _kernels().get((default_domain(node.domain), node.op_type), ())
    return any(first <= call.opset <= last for first, last in ranges)


def _is_single(value: Array | None) -> bool:
    return getattr(value, "dtype", None) == np.float32


def _is_wide(value: Array | None) -> bool:
    return getattr(value, "dtype", None) == np.float64


def _is_number(value: Array | None) -> bool:
    return value is None or value.dtype.kind in "iub" or value.dtype == np.float64


def _as(value: Array | None, width: np.dtype[Any] | None) -> Array | None:
    if value is None or width is None:
        return value
    if isinstance(value, list):
        return [_as(item, width) for item in value]
    return value.astype(width) if value.dtype == np.float64 else value


def _near(made: Sequence[Array], narrow: Sequence[Array]) -> bool:
    """Whether two kernels compute the same, but for rounding, and for what only the narrow one cannot hold."""
    for wide, single in zip(made, narrow, strict=False):
        if getattr(wide, "shape", None) != getattr(single, "shape", None):
            return False
        if wide is None or wide.dtype.kind not in "f":
            continue
        finite = np.isfinite(single)
        if (np.isnan(single) != np.isnan(wide)).any() or not np.isfinite(wide[finite]).all():
            return False
        with np.errstate(all="ignore"):
            gap = np.abs(wide - single)[finite].max(initial=0.0)
        if gap > APART * np.abs(wide[finite]).max(initial=1e-30):
            return False
    return True


def _feeds(inputs: Sequence[Array | None]) -> dict[str, Array]:
    return {f"i{index}": value for index, value in enumerate(inputs) if value is not None}


def _model(node: NodeProto, opset: int, inputs: Sequence[Array | None]) -> ModelProto:
    """A model of the call alone; shapes are left open."""
    import onnx.helper

    model = ModelProto(ir_version=min(schemas.ir_version("", opset) if not node.domain else 8, 10))
    model.opset_import.add(domain=node.domain, version=opset)
    if node.domain:
        model.opset_import.add(domain="", version=17)
    graph, call = model.graph, model.graph.node.add(op_type=node.op_type, domain=node.domain)
    graph.name = "call"
    call.attribute.extend(node.attribute)
    for index, value in enumerate(inputs):
        call.input.append("" if value is None else f"i{index}")
        if value is None:
            continue
        kind = graph.input.add(name=f"i{index}").type
        items = value if isinstance(value, list) else [value]
        elem_type = onnx.helper.np_dtype_to_tensor_dtype(items[0].dtype) if items else TensorProto.DOUBLE
        if isinstance(value, list):
            kind.sequence_type.elem_type.tensor_type.elem_type = elem_type
        else:
            kind.tensor_type.elem_type = elem_type
    for index, name in enumerate(node.output):
        call.output.append(f"o{index}" if name else "")
        if name:
            graph.output.append(ValueInfoProto(name=f"o{index}"))
    return model
