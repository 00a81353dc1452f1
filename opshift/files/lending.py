"""Models as users give them: a path, an `onnx.ModelProto` or an `onnx_ir.Model`, as messages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast, overload

from opshift.files import external, model_file
from opshift.passes import progress
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data
from opshift.passes.model.imports import add_missing, missing
from opshift.passes.model.messages import ModelProto, copy_model

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    Held = TypeVar("Held", onnx.ModelProto, onnx_ir.Model)

P = ParamSpec("P")


class ModelRewriting(Protocol[P]):
    """A function that yields a model of the kind that it is given; for a path, a message."""

    @overload
    def __call__(self, model: str | os.PathLike[str], *args: P.args, **kwargs: P.kwargs) -> onnx.ModelProto: ...
    @overload
    def __call__(self, model: Held, *args: P.args, **kwargs: P.kwargs) -> Held: ...


def rewriting(function: Callable[Concatenate[Any, P], Any]) -> ModelRewriting[P]:
    """The function itself, of which type checkers know what it yields."""
    return cast("ModelRewriting[P]", function)


class Loan(NamedTuple):
    """The message behind what a user gave, where its external data lie, and what makes the same kind of another."""

    proto: ModelProto
    folder: str | None
    back: Callable[[ModelProto], Any]


@contextmanager
def lend(model: Any) -> Iterator[Loan]:
    """Lend a model as a message. Weights of an `onnx_ir.Model` stay outside, and can be read while this lasts."""
    if _is_ir(model):
        from opshift.passes import bridge

        with bridge.lend(model) as (proto, back):
            add_missing(proto)
            yield Loan(proto, None, back)
    else:
        proto, folder = load_model(model)
        yield Loan(
            proto,
            folder,
            (lambda made: model_file.embed_data(made, folder)) if folder is not None else lambda made: made,
        )


def load_model(model: Any) -> tuple[ModelProto, str | None]:
    """The message, and the folder of its external data where it has one."""
    if isinstance(model, (str, os.PathLike)):
        progress.tell(f"read {Path(model).name}")
        return model_file.read(model), str(Path(model).resolve().parent)
    if isinstance(model, ModelProto):
        return _complete(model), None
    if _is_ir(model):
        import onnx_ir

        from opshift.passes import bridge

        made = onnx_ir.to_proto(model)
        add_missing(made)
        return made, bridge.folder(model)
    raise InvalidModel(f"give a path, an onnx.ModelProto or an onnx_ir.Model, not {type(model).__name__}")


def within(model: ModelProto, folder: str | None) -> ModelProto:
    """A copy with all data in its message."""
    made = copy_model(model)
    for tensor in list(external.tensors(made)):
        if tensor_data.is_stored(tensor):
            tensor.CopyFrom(tensor_data.load_or_raise(tensor, folder))
    return made


def as_given(model: ModelProto, *given: Any) -> Any:
    """A message as what was given: a model of `onnx_ir` where all of these are."""
    if not all(map(_is_ir, given)):
        return model
    import onnx_ir

    return onnx_ir.from_proto(model)


def _complete(model: ModelProto) -> ModelProto:
    """The model, or a copy that imports what it calls."""
    if not missing(model):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    add_missing(made)
    return made


def _is_ir(model: object) -> bool:
    return type(model).__module__.partition(".")[0] == "onnx_ir"
