"""Load a float16 model as users do: onnxruntime crashes on some, which the proof does not see.

The proof runs the model in the types of its source, without optimizations.
"""

from __future__ import annotations

from opshift.files import external
from opshift.passes.model import tensor_data
from opshift.passes.model.messages import ModelProto
from opshift.verification import isolation
from opshift.verification.engines import LARGE, runtime
from opshift.verification.side import Side

_CRASHING = "FuseFp16InitializerToFp32NodeTransformer"
"""The optimization by which onnxruntime 1.23 to 1.32 crash where a MatMul in float16 reads a Transpose of a cast."""


def describe_crash(side: Side) -> str:
    """Say that onnxruntime crashes where it loads a model with its default optimizations; empty where it does not.

    Runs after the proof of a change to float16, but not for models of more than 256 MB.
    """
    if isolation.is_watched() or sum(map(tensor_data.nbytes, side.model.graph.initializer)) > LARGE:
        return ""
    model = external.runnable(side.model, side.folder, embedded=True) if side.folder is not None else side.model
    if not _crashes(model):
        return ""
    option = f'; it loads with disabled_optimizers=["{_CRASHING}"]' if not _crashes(model, _CRASHING) else ""
    return (
        f"onnxruntime {runtime().__version__} crashes where it loads the result with its default optimizations{option}"
    )


def _crashes(model: ModelProto, *without: str) -> bool:
    """Load a model in another process to see if that crashes. A refused model does not count as a crash."""
    try:
        isolation.call(_load, model.SerializeToString(), without)
    except isolation.Ended as ended:
        return not (ended.late or ended.full)
    return False


def _load(model: bytes, without: tuple[str, ...]) -> None:
    """Load a model in onnxruntime. Runs in another process."""
    isolation.end_after(_SECONDS)
    try:
        ort = runtime()
        options = ort.SessionOptions()
        options.log_severity_level = 4
        ort.InferenceSession(model, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(without))
    except Exception:
        return


_SECONDS = 60
