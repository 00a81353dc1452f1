"""One call of an operator in float64: in onnxruntime, or, where that has no kernel, in numpy or onnx.reference.

What the others compute is held against onnxruntime in float32 on the same values. Where that is something else, or
where nobody knows the operator in double, the call stays as narrow as the model has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from opshift.passes.model import schemas
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, ValueInfoProto, default_domain
from opshift.verification.bounds import half_unit
from opshift.verification.engines import EngineError, OnnxRuntime, Reference, Session, runtime
from opshift.verification.twins import kernels, plain
from opshift.verification.twins.memory import Memory

Array = Any
DOUBLE = "tensor(double)"
APART = 1e-2
"""How far a kernel in float64 may be from onnxruntime's in float32, as a part of the largest element."""


_ROUNDING = {"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"}


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
        schema = schemas.schema(node.domain, node.op_type, opset)
        if schema is None:
            return self._narrowly(node, opset, inputs, widths)
        found = None if node.domain else kernels.tails(node.op_type, inputs)
        if found is not None:
            self.elsewhere[node.op_type] = self.elsewhere.get(node.op_type, 0) + 1
            return [found]
        moved = None if node.domain else plain.compute(node.op_type, opset, inputs, _attributes(node))
        if moved is not None:
            return moved
        mixed: list[Array | None] = []
        for index, (value, width) in enumerate(zip(inputs, widths, strict=True)):
            formal = schema.input(index)
            fixed = formal is not None and DOUBLE not in formal.types
            mixed.append(_as(value, width) if fixed else value)
        if any(isinstance(value, list) for value in inputs):
            return self._in_reference(node, opset, mixed)
        key = _key(node, opset, mixed)
        if key not in self._able:
            self._able[key] = not any(map(_is_wide, mixed)) or _has_kernel(node, opset)
        if self._able[key]:
            try:
                return self._in_runtime(node, opset, mixed, key)
            except EngineError:  # some are registered and refuse to run
                self._able[key] = False
        return self._elsewhere(node, opset, inputs, mixed, widths)

    def _elsewhere(
        self,
        node: NodeProto,
        opset: int,
        inputs: Sequence[Array | None],
        mixed: Sequence[Array | None],
        widths: Sequence[np.dtype[Any] | None],
    ) -> list[Array]:
        made, narrow = self._wide(node, opset, mixed), None
        kind = (*_key(node, opset, mixed), *(getattr(value, "shape", None) for value in mixed))
        if made is not None and kind in self._held:
            self.elsewhere[node.op_type] = self.elsewhere.get(node.op_type, 0) + 1
            return made
        single = [np.dtype(np.float32) if width is not None else None for width in widths]
        with suppress(EngineError):
            narrow = self._in_runtime(node, opset, [_as(v, w) for v, w in zip(inputs, single, strict=True)])
        if made is not None and (narrow is None or _near(made, narrow)):
            if narrow is not None and node.op_type in _BY_SHAPE:
                self._held.add(kind)
            self.elsewhere[node.op_type] = self.elsewhere.get(node.op_type, 0) + 1
            return made
        if narrow is None:
            return self._narrowly(node, opset, inputs, widths)
        self._count(node, [None if width is None else np.dtype(np.float32) for width in widths])
        return narrow

    def _wide(self, node: NodeProto, opset: int, inputs: Sequence[Array | None]) -> list[Array] | None:
        """What is computed by numpy, by onnxruntime with the operator's definition, or by onnx.reference."""
        if not node.domain and all(_is_number(value) for value in inputs[:2]):
            with suppress(ValueError, IndexError, KeyError, TypeError), np.errstate(all="ignore"):
                made = kernels.compute(node.op_type, opset, inputs, _attributes(node))
                if made is not None:
                    return made
        for way in (self._in_runtime, self._in_reference):
            with suppress(EngineError):
                return way(node, opset, inputs)
        return None

    def _narrowly(
        self, node: NodeProto, opset: int, inputs: Sequence[Array | None], widths: Sequence[np.dtype[Any] | None]
    ) -> list[Array]:
        self._count(node, widths)
        given = [_as(value, width) for value, width in zip(inputs, widths, strict=True)]
        try:
            return self._in_runtime(node, opset, given)
        except EngineError:
            return self._in_reference(node, opset, given)

    def _count(self, node: NodeProto, widths: Sequence[np.dtype[Any] | None]) -> None:
        self.narrow[node.op_type] = self.narrow.get(node.op_type, 0) + 1
        if node.op_type not in _ROUNDING:
            self.unit = max([self.unit, *(half_unit(width) for width in widths if width is not None)])

    def _in_runtime(self, node: NodeProto, opset: int, inputs: Sequence[Array | None], key: Any = None) -> list[Array]:
        return self._prepared("runtime", OnnxRuntime, key or _key(node, opset, inputs), node, opset, inputs)

    def _in_reference(self, node: NodeProto, opset: int, inputs: Sequence[Array | None]) -> list[Array]:
        return self._prepared("reference", Reference, _key(node, opset, inputs), node, opset, inputs)

    def _prepared(
        self,
        name: str,
        engine: Callable[[ModelProto], Session],
        key: Any,
        node: NodeProto,
        opset: int,
        inputs: Sequence[Array | None],
    ) -> list[Array]:
        """The outputs as an engine computes them, which is asked once whether it loads such a call."""
        if (name, key) not in self._sessions:
            try:
                self._sessions[name, key] = engine(_model(node, opset, inputs))
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


def _has_kernel(node: NodeProto, opset: int) -> bool:
    ranges = _kernels().get((default_domain(node.domain), node.op_type), ())
    return any(first <= opset <= last for first, last in ranges)


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


def _key(node: NodeProto, opset: int, inputs: Sequence[Array | None]) -> Any:
    attributes = tuple(sorted(a.SerializeToString() for a in node.attribute))
    types = tuple(None if v is None else "list" if isinstance(v, list) else v.dtype for v in inputs)
    return node.domain, node.op_type, opset, attributes, types, tuple(map(bool, node.output))


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


def _attributes(node: NodeProto) -> Mapping[str, Any]:
    found = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}
