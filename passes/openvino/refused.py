"""Layers that ONNX cannot express, each with the reason."""

from __future__ import annotations

_STATE = (
    "a state that is kept between runs, which ONNX does not have; try OpenVINO's MakeStateless, which makes "
    "inputs and outputs of states"
)
_TURNED = "rotated boxes, whose overlap no ONNX operator computes"
_TEXT = "strings packed into bytes, which ONNX has no operators for"

REFUSED = {
    "Assign": _STATE,
    "BinaryConvolution": "binary products, which ONNX does not have; supported: Convolution",
    "CTCLoss": "a loss, which belongs to training; supported: the network up to the scores",
    "DeformablePSROIPooling": "deformable regions, which ONNX does not have; supported: PSROIPooling",
    "GroupedMatMul": "grouped products, which OpenVINO does not run on CPUs; supported: MatMul",
    "Inverse": "the inverse of a matrix, which ONNX does not have; supported: a constant matrix",
    "NMSRotated": _TURNED,
    "ROIAlignRotated": _TURNED,
    "ReadValue": _STATE,
    "SparseFillEmptyRows": "a sparse matrix in three tensors, which ONNX does not have",
    "StringTensorPack": _TEXT,
    "StringTensorUnpack": _TEXT,
}
