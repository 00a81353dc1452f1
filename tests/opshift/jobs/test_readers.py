"""Which targets read a model as it is: the oldest version of each runtime, and what few runtimes have."""

from opshift.passes.backends.door import obstacles, targets

from opshift.jobs.readers import count_runtimes, rare_operators, readers
from tests.support import model

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}


def test_the_versions_that_read_a_model_are_those_in_whose_way_nothing_stands():
    source = model("y = HardSwish(x)", 14, **IO)
    found = readers(source, None)
    named = {name for versions in found.reads.values() for name in versions}
    for name, backend in targets().items():
        if name in named:
            assert not list(obstacles(source, backend)), name
    assert found.reads["onnxruntime"][-1] in targets()
    assert "onnxruntime-1.0" not in named
    newest = {versions[-1] for versions in found.reads.values()} | set(found.blocked)
    assert len(newest) == count_runtimes()


def test_a_vendor_operator_is_in_the_way():
    source = model("y = my.F(x)", 14, domains='"my" : 1', **IO)
    found = readers(source, None)
    assert not found.reads.get("tensorrt")
    assert found.blocked["rknn-2.5"] == 1


def test_operators_that_many_runtimes_lack_are_rare():
    assert rare_operators(model("y = Relu(x)", 14, **IO)) == {}
    found = rare_operators(model("y = Det(x)", 11, inputs="float[3,3] x", outputs="float y"))
    assert found["Det"] > count_runtimes() / 3
    assert not rare_operators(model("y = Relu(x)", 14, **IO))
