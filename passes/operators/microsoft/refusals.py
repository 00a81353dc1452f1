"""Operators that ONNX cannot express, or whose documentation says too little, each with the reason."""

from __future__ import annotations

from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.rewrite.registry import refused

_SEARCHES = "it runs its subgraphs in a search that is not documented; supported: the subgraphs as models of their own"
_PAGED = "its cache is paged; supported: a cache in one buffer"
_PACKED = "it takes sequences of different lengths packed into one; supported: padded sequences"
_SPARSE = (
    "it chooses at run time which keys a query attends to, in an undocumented way; supported: attention to all keys"
)
_BOUND = "it writes into a buffer in place, which ONNX cannot express"

_CUDA = "only CUDA runs it, and its documentation does not say what it computes"

_ORDERS = (
    'its matrices lie in "specific layout used in cublaslt", which ONNX cannot read; supported: row-major matrices'
)
_BFP = "its documentation does not say where the bytes hold the exponents of blocks"

REASONS = {
    _ORDERS: (
        *("DequantizeWithOrder", "QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization"),
        *("QOrderedLongformerAttention", "QOrderedMatMul", "QuantizeWithOrder"),
    ),
    _BFP: ("DequantizeBFP", "QuantizeBFP"),
    'it is not documented whether "Scale of the output tensor if A or B is float 8" multiplies or divides': (
        "GemmFloat8",
    ),
    "its scales are 8-bit floats stored as another type, which ONNX cannot read; supported: float8 tensors": (
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
    "it writes to an address in device memory": ("SpeculativePrefixCommit",),
    "it reads the result of PackedSparseAttentionIndexer, which is refused": ("PackedSparseAttentionIndexerMerge",),
    'its documentation leaves "format IDs and their stable byte layouts" to another page, and no CPU kernel shows '
    "them; supported: QMoE": ("MoEPacked",),
    'its input packs "[gate, xBC, dt]", and its documentation does not say in which order x, B and C lie there': (
        "Mamba2Verify",
    ),
    "its four flags are inputs: which inputs it reads is dynamic": ("DecoderAttention",),
    "the layout of its cache depends on the GPU": ("DecoderMaskedSelfAttention",),
    "it holds a model compiled for one backend; supported: the model before it was compiled": (
        "EPContext",
        "Snpe",
    ),
    "past and present must share a buffer, which a model cannot state; supported: GroupQueryAttention": (
        "SparseAttention",
    ),
    "its documentation says neither how words are split nor what follows the convolution": ("WordConvEmbedding",),
    "it relies on integers that wrap around (2**40 * 2**40), which ONNX does not define for Mul": (
        "NGramHashMapping",
        "VarlenNGramHashMapping",
    ),
    "its weights are packed in an undocumented order; supported: MatMulNBits": ("MatMulFpQ4",),
    "it is not documented where the offsets of packed tokens are read; supported: MultiHeadAttention with a bias": (
        "GatedRelativePositionBias",
    ),
}

for why, operators in REASONS.items():
    refused(operators, why, domain=MICROSOFT)
