"""Exported models, brought to a new opset and folded: the frameworks that wrote them say what they compute."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold

from tests import pairs
from tests.exported import store
from tests.support import evaluate

OPSET = 23
EXPORTS = {
    export.name: export
    for framework in store.frameworks()
    for export in store.read(framework)
    if export.opset in (11, 17, 18, 21) and "raw" not in export.exporter and "dynamic" not in export.family
}

WRITTEN_OUT = {
    "torch/attention/dynamo-18": {"Attention": 1},
    "torch/attention_bool_mask/torchscript-17": {"Attention": 1},
    "torch/attention_causal/torchscript-17": {"Attention": 1},
    "torch/encoder/dynamo-18": {"Attention": 2, "Gelu": 2},
    "torch/encoder_by_hand/torchscript-11": {"Attention": 2, "Gelu": 2, "LayerNormalization": 4},
    "torch/group_norm/dynamo-18": {"GroupNormalization": 2},
    "torch/layer_norm/torchscript-11": {"LayerNormalization": 3},
    "torch/llama/dynamo-18": {"Attention": 1, "RMSNormalization": 2, "RotaryEmbedding": 2},
    "torch/mobilenet/torchscript-11": {"HardSwish": 3},
    "transformers/bert.sdpa/torchscript-17": {"Attention": 2, "Gelu": 2},
    "transformers/gpt2.eager/torchscript-11": {"Attention": 2, "Gelu": 2, "LayerNormalization": 5},
    "transformers/llama.sdpa/dynamo-18": {"Attention": 2, "RMSNormalization": 5, "RotaryEmbedding": 4},
    "transformers/qwen3.sdpa/dynamo-18": {"Attention": 2, "RMSNormalization": 9, "RotaryEmbedding": 4},
    "transformers/t5.eager/dynamo-18": {"Attention": 3, "Gelu": 2, "RMSNormalization": 7},
    "transformers/whisper.eager/torchscript-17": {"Attention": 3, "Gelu": 4},
    "tensorflow/encoder/tf2onnx-11": {"Attention": 1, "Gelu": 1, "LayerNormalization": 2},
    "keras/norms/tf2onnx-18": {"LayerNormalization": 2},
    "jax/encoder/jax2onnx_decomposed-21": {"Attention": 1, "LayerNormalization": 2},
}
"""The operators that take the places of others, as often as the architecture has them."""


def modernized(export):
    raised = convert.attempt(export.model, {"": OPSET})
    assert not raised.refusals
    return raised.model, fold.attempt(raised.model)


@pytest.mark.parametrize("name", pairs.some(list(EXPORTS), 12))
def test_a_folded_model_computes_what_its_framework_did(name):
    export = EXPORTS[name]
    raised, result = modernized(export)
    assert len(result.model.graph.node) <= len(raised.graph.node)
    if not result.changes:
        assert result.model == raised
        return
    onnx.checker.check_model(result.model, full_check=True)
    for expected, actual in zip(export.outputs, evaluate(result.model, export.feeds), strict=True):
        assert expected.shape == actual.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", pairs.some(list(WRITTEN_OUT), 2))
def test_operators_are_found_as_often_as_the_architecture_has_them(name):
    _, result = modernized(EXPORTS[name])
    found = {op: count for (_, op), count in result.after.items() if op in WRITTEN_OUT[name]}
    assert found == WRITTEN_OUT[name]
