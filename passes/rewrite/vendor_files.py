"""Which file of `passes/operators` holds the definition of a vendor's operator, or why it has none.

An operator that stands here nowhere has a definition in `functions/` or none.
"""

from __future__ import annotations

from opshift.passes.model.schemas import MICROSOFT, ONNXRUNTIME

_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    MICROSOFT: {
        "microsoft.attention": ("Attention", "MultiHeadAttention"),
        "microsoft.causal_conv": ("CausalConvWithState",),
        "microsoft.decoder_attention": ("DecoderMaskedMultiHeadAttention",),
        "microsoft.gelu": ("FastGelu",),
        "microsoft.group_query_attention": ("GroupQueryAttention",),
        "microsoft.hyper_connection": ("EngramGate", "HyperConnectionPostMix", "HyperConnectionPreMix"),
        "microsoft.linear_attention": ("LinearAttention", "LinearAttentionGate"),
        "microsoft.matmul": ("FusedMatMul",),
        "microsoft.matmul_nbits": ("MatMulNBits",),
        "microsoft.refusals": (
            "BeamSearch",
            "DecoderAttention",
            "DecoderMaskedSelfAttention",
            "DynamicSparseAttention",
            "EPContext",
            "GatedDeltaNet",
            "GreedySearch",
            "LongformerAttention",
            "PackedAttention",
            "PackedMultiHeadAttention",
            "PackedSparseAttentionIndexer",
            "PagedAttention",
            "RelativePositionBias",
            "RemovePadding",
            "RestorePadding",
            "Sampling",
            "Snpe",
            "SparseAttentionIndexer",
            "SparsePagedAttention",
            "VarlenCausalConvWithState",
            "VarlenNGramHashMapping",
            "WhisperBeamSearch",
        ),
        "microsoft.rotary_embedding": ("GemmaRotaryEmbedding", "MRotaryEmbedding", "RotaryEmbedding"),
        "microsoft.skip_normalization": ("SkipLayerNormalization",),
    },
    ONNXRUNTIME: {},
}

FILES = {domain: {op: file for file, ops in files.items() for op in ops} for domain, files in _FILES.items()}
"""The file by domain and operator."""
