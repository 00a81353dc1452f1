"""The smallest piece that fails is a model by itself, to which remedies can be applied."""

import numpy as np
import onnx
import pytest

from opshift.trying.search import AGREES, REFUSED, Answer
from opshift.trying.smallest import Piece, smallest, with_drawn_weights, write
from tests.support import model


def test_what_a_piece_yields_has_a_type():
    source = model("a = Abs(x) b = Neg(a) y = Exp(b)", 18, inputs="float[N,3] x", outputs="float[N,3] y")

    def fails(piece, feeds):
        return Answer(REFUSED if "Neg" in {node.op_type for node in piece.graph.node} else AGREES)

    piece = smallest(source, None, {"x": np.ones((2, 3), np.float32)}, fails)
    assert [node.op_type for node in piece.model.graph.node] == ["Neg"]
    onnx.checker.check_model(piece.model, full_check=True)


@pytest.mark.parametrize("needs_the_weights", [False, True])
def test_weights_are_left_out_if_it_fails_without_them_too(tmp_path, needs_the_weights):
    weights = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    source = model("y = MatMul(x, w)", 18, inputs="float[N,3] x", outputs="float[N,64] y")
    source.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))

    def fails(piece, feeds):
        same = np.array_equal(onnx.numpy_helper.to_array(piece.graph.initializer[0]), weights)
        return Answer(AGREES if needs_the_weights and not same else REFUSED)

    piece = Piece(source, {"x": np.ones((2, 3), np.float32)}, source.graph.node[0], Answer(REFUSED))
    drawn, stripped = with_drawn_weights(piece, fails)
    assert (stripped is None) == needs_the_weights
    write(tmp_path, drawn, "opshift inline model.onnx out.onnx", "no", stripped)
    written = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    assert bool(written.graph.initializer[0].raw_data) == needs_the_weights
    assert ("opshift fill model.onnx" in (tmp_path / "command.txt").read_text()) != needs_the_weights
    assert ("inline model-filled.onnx" in (tmp_path / "command.txt").read_text()) != needs_the_weights
