"""Attributes that change nothing of what a layer computes, each with the reason.

A layer with any other attribute that its function does not read is refused.
"""

from __future__ import annotations

_PADS = dict.fromkeys(("pads_begin", "pads_end"), "with another auto_pad than explicit, the sizes tell")
_POOL = {**_PADS, "axis": "the places, which nobody reads", "index_element_type": "the places, which nobody reads"}
_NUMBERS = dict.fromkeys(("activations_alpha", "activations_beta"), "the activations take no numbers")

IDLE: dict[str, dict[str, str]] = {
    "AvgPool": _PADS,
    "Convolution": _PADS,
    "ConvolutionBackpropData": _PADS,
    "Divide": {"m_pythondiv": "OpenVINO floors constants alone"},
    "GRUCell": _NUMBERS,
    "GRUSequence": _NUMBERS,
    "GroupConvolution": _PADS,
    "GroupConvolutionBackpropData": _PADS,
    "Interpolate": {
        "cube_coeff": "mode=cubic alone",
        "nearest_mode": "mode=nearest alone",
    },
    "LSTMCell": _NUMBERS,
    "LSTMSequence": _NUMBERS,
    "MVN": {"eps": "normalize_variance=false", "eps_mode": "normalize_variance=false"},
    "MaxPool": _POOL,
    "RNNCell": _NUMBERS,
    "RNNSequence": _NUMBERS,
    "ScatterElementsUpdate": {"use_init_val": "reduction=none"},
    "TopK": {"stable": "ONNX keeps the order of equal values, and without it any order will do"},
}
