"""Fold and optimize only as far as a backend supports the result."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.backends.door import Backend, obstacles
from opshift.passes.changes import Allowance, Result
from opshift.passes.conversion.attempts import try_attempts
from opshift.passes.model.editing.names import Names
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import ModelProto, NodeProto
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass, replace
from opshift.passes.stages.stage import Facts, Stage, apply_stages


@dataclass(frozen=True)
class _RefiningAttempt:
    """Stages to apply, and operators that must not come in."""

    stages: Sequence[Stage]
    allowance: Allowance


@dataclass(frozen=True)
class _Refined:
    """The result of an attempt, and the operators in it that the backend stopped supporting."""

    attempt: _RefiningAttempt
    result: Result
    unread: frozenset[Op]


@dataclass(frozen=True)
class Readable:
    """Apply optional stages so that the backend supports all that it supported before.

    An operator that it does not read is kept out the next time. Then `fewer` stages are applied, which do not optimize;
    then none.
    """

    reader: Backend
    stages: Sequence[Stage]
    fewer: Sequence[Stage]
    optional = True
    settles = ""

    @property
    def name(self) -> str:
        return f"{' and '.join(dict.fromkeys(stage.name for stage in self.stages))} for {self.reader.name}"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        """Apply the stages, and check with the backend; try again with fewer changes, at most twice.

        The second attempt keeps out operators that the backend does not support. The third does not optimize either. If
        the backend still supports less than before, the model stays as it was.
        """
        folds = any(stage.name == "fold" for stage in self.stages)

        def carry_out(attempt: _RefiningAttempt) -> _Refined:
            """Apply the stages of one attempt, and list operators of the result that the backend does not support.

            Runs for each attempt.
            """
            known = replace(facts, settled=set(facts.settled))
            result = apply_stages(attempt.stages, model, known, attempt.allowance)
            return _Refined(attempt, result, self._find_unsupported(result, model, facts.folder))

        def keep_out_what_is_not_read(tried: Sequence[_Refined]) -> list[_RefiningAttempt]:
            """Plan the second attempt: the same stages, without operators that the backend does not support."""
            if not folds or not tried[-1].unread or len(tried) > 1:
                return []
            return [_RefiningAttempt(self.stages, allowance.keeping_out(tried[-1].unread))]

        def do_not_optimize(tried: Sequence[_Refined]) -> list[_RefiningAttempt]:
            """Plan the third attempt: only fold, without those operators."""
            if not folds or not tried[-1].unread or len(tried) > 2:
                return []
            unread = frozenset[Op]().union(*(refined.unread for refined in tried))
            return [_RefiningAttempt(self.fewer, allowance.keeping_out(unread))]

        first = _RefiningAttempt(self.stages, allowance.keeping_out(frozenset()))
        *_, last = try_attempts(first, carry_out, (), [keep_out_what_is_not_read, do_not_optimize])
        if last.unread:
            return Result(model, (), (), folded=0 if folds else None)
        allowance.made += last.attempt.allowance.made
        if self.reader.folded and last.result.model is not None:
            _separate_outputs(last.result.model, _list_joint_outputs(model))
            if last.result.changes:
                _name_nodes(last.result.model)
        return last.result

    def _find_unsupported(self, result: Result, model: ModelProto, folder: str | None) -> frozenset[Op]:
        """List operators that the backend does not support in the result of an attempt, but did before."""
        assert result.model is not None, "optional stages refuse nothing"
        unread = {(obstacle.domain, obstacle.op) for obstacle in obstacles(result.model, self.reader, folder)}
        if unread:
            unread -= {(obstacle.domain, obstacle.op) for obstacle in obstacles(model, self.reader, folder)}
        return frozenset(unread)


def _list_joint_outputs(model: ModelProto) -> set[str]:
    """List outputs of the model that come from a node with several outputs. Runs after the stages, for compilers
    only.
    """
    joint_outputs = {name for node in model.graph.node if len(node.output) > 1 for name in node.output}
    return joint_outputs & {value.name for value in model.graph.output}


def _separate_outputs(model: ModelProto, before: set[str]) -> None:
    """Give a model output an Identity node of its own, if folding made it one of several outputs of a node.
    onnx2torch yields only one output of a Split. Runs after the stages, for compilers only.
    """
    joined = sorted(_list_joint_outputs(model) - before)
    if joined:
        names = Names(model)
        inner = {name: names.fresh(name) for name in joined}
        rename(model.graph.node, inner)
        model.graph.node.extend(NodeProto(op_type="Identity", input=[inner[name]], output=[name]) for name in joined)


def _name_nodes(model: ModelProto) -> None:
    """Name nodes after their outputs: onnx2torch calls one without a name Concat_43, though another may have it."""
    taken = {node.name for node in model.graph.node}
    for node in model.graph.node:
        if not node.name and node.output and node.output[0] not in taken:
            node.name = node.output[0]
            taken.add(node.name)
