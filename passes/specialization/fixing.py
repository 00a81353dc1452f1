"""A model with sizes and inputs fixed: they are written into it, and what follows is computed once."""

from __future__ import annotations

from dataclasses import replace

from opshift.passes.analysis.blaming import blaming
from opshift.passes.analysis.inferring.strict_inference import contradiction
from opshift.passes.changes import Batch, Change, Result
from opshift.passes.inputs.sizes import BatchSize
from opshift.passes.inputs.wanted import ResolvedInputs, Wanted, resolve
from opshift.passes.inputs.writing import SIZED, write
from opshift.passes.model.imports import check_imports, check_opsets
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.process import collector_paused
from opshift.passes.specialization import declare, rebatching
from opshift.passes.specialization.follow import follow, separate

ANNOTATED = "Declared inferred types and shapes"
_OPAQUE = "opaque"  # a domain of which inference knows nothing


@collector_paused()
def attempt(source: ModelProto, wanted: Wanted, rebatch: BatchSize | None = None, folder: str | None = None) -> Result:
    """A copy of `source` with sizes and inputs fixed, and then with another number of samples in its batch.

    Nothing is refused but nodes that mix samples, of a model that does not take any number of them already. `folder` is
    where external data lie.

    Raises:
        ValueError: the model has no such input or dimension, or one of another rank, size or type, or its operators
            do not take such sizes.
    """
    check_opsets(source)
    check_imports(source)
    model = _copy(source)
    changes = write(model, resolve(wanted, source))
    changes += follow_fixed(model, wanted, folder)
    _check(source, model)
    result = Result(model, tuple(changes), ())
    return result if rebatch is None else _rebatch(result, rebatching.places(source), rebatch, wanted, folder)


def _rebatch(
    fixed: Result, samples: rebatching.SamplePlaces, size: BatchSize, wanted: Wanted, folder: str | None
) -> Result:
    assert fixed.model is not None, "what is fixed refuses nothing"
    if samples.are_open(fixed.model):
        return _of_any_number(fixed, samples, size, wanted, folder) if isinstance(size, int) else fixed
    result, earlier = _with_states(fixed.model, samples, size, folder), fixed.changes
    if result.model is None:
        model = _copy(fixed.model)
        with blaming(model):
            changes = separate(model, folder)
        result, earlier = _with_states(model, samples, size, folder), (*earlier, *changes)
    later = follow_fixed(result.model, wanted, folder) if result.model is not None else []
    return replace(result, changes=(*earlier, *result.changes, *later))


def _with_states(model: ModelProto, samples: rebatching.SamplePlaces, size: BatchSize, folder: str | None) -> Result:
    """Change the batch size of states, too, where they look like it; else of nothing that no name tells."""
    result = rebatching.attempt(model, rebatching.likely(model, samples), size, folder)
    return result if result.model is not None else rebatching.attempt(model, samples, size, folder)


def _of_any_number(
    fixed: Result, samples: rebatching.SamplePlaces, size: int, wanted: Wanted, folder: str | None
) -> Result:
    """The same of a model that takes any number of samples already: that number becomes a size."""
    assert fixed.model is not None, "what is fixed refuses nothing"
    model = _copy(fixed.model)
    changes = write(model, ResolvedInputs({}, {samples.name: size} if samples.name else {}, {}))
    for value in model.graph.input:
        if value.name in samples.axes:
            value.type.tensor_type.shape.dim[samples.axes[value.name]].dim_value = size
    changes = changes or [Change(name, "input", "", 0, 0, SIZED) for name in samples.axes]
    changes += follow_fixed(model, wanted, folder)
    _check(fixed.model, model)
    batch = Batch(size, samples.axes, {})  # so many at once are what the source takes, too
    return replace(fixed, model=model, changes=(*fixed.changes, *changes), batch=batch)


def follow_fixed(model: ModelProto, wanted: Wanted, folder: str | None = None) -> list[Change]:
    """Fold what becomes constant by fixed sizes and inputs. Changes the model itself, and returns the changes."""
    with blaming(model):
        changes = follow(model, frozenset(wanted.values), folder)
        declare.mend(model)
    return changes


def annotate(source: ModelProto) -> Result:
    """A copy that declares of values between what follows of their types."""
    model = _copy(source)
    more = declare.annotate(model)
    changes = [Change("", "value_info", "", 0, 0, ANNOTATED)] if more else []
    return Result(model, tuple(changes), ())


def _copy(source: ModelProto) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(source)
    return model


def _check(source: ModelProto, model: ModelProto) -> None:
    """Raise `ValueError` where operators do not take the sizes, though nothing was wrong with them before.

    What stands in branches may never run, and is not judged.
    """
    why = contradiction(_without_graphs(model), checked=False)
    if why and not contradiction(_without_graphs(source), checked=False):
        raise ValueError(f"the model cannot run at the sizes that are fixed: {why}")


def _without_graphs(model: ModelProto) -> ModelProto:
    """A copy in which nothing is known of nodes that hold graphs, or declared of values between."""
    if not any(node.attribute and any(True for _ in subgraphs(node)) for node in model.graph.node):
        return model
    bare = _copy(model)
    for node in bare.graph.node:
        if any(True for _ in subgraphs(node)):
            node.domain = _OPAQUE
            del node.attribute[:]
    bare.opset_import.add(domain=_OPAQUE, version=1)
    return bare
