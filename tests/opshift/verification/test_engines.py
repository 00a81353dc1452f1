"""What engines are given of a model."""

import numpy as np
import onnx.parser

from opshift.verification.engines import OnnxRuntime, Reference


def test_an_output_without_a_name_is_no_value_of_inputs_that_are_left_out():
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 14, "f" : 1]> g (float[1,1,1] x, float[2] q, float c) => (float[2] y, float[1,1,1] h)
        { "", h = RNN<hidden_size=1>(x, x, x) y = f.F(q, c) }
        <domain: "f", opset_import: ["" : 14]> F (q, c) => (y) { y = Clip(q, "", c) }"""
    )
    given = {"x": np.ones((1, 1, 1), np.float32), "q": np.float32([-2, 9]), "c": np.array(5, np.float32)}
    kept = model.SerializeToString()
    for engine in (OnnxRuntime, Reference):
        np.testing.assert_array_equal(engine(model).run(given)[0], np.float32([-2, 5]))
    assert model.SerializeToString() == kept
