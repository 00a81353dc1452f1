"""One of the two models of a comparison, with its folder and its engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from opshift.passes.model import tensor_data
from opshift.passes.model.messages import ModelProto, ValueInfoProto, copy_model
from opshift.passes.records import dataclass, replace
from opshift.verification.engines import LARGE, EngineError, OnnxRuntime, Session
from opshift.verification.precision import as_written

Engine = Callable[..., Session]


@dataclass(frozen=True)
class Side:
    """A model, the folder of its data, and the engine that runs it.

    Attributes:
        model: the message.
        folder: of its external data.
        network: the OpenVINO network that the model was made of, which runs in its place.
        engine: what runs it.
    """

    model: ModelProto
    folder: str | None = None
    network: str | None = None
    engine: Engine = OnnxRuntime

    def checked(self) -> Side:
        """Return the side with its nodes in order; raises `InvalidModel` if ONNX does not allow its model."""
        from opshift.passes.conversion.convert import check_in_any_order  # which processes that run models do not need

        return replace(self, model=check_in_any_order(self.model))

    @property
    def engine_name(self) -> str:
        """The name of the engine."""
        return str(getattr(self.engine, "engine", "openvino"))

    @property
    def is_large(self) -> bool:
        """Whether the weights are too large to run the whole model by default."""
        return sum(map(tensor_data.nbytes, self.model.graph.initializer)) > LARGE

    def in_place_of(self, engine: Engine) -> Engine:
        """Return the engine to use: a network of OpenVINO has its own. Asked when an engine is chosen."""
        if self.network is None:
            return engine
        from opshift.verification.adapters import running

        return running(self.network)

    def open(self, outputs: Sequence[str] = (), more: Sequence[str] = ()) -> Session:
        """Open a session that also returns the inner values `outputs`; raises `EngineError`. Runs for each whole model.

        One of our `ENGINES` knows of `more`, too, and yields them only where `run` is given their names.
        """
        model, asked = self.model, dict[str, list[str]]()
        if outputs or more:
            model = copy_model(self.model)
            model.graph.output.extend(ValueInfoProto(name=name) for name in (*outputs, *more))
            asked = {"outputs": [value.name for value in model.graph.output][: -len(more)]} if more else asked
        written = as_written(model) if self.engine is OnnxRuntime else model
        if written is not model:
            with suppress(EngineError):
                return self.engine(written, folder=self.folder, **asked)
        try:
            return self.engine(model, folder=self.folder, **asked)
        except EngineError as error:
            raise EngineError(f"{self.engine_name}: {error}") from None
