"""The smallest piece that fails is a model by itself, to which remedies can be applied."""

import numpy as np
import onnx

from opshift.trying.search import AGREES, REFUSED, Answer
from opshift.trying.smallest import smallest
from tests.support import model


def test_what_a_piece_yields_has_a_type():
    source = model("a = Abs(x) b = Neg(a) y = Exp(b)", 18, inputs="float[N,3] x", outputs="float[N,3] y")

    def fails(piece, feeds):
        return Answer(REFUSED if "Neg" in {node.op_type for node in piece.graph.node} else AGREES)

    piece = smallest(source, None, {"x": np.ones((2, 3), np.float32)}, fails)
    assert [node.op_type for node in piece.model.graph.node] == ["Neg"]
    onnx.checker.check_model(piece.model, full_check=True)
