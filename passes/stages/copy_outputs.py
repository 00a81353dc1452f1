"""Copy outputs of the model that a backend yields in another shape."""

from __future__ import annotations

from opshift.passes.backends.door import Backend, find_copied_outputs
from opshift.passes.changes import Allowance, Change, Result
from opshift.passes.model.editing.names import Names
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import ModelProto, NodeProto, copy_model
from opshift.passes.records import dataclass
from opshift.passes.stages.stage import Facts

_HOW = "Copied an output of the model by Identity"


@dataclass(frozen=True)
class CopyOutputs:
    """Let an Identity yield what the limits of a backend call `copied`: MNN gives a 1-D convolution an axis more."""

    backend: Backend
    optional = False
    settles = ""

    @property
    def name(self) -> str:
        return f"copy outputs for {self.backend.name}"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        """Put an Identity behind each output that the backend would yield in another shape.

        The stage loop calls it, last for such a backend.
        """
        makers = find_copied_outputs(model, self.backend, facts.folder)
        if not makers:
            return Result(model, (), ())
        copy = copy_model(model)
        names = Names(copy)
        inner = {name: names.fresh(name) for name in makers}
        rename(copy.graph.node, inner)
        copy.graph.node.extend(
            NodeProto(op_type="Identity", input=[inner[name]], output=[name], name=names.fresh(f"{name}/Identity"))
            for name in makers
        )
        changes = [Change(node.name or name, node.op_type, "", 0, 0, _HOW) for name, node in makers.items()]
        return Result(copy, tuple(changes), ())
