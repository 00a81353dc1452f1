"""Models by which types are tried in a backend."""

import onnx.helper
from opshift.passes.model import installed

from opshift.probing import tasks


def test_a_type_that_the_installed_onnx_has_no_arrays_of_is_tried_without_any(monkeypatch):
    def unknown(elem_type):
        raise KeyError(elem_type)

    assert len(list(tasks.holding("tensor(float4e2m1)"))) == 2
    monkeypatch.setattr(onnx.helper, "tensor_dtype_to_np_dtype", unknown)
    monkeypatch.setattr(installed, "reads", lambda _: False)
    (task,) = tasks.holding("tensor(float4e2m1)")
    assert [node.op_type for node in onnx.load_model_from_string(task.model).graph.node] == ["Cast", "Identity", "Cast"]
