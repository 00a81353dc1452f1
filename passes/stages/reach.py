"""Convert to an opset, an IR version or a backend, and replace operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from opshift.passes.changes import Allowance, Result
from opshift.passes.conversion import convert
from opshift.passes.conversion.attempts import REPAIRS, choose, plan_attempt, try_attempts
from opshift.passes.model import imports, schemas
from opshift.passes.model.messages import FunctionProto, ModelProto, copy_model, normalize_domain
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
        backend: the backend to convert for: an opset that it reads, without operators that it lacks.
        reader: the backend that names the opset (`--opset onnxruntime-1.8`); its missing operators are replaced, too.
        portable: replace all operators outside the default domain.
        on_floats: replace QLinear operators by float ones (`--quantization qdq`).
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
        """Name the stage by what is reached or replaced: `convert to opset 13`, `replace Gelu`."""
        if self.backend is not None:
            return f"convert for {self.backend.name}"
        opsets = [f"opset {opset}{f' of {domain}' if domain else ''}" for domain, opset in self.targets.items()]
        asked = [f"convert to {' and '.join(opsets)}"] if opsets else []
        if self.ir_version is not None and not opsets:
            asked.append(f"write IR version {self.ir_version}")
        gone = [*self.names, *([f"operators of {self.domain or 'ai.onnx'}"] if self.domain is not None else [])]
        gone += ["vendor operators"] if self.portable else []
        gone += ["QLinear operators"] if self.on_floats else []
        asked += [f"replace {', '.join(gone)}"] if gone else []
        return " and ".join(asked)

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        """Convert the model; raises `ValueError` for an operator that nobody knows. The stage loop calls it."""
        survey = facts.survey if facts.survey is not None else convert.check_model(model)
        used = frozenset(survey.calls)
        ops: list[Op] = []
        if self.names or self.domain is not None:
            from opshift.passes.stages.operator_names import find_named

            ops += find_named(model, self.names, self.domain, used)
        ops += self._find_unasked(model, facts.folder)
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
        return replace(result, absent=tuple(self._list_absent(ops, used, result)))

    def _find_unasked(self, model: ModelProto, folder: str | None) -> set[Op]:
        """List operators that must go though the user did not name them: vendor operators, or QLinear operators.

        Runs before the conversion.
        """
        if not self.portable and (self.backend is not None or self.reader is None):
            return set()
        from opshift.passes.backends import door as backends

        if self.portable:
            return backends.find_foreign_operators(model) | backends.find_classical_operators(model)
        if self.reader is None:
            return backends.find_foreign_operators(model)
        return backends.find_vendor_operators(model, self.reader, folder)

    def _drop_imports(self, converted: ModelProto) -> None:
        """Drop unused opset imports if the backend may reject them. Runs after the conversion."""
        if self.portable:
            imports.drop_unused(converted, lambda *_: True)
        elif self.reader is not None:
            reads = self.reader.reads_import
            imports.drop_unused(converted, lambda domain, version: not reads(domain, version))

    def _list_absent(self, ops: list[Op], used: frozenset[Op], result: Result) -> Iterator[str]:
        """List operators that the user wants replaced, but that the model does not have: the report says so."""
        gone = {(normalize_domain(change.domain), change.op) for change in result.changes}
        named = ops[: len(self.names)]
        yield from (name for name, op in zip(self.names, named, strict=True) if op not in used | gone)
        if self.domain is not None and normalize_domain(self.domain) not in {domain for domain, _ in ops}:
            yield f"operator of {self.domain or 'ai.onnx'}"
        if self.portable and not gone and not result.refusals:
            yield "vendor operator"


def own_opset(model: ModelProto, *, roomy: bool = False) -> dict[str, int]:
    """Find the default-domain opset of a model that keeps its own, as a target.

    Runs before the conversion, if no opset is asked for.

    A model without default-domain operators (XGBoost's) gets the newest opset that its IR version allows. If
    definitions need a newer one (LightGBM's models), it is the newest at which no node changes.
    """
    if roomy and (newest := imports.roomiest(model)) is not None:
        return {"": newest}
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    imported = next(filter(None, (imports.opsets(holder).get("") for holder in holders)), None)
    return {"": imported or schemas.newest_opset(model.ir_version)}
