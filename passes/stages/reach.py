"""Reach an opset, an IR version or a backend, without the operators that have to go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from opshift.passes.changes import Allowance, Result
from opshift.passes.conversion import convert
from opshift.passes.conversion.attempts import REPAIRS, choose, plan_attempt, try_attempts
from opshift.passes.model import imports, schemas
from opshift.passes.model.messages import FunctionProto, ModelProto, copy_model, default_domain
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass, field, replace
from opshift.passes.stages.stage import Facts

if TYPE_CHECKING:
    from opshift.passes.backends.door import Backend


@dataclass(frozen=True)
class Reach:
    """Convert, and replace operators by their definitions.

    Attributes:
        targets: the opset to reach in each domain; without any, the model keeps its own.
        ir_version: the IR version to write.
        names, domain: operators to replace, one by one and by their domain.
        backend: what has to read the result: all that it lacks is replaced, at an opset that it reads.
        reader: the backend for whose opset `targets` stand; without what it lacks there.
        portable: replace all that is not ONNX's.
        on_floats: replace the operators that compute in integers between scales.
    """

    targets: Mapping[str, int] = field(default_factory=dict)
    ir_version: int | None = None
    names: tuple[str, ...] = ()
    domain: str | None = None
    backend: Backend | None = None
    reader: Backend | None = None
    portable: bool = False
    on_floats: bool = False
    optional = False
    settles = ""

    @property
    def name(self) -> str:
        if self.backend is not None:
            return f"convert for {self.backend.name}"
        opsets = [f"opset {opset}{f' of {domain}' if domain else ''}" for domain, opset in self.targets.items()]
        asked = [f"convert to {' and '.join(opsets)}"] if opsets else []
        if self.ir_version is not None and not opsets:
            asked.append(f"write IR version {self.ir_version}")
        gone = [*self.names, *([f"operators of {self.domain or 'ai.onnx'}"] if self.domain is not None else [])]
        gone += ["operators that are not ONNX's"] if self.portable else []
        gone += ["operators on integers"] if self.on_floats else []
        asked += [f"replace {', '.join(gone)}"] if gone else []
        return " and ".join(asked)

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        """Convert; raises `ValueError` where nobody knows an operator that is named."""
        survey = facts.survey if facts.survey is not None else convert.check_model(model)
        used = frozenset(survey.calls)
        ops: list[Op] = []
        if self.names or self.domain is not None:
            from opshift.passes.stages.operator_names import find_named

            ops += find_named(model, self.names, self.domain, used)
        ops += self._unasked(model, facts.folder)
        if self.on_floats:
            from opshift.passes.fusion.door import on_integers

            ops += sorted(used & on_integers())
        facts.replaced |= frozenset(ops)
        result = Result(model, (), ())
        if self.backend is not None:
            from opshift.passes.backends.door import convert_for_backend

            result = convert_for_backend(model, self.backend, ops, self.ir_version, facts.folder)
        elif self.targets or self.ir_version is not None or not used.isdisjoint(ops):
            roomy = any(domain == "ai.onnx.ml" for domain, _ in ops)
            targets = dict(self.targets) or own_opset(model, roomy=roomy)
            if self.reader is None:
                first = plan_attempt(model, targets, ops, self.ir_version, facts.folder, survey)
                result = choose(try_attempts(first, convert.convert_once, REPAIRS)).result
            else:
                from opshift.passes.backends.door import convert_to_opset, ml_opset

                targets |= ml_opset(model, self.reader)
                result = convert_to_opset(model, targets, self.reader, ops, self.ir_version, facts.folder, survey)
        elif self.portable:
            result = Result(copy_model(model), (), ())
        if result.model is not None and self.backend is None and result.model is not model:
            self._drop_imports(result.model)
        return replace(result, absent=tuple(self._absent(ops, used, result)))

    def _unasked(self, model: ModelProto, folder: str | None) -> set[Op]:
        """Operators that have to go though nobody names them."""
        if not self.portable and (self.backend is not None or self.reader is None):
            return set()
        from opshift.passes.backends import door as backends

        if self.portable:
            return backends.find_foreign_operators(model) | backends.find_classical_operators(model)
        if self.reader is None:
            return backends.find_foreign_operators(model)
        return backends.find_vendor_operators(model, self.reader, folder)

    def _drop_imports(self, converted: ModelProto) -> None:
        """Drop imports that nothing uses where the reader may stumble over them."""
        if self.portable:
            imports.drop_unused(converted, lambda *_: True)
        elif self.reader is not None:
            reads = self.reader.reads_import
            imports.drop_unused(converted, lambda domain, version: not reads(domain, version))

    def _absent(self, ops: list[Op], used: frozenset[Op], result: Result) -> Iterator[str]:
        """Operators that the user wants replaced, and that the model does not have."""
        gone = {(default_domain(change.domain), change.op) for change in result.changes}
        named = ops[: len(self.names)]
        yield from (name for name, op in zip(self.names, named, strict=True) if op not in used | gone)
        if self.domain is not None and default_domain(self.domain) not in {domain for domain, _ in ops}:
            yield f"operator of {self.domain or 'ai.onnx'}"
        if self.portable and not gone:
            yield "operator that is not ONNX's"


def own_opset(model: ModelProto, *, roomy: bool = False) -> dict[str, int]:
    """The default-domain opset that a model imports, or else its functions, as a target.

    A model that uses none of it, as those of XGBoost, gets the newest that its IR version may import. Where there is to
    be room for definitions, as in those of LightGBM, the newest at which its nodes stay as they are.
    """
    if roomy and (newest := imports.roomiest(model)) is not None:
        return {"": newest}
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    found = next(filter(None, (imports.opsets(holder).get("") for holder in holders)), None)
    return {"": found or schemas.newest_opset(model.ir_version)}
