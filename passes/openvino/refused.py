"""Layers of which nothing is made, each with the reason: what it would take, and what could be expressed."""

from __future__ import annotations

_STATE = (
    "a state that outlives a run, which ONNX does not have; without states, as OpenVINO's MakeStateless makes inputs "
    "and outputs of them, it could be expressed"
)
_TURNED = "boxes that are turned, of which no operator of ONNX finds what they have in common"
_TEXT = "strings as bytes and where they end, which ONNX has no operators for"

REFUSED = {
    "Assign": _STATE,
    "BinaryConvolution": "products of bits, which ONNX does not have; a convolution of numbers could be expressed",
    "CTCLoss": "a loss, which belongs to training; what is behind the scores could be expressed",
    "DeformablePSROIPooling": "parts of regions that move, which ONNX does not have; PSROIPooling could be expressed",
    "GroupedMatMul": "products of groups of rows, which OpenVINO does not run on CPUs; MatMul could be expressed",
    "Inverse": "the inverse of a matrix, which ONNX does not have; a constant one could be expressed",
    "NMSRotated": _TURNED,
    "ROIAlignRotated": _TURNED,
    "ReadValue": _STATE,
    "SparseFillEmptyRows": "a sparse matrix of three tensors, which ONNX does not have",
    "StringTensorPack": _TEXT,
    "StringTensorUnpack": _TEXT,
}
