"""Who is at fault where a rewrite fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from google.protobuf.message import Error as ProtobufError
from opshift.passes.errors import InvalidModel
from opshift.passes.model import legality
from opshift.passes.model.messages import ModelProto


@contextmanager
def blaming(source: ModelProto) -> Iterator[None]:
    """Rewrites trust that nodes have what they must have: `InvalidModel` says where they fail for want of it."""
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
        if isinstance(error, ValueError):  # which to a user means something that was asked for in vain
            raise RuntimeError(str(error)) from error
        raise
