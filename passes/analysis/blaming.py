"""Turn an exception of a rewrite into `InvalidModel` if the model is not valid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from google.protobuf.message import Error as ProtobufError
from opshift.passes.errors import InvalidModel
from opshift.passes.model import legality
from opshift.passes.model.messages import ModelProto


@contextmanager
def blaming(source: ModelProto) -> Iterator[None]:
    """Wrap a rewrite: if it fails and the model is not valid, raise `InvalidModel` with the reason.

    Rewrites do not check nodes, so they may fail at a missing input or attribute.
    """
    try:
        yield
    except (InvalidModel, ProtobufError):
        raise
    except Exception as error:
        from opshift.passes.analysis.inferring.strict_inference import contradiction

        for problem in legality.problems(source):
            raise InvalidModel(f"the model is not valid: {problem.op} {problem.node!r} is {problem.why}") from error
        if why := contradiction(source):
            raise InvalidModel(f"the model is not valid: {why}") from error
        if isinstance(error, ValueError):  # a ValueError would mean that the user's options are wrong
            raise RuntimeError(str(error)) from error
        raise
