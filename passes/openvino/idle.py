"""Attributes that change nothing of what a layer computes, each with the reason.

A layer with any other attribute that its function does not read is refused.
"""

from __future__ import annotations

_PADS = dict.fromkeys(("pads_begin", "pads_end"), "with another auto_pad than explicit, the sizes tell")
_OLD = "written by old converters; it is for transposed convolutions"
_NUMBERS = dict.fromkeys(("activations_alpha", "activations_beta"), "the activations take no numbers")

IDLE: dict[str, dict[str, str]] = {
    "Convolution": {**_PADS, "output_padding": _OLD},
    "ConvolutionBackpropData": _PADS,
    "DetectionOutput": {
        "num_classes": "the sizes tell",
        "objectness_score": "of a first stage, which is not there",
    },
    "Divide": {"m_pythondiv": "OpenVINO floors constants alone"},
    "GRUCell": _NUMBERS,
    "GRUSequence": _NUMBERS,
    "GroupConvolution": {**_PADS, "output_padding": _OLD},
    "GroupConvolutionBackpropData": _PADS,
    "Interpolate": {
        "cube_coeff": "mode=cubic alone",
        "nearest_mode": "mode=nearest alone",
    },
    "LSTMCell": _NUMBERS,
    "LSTMSequence": _NUMBERS,
    "MVN": {"eps": "normalize_variance=false", "eps_mode": "normalize_variance=false"},
    "MaxPool": dict.fromkeys(("axis", "index_element_type"), "the indices, which are unused"),
    "RegionYolo": {
        "anchors": "boxes are computed behind it",
        "num": "do_softmax=false, where mask tells",
        **dict.fromkeys(("axis", "end_axis"), "do_softmax=false, where nothing is joined"),
    },
    "Multinomial": dict.fromkeys(("global_seed", "op_seed"), "other numbers are drawn anyway"),
    "RNNCell": _NUMBERS,
    "RNNSequence": _NUMBERS,
    "RandomUniform": dict.fromkeys(("alignment", "global_seed", "op_seed"), "other numbers are drawn anyway"),
    "ScatterElementsUpdate": {"use_init_val": "reduction=none"},
    "TopK": {"stable": "ONNX keeps the order of equal values, and without it any order will do"},
}
