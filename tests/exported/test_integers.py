"""Exported models with int64 narrowed compute the same, and no arithmetic is left on it but between sizes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from opshift.passes.types.changing import change
from opshift.passes.types.fitting import ARITHMETIC, SIZES_ALONE
from opshift.passes.types.problem import Problem
from opshift.passes.types.wanted import types

from tests.exported import store
from tests.support import evaluate

T = TensorProto
NAMES = [
    *("torch/embedding.dynamic/dynamo-23", "torch/llama_by_hand.dynamic/torchscript-20", "torch/norms/torchscript-20"),
    *("transformers/bert.eager.dynamic/torchscript-20", "transformers/gpt2.eager.dynamic/torchscript-20"),
    *("transformers/llama.eager.dynamic/torchscript-20", "transformers/t5.eager/torchscript-20"),
    "transformers/whisper.sdpa/torchscript-20",
]


@pytest.mark.newest
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("interface", ["keep", "narrow"])
def test_outputs_are_the_same(name: str, interface: str):
    export = next(each for each in store.read(name.split("/")[0]) if each.name == name)
    result = change(export.model, types("int64=int32", interface))
    assert result.model is not None
    assert result.changes
    kinds = {value.name: value.type.tensor_type.elem_type for value in result.model.graph.input}
    feeds = {
        n: v.astype(np.int32) if kinds[n] == T.INT32 and v.dtype == np.int64 else v for n, v in export.feeds.items()
    }
    for one, other in zip(evaluate(export.model, export.feeds), evaluate(result.model, feeds), strict=True):
        np.testing.assert_array_equal(other.astype(one.dtype), one)
    stays = {each.output: each.why for each in result.types.kept} if result.types is not None else {}
    left = Problem(result.model, types("int64=int32")).main
    for node in left.nodes:
        read = [left.find(each) for each in (*node.input, *node.output) if each]
        if node.op_type in ARITHMETIC and any(value is not None and value.elem_type == T.INT64 for value in read):
            first = left.find(node.input[0]) if node.input else None
            on_floats = first is not None and first.elem_type != T.INT64
            assert on_floats or stays.get(node.output[0]) == SIZES_ALONE, node
