"""Operators that search, that read caches in pages, or whose text tells too little."""

from __future__ import annotations

from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.rewrite.registry import refused

_SEARCHES = "it runs the graphs in its attributes until a search ends that no text describes; the graphs alone could be"
_PAGED = "its cache lies in pages that a table at run time points to; a cache of one buffer could be expressed"
_PACKED = "it takes sequences of several lengths packed into one without padding; padded ones could be expressed"
_SPARSE = "which keys a query attends is chosen at run time and in no text; attention to all could be expressed"
_CUDA = "only CUDA runs it, and its text leaves open what it computes"

REASONS = {
    _SEARCHES: ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"),
    _PAGED: ("PagedAttention", "SparsePagedAttention"),
    _PACKED: (
        "PackedAttention",
        "PackedMultiHeadAttention",
        "RemovePadding",
        "RestorePadding",
        "VarlenCausalConvWithState",
        "VarlenNGramHashMapping",
    ),
    _SPARSE: ("DynamicSparseAttention", "PackedSparseAttentionIndexer", "SparseAttentionIndexer"),
    _CUDA: ("GatedDeltaNet", "LongformerAttention", "RelativePositionBias"),
    "its four flags are inputs, which decide at run time what it reads and how long its caches are": (
        "DecoderAttention",
    ),
    "the keys of its cache are reordered by the width of the GPU's loads": ("DecoderMaskedSelfAttention",),
    "it holds what another backend compiled; the model from which that was made could be expressed": (
        "EPContext",
        "Snpe",
    ),
}

for why, operators in REASONS.items():
    refused(operators, why, domain=MICROSOFT)
