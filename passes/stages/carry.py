"""Carry values of types that a runtime lacks in wider ones."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Ledger, Result
from opshift.passes.conversion import convert
from opshift.passes.model import imports, installed
from opshift.passes.model.formats import FORMATS, Floats
from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.model.named_types import named_types
from opshift.passes.model.types import element_name
from opshift.passes.records import dataclass
from opshift.passes.stages.stage import Facts
from opshift.passes.types.door import Carriers, carry_types


@dataclass(frozen=True)
class Carry:
    """Give values of each type in `carriers` the type that carries them. It comes before an opset is reached.

    Functions are inlined first: what types their values have hangs on the calls.
    """

    carriers: Carriers
    optional = False
    settles = "carried"

    @property
    def name(self) -> str:
        pairs = (f"{element_name(narrow)} in {element_name(wide)}" for narrow, wide in self.carriers.items())
        return f"carry {', '.join(pairs)}"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        """Store values of types that a runtime lacks in wider types.

        Functions are inlined first, as their types depend on the call.
        """
        carried = self.carriers.keys() & set(named_types(model))
        if not carried:
            return Result(model, (), ())
        for elem_type in sorted(carried):
            installed.check_type(elem_type)
        result = Result(model, (), ())
        if functions := [(normalize_domain(function.domain), function.name) for function in model.functions]:
            result = convert.attempt(model, imports.opsets(model), ops=functions, folder=facts.folder)
        if result.model is None:
            return result
        ledger = Ledger()
        converted = carry_types(result.model, self.carriers, ledger, facts.folder)
        if ledger.refusals:
            return result.join(Result(None, tuple(ledger.changes), tuple(ledger.refusals)))
        types_before = {value.name: value.type for value in (*model.graph.input, *model.graph.output)}
        ends_after = (*converted.graph.input, *converted.graph.output)
        retyped = tuple(dict.fromkeys(value.name for value in ends_after if value.type != types_before.get(value.name)))
        is_close = any(change.grade == "close" for change in ledger.changes)
        coarse = self._coarsest(model) if is_close else 0
        return result.join(Result(converted, tuple(ledger.changes), (), retyped=retyped, computed_in=coarse))

    def _coarsest(self, model: ModelProto) -> int:
        """Find the float type with the fewest digits in which the model computes; the proof allows its rounding."""
        forms = [(FORMATS[elem_type], elem_type) for elem_type in self.carriers.keys() & set(named_types(model))]
        digits = [(form.digits, elem_type) for form, elem_type in forms if isinstance(form, Floats) and not form.powers]
        return min(digits)[1] if digits else 0
