"""One of two models that are compared: what it is, where its data lie, and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from opshift.passes.model import tensor_data
from opshift.passes.model.messages import ModelProto, ValueInfoProto
from opshift.passes.records import dataclass
from opshift.verification.engines import LARGE, EngineError, OnnxRuntime, Session
from opshift.verification.precision import as_written

Engine = Callable[..., Session]


@dataclass(frozen=True)
class Side:
    """A model to run.

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

    @property
    def named(self) -> str:
        """What the engine is called."""
        return str(getattr(self.engine, "engine", "openvino"))

    @property
    def is_large(self) -> bool:
        """Whether the weights are what takes memory."""
        return sum(map(tensor_data.nbytes, self.model.graph.initializer)) > LARGE

    def in_place_of(self, engine: Engine) -> Engine:
        """What runs this model where `engine` would: a network has its own."""
        if self.network is None:
            return engine
        from opshift.verification.adapters import running

        return running(self.network)

    def open(self, outputs: Sequence[str] = (), more: Sequence[str] = ()) -> Session:
        """A session that yields `outputs` after those of the graph; raises `EngineError`, which names the engine.

        One of our `ENGINES` knows of `more`, too, and yields them only where it is asked for `values`.
        """
        model, asked = self.model, dict[str, list[str]]()
        if outputs or more:
            model = ModelProto()
            model.CopyFrom(self.model)
            model.graph.output.extend(ValueInfoProto(name=name) for name in (*outputs, *more))
            asked = {"outputs": [value.name for value in model.graph.output][: -len(more)]} if more else asked
        written = as_written(model) if self.engine is OnnxRuntime else model
        if written is not model:
            with suppress(EngineError):
                return self.engine(written, folder=self.folder, **asked)
        try:
            return self.engine(model, folder=self.folder, **asked)
        except EngineError as error:
            raise EngineError(f"{self.named}: {error}") from None
