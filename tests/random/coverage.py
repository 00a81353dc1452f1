"""Which versions of operators, and which of their attributes, were in models that were judged."""

from __future__ import annotations

from collections import Counter

import onnx.defs
from onnx import ModelProto
from opshift.passes.model import schemas

from tests.random.calls import Corpus, Key
from tests.random.verdict import REFUSED, UNJUDGED
from tests.runtime import every_node


class Coverage:
    """Counts of what was reached."""

    def __init__(self) -> None:
        self.versions: Counter[Key] = Counter()
        self.attributes: Counter[tuple[str, str]] = Counter()

    def add(self, model: ModelProto, status: str) -> None:
        """Count what a source holds, where something was said of its result."""
        if status in (REFUSED, UNJUDGED):
            return
        opsets = {i.domain: i.version for i in model.opset_import}
        for body in (model.graph.node, *(f.node for f in model.functions)):
            for node in every_node(body):
                if node.domain not in ("", "ai.onnx.ml") or node.domain not in opsets:
                    continue
                since = schemas.since(node.domain, node.op_type, opsets[node.domain])
                if since is not None:
                    self.versions[node.domain, node.op_type, since] += 1
                    for held in node.attribute:
                        self.attributes[node.op_type, held.name] += 1

    def update(self, other: Coverage) -> None:
        """Count what another one counted, too."""
        self.versions.update(other.versions)
        self.attributes.update(other.attributes)

    def text(self, corpus: Corpus) -> str:
        """How much was reached, and what was not."""
        known = {
            (op, name) for domain, op, v in corpus.known for name in onnx.defs.get_schema(op, v, domain).attributes
        }
        missed = [key for key in corpus.known if key not in self.versions]
        names = [f"{op}-{since}" for _, op, since in missed]
        bare = sorted(f"{op}.{name}" for op, name in known - set(self.attributes))
        return "\n".join(
            [
                f"{len(corpus.known) - len(missed)} of {len(corpus.known)} versions of operators reached, "
                f"{len(known & set(self.attributes))} of {len(known)} attributes",
                f"not reached: {' '.join(names)}",
                f"without: {' '.join(bare)}",
            ]
        )
