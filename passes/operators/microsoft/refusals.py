"""Operators that search, that read caches in pages, or whose text tells too little."""

from __future__ import annotations

from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.rewrite.registry import refused

_SEARCHES = "it runs the graphs in its attributes until a search ends that no text describes; the graphs alone could be"
_PAGED = "its cache lies in pages that a table at run time points to; a cache of one buffer could be expressed"
_PACKED = "it takes sequences of several lengths packed into one without padding; padded ones could be expressed"
_SPARSE = "which keys a query attends is chosen at run time and in no text; attention to all could be expressed"
_BOUND = "it writes into a buffer that is bound to its result, at places told at run time; values could be expressed"

_CUDA = "only CUDA runs it, and its text leaves open what it computes"

_ORDERS = 'its matrices lie in "specific layout used in cublaslt", which no operator of ONNX reads; row by row could be'
_BFP = "it says of the bytes that documentation can be found in a paper, and not where the exponents of blocks lie"

REASONS = {
    _ORDERS: (
        *("DequantizeWithOrder", "QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization"),
        *("QOrderedLongformerAttention", "QOrderedMatMul", "QuantizeWithOrder"),
    ),
    _BFP: ("DequantizeBFP", "QuantizeBFP"),
    'its text has a "Scale of the output tensor if A or B is float 8", and not whether that multiplies or divides': (
        "GemmFloat8",
    ),
    "its scales are 8-bit floats in bytes of another type, which no operator reads; 8-bit floats could be expressed": (
        "MatMulBlockQuantizedFp4Weight",
    ),
    _SEARCHES: ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"),
    _PAGED: ("PagedAttention", "SparsePagedAttention"),
    _PACKED: (
        "PackedAttention",
        "PackedMultiHeadAttention",
        "RemovePadding",
        "RestorePadding",
    ),
    _SPARSE: ("DynamicSparseAttention", "PackedSparseAttentionIndexer", "SparseAttentionIndexer"),
    _CUDA: ("LongformerAttention", "RelativePositionBias"),
    _BOUND: ("ConvStateReplay", "GatedDeltaNetStateReplay"),
    "it publishes what is accepted in a ring at an address of the device, which an input holds": (
        "SpeculativePrefixCommit",
    ),
    "it joins the choices of PackedSparseAttentionIndexer, which cannot be expressed": (
        "PackedSparseAttentionIndexerMerge",
    ),
    'its text leaves "format IDs and their stable byte layouts" to another page, and no CPU kernel judges them; QMoE '
    "could be expressed": ("MoEPacked",),
    'its text packs "[gate, xBC, dt]" and keeps three of four taps of a convolution: it does not say in which order x, '
    "B and C lie there, nor the taps": ("Mamba2Verify",),
    "its four flags are inputs, which decide at run time what it reads and how long its caches are": (
        "DecoderAttention",
    ),
    "the keys of its cache are reordered by the width of the GPU's loads": ("DecoderMaskedSelfAttention",),
    "it holds what another backend compiled; the model from which that was made could be expressed": (
        "EPContext",
        "Snpe",
    ),
    "past and present must lie in one buffer, which no call of a model says; GroupQueryAttention could be": (
        "SparseAttention",
    ),
    "its text says neither how words are cut nor what follows the convolution": ("WordConvEmbedding",),
    "it multiplies tokens by numbers, and the kernel wraps around (2**40 * 2**40 was seen to): no text says what Mul "
    "is beyond the range of its type": (
        "NGramHashMapping",
        "VarlenNGramHashMapping",
    ),
    "its weights lie in the order of a blob that the kernel alone packs; MatMulNBits could be expressed": (
        "MatMulFpQ4",
    ),
    "its text leaves open where the offsets of packed tokens are read; MultiHeadAttention with a bias could be": (
        "GatedRelativePositionBias",
    ),
}

for why, operators in REASONS.items():
    refused(operators, why, domain=MICROSOFT)
