"""What the words of a backend name."""

import pytest

from opshift.trying.blame import find_blamed
from opshift.verification.adapters import _shorten_error
from tests.support import model

SPLIT = model("a, b = Split<num_outputs = 2>(x) y = Add(a, b)", 18, inputs="float[4] x", outputs="float[2] y")
OPENCV = """OpenCV(5.0.0) /io/opencv/modules/dnn/src/onnx/onnx_importer.cpp:1114: error: (-2:Unspecified error) in function 'handleNode'
> Node [Split@ai.onnx]:(onnx_node!halves) parse error: OpenCV(5.0.0) /io/opencv/modules/dnn/src/layers/slice_layer.cpp:247: error: (-215:Assertion failed) inputs.size() == 1 in function 'getMemoryShapes'
>
"""


def named(name):
    SPLIT.graph.node[0].name = name
    return SPLIT


@pytest.mark.parametrize("words", ["(onnx_node!halves) parse error", "at onnx_node!halves: no", "node 'halves'"])
def test_a_node_by_its_name_with_what_importers_put_before_it(words):
    assert find_blamed(words, named("halves")) == ("Split",)


def test_what_opencv_says_names_the_operator_and_the_place():
    said = _shorten_error(ValueError(OPENCV))
    assert said == (
        "onnx_importer.cpp:1114: Node [Split@ai.onnx]:(onnx_node!halves) parse error: "
        "slice_layer.cpp:247: inputs.size() == 1 in function 'getMemoryShapes'"
    )
    assert find_blamed(said, named("other")) == ("Split",)


def test_words_that_name_nothing():
    assert find_blamed("Assertion failed!", named("halves")) == ()
