"""Which file of `passes/operators` holds the definition of a vendor's operator, or why it has none.

An operator that stands here nowhere has a definition in `functions/` or none.
"""

from __future__ import annotations

from opshift.passes.model.schemas import MICROSOFT, NCHWC, NHWC, ONNXRUNTIME

_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    MICROSOFT: {
        "microsoft.attention": ("Attention", "MultiHeadAttention", "QAttention"),
        "microsoft.attention_lstm": ("AttnLSTM",),
        "microsoft.bifurcation": ("BifurcationDetector",),
        "microsoft.block_quantized": ("GatherBlockQuantized", "MatMulBlockQuantizedFp8Weight", "MatMulBnb4"),
        "microsoft.causal_conv": ("CausalConvWithState", "VarlenCausalConvWithState"),
        "microsoft.conv": (
            *("ConvTransposeWithDynamicPads", "FusedConv", "MaxpoolWithMask", "NhwcConv", "NhwcFusedConv"),
            *("NhwcMaxPool", "QLinearConv"),
        ),
        "microsoft.crop_and_resize": ("CropAndResize",),
        "microsoft.decoder_attention": ("DecoderMaskedMultiHeadAttention",),
        "microsoft.embedding": ("EmbedLayerNormalization", "QEmbedLayerNormalization", "TorchEmbedding"),
        "microsoft.gelu": (
            *("BiasGelu", "BiasSplitGelu", "FastGelu", "GatedAdd", "GemmFastGelu", "QuickGelu", "ScaledSiLU"),
        ),
        "microsoft.expert_router": ("MoEGroupRouter",),
        "microsoft.gated_delta_net": ("GatedDeltaNet",),
        "microsoft.group_query_attention": ("GroupQueryAttention",),
        "microsoft.hyper_connection": (
            *("EngramGate", "HyperConnectionLowRankMix", "HyperConnectionPostMix", "HyperConnectionPreMix"),
        ),
        "microsoft.integer_products": (
            *("DynamicQuantizeMatMul", "MatMulInteger16", "MatMulIntegerToFloat", "MulInteger", "QGemm"),
            "ReduceSumInteger",
        ),
        "microsoft.layout": (
            *("ExpandDims", "GatherND", "GridSample", "IsAllFinite", "MurmurHash3", "NGramRepeatBlock", "Pad", "Range"),
            *("Tokenizer", "Trilu", "UnfoldTensor", "Unique"),
        ),
        "microsoft.linear_attention": ("LinearAttention", "LinearAttentionGate"),
        "microsoft.matmul": (
            *("CDist", "FusedGemm", "FusedMatMul", "FusedMatMulActivation", "Inverse", "SparseToDenseMatMul"),
            "TransposeMatMul",
        ),
        "microsoft.matmul_nbits": ("MatMulNBits", "MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv"),
        "microsoft.mixture_of_experts": ("MoE", "QMoE"),
        "microsoft.normalization": (
            *("BranchwiseRMSNorm", "GatedRMSNorm", "GroupNorm", "SkipGroupNorm", "SkipLayerNormalization"),
            "SkipSimplifiedLayerNormalization",
        ),
        "microsoft.packed_weights": ("GatherPacked", "MatMulPacked"),
        "microsoft.qlinear": (
            *("QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearLeakyRelu"),
            *("QLinearMul", "QLinearReduceMean", "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere"),
        ),
        "microsoft.quantize_linear": ("DequantizeLinear", "QuantizeLinear"),
        "microsoft.recurrence": ("DynamicQuantizeLSTM",),
        "microsoft.refusals": (
            "BeamSearch",
            "ConvStateReplay",
            "DecoderAttention",
            "DecoderMaskedSelfAttention",
            "DequantizeBFP",
            "DequantizeWithOrder",
            "DynamicSparseAttention",
            "EPContext",
            "GatedDeltaNetStateReplay",
            "GatedRelativePositionBias",
            "GemmFloat8",
            "GreedySearch",
            "LongformerAttention",
            "Mamba2Verify",
            "MatMulBlockQuantizedFp4Weight",
            "MatMulFpQ4",
            "MoEPacked",
            "NGramHashMapping",
            "PackedAttention",
            "PackedMultiHeadAttention",
            "PackedSparseAttentionIndexer",
            "PackedSparseAttentionIndexerMerge",
            "PagedAttention",
            "QOrderedAttention",
            "QOrderedGelu",
            "QOrderedLayerNormalization",
            "QOrderedLongformerAttention",
            "QOrderedMatMul",
            "QuantizeBFP",
            "QuantizeWithOrder",
            "RelativePositionBias",
            "RemovePadding",
            "RestorePadding",
            "Sampling",
            "Snpe",
            "SparseAttention",
            "SparseAttentionIndexer",
            "SparsePagedAttention",
            "SpeculativePrefixCommit",
            "VarlenNGramHashMapping",
            "WhisperBeamSearch",
            "WordConvEmbedding",
        ),
        "microsoft.rotary_embedding": ("GemmaRotaryEmbedding", "MRotaryEmbedding", "RMSNormRotary", "RotaryEmbedding"),
        "microsoft.spectral": ("Irfft", "Rfft"),
        "microsoft.swiglu": ("RouterGateUpProj", "SwiGLU"),
        "microsoft.sums": (
            *("BiasAdd", "BiasDropout", "BiasSoftmax", "BitmaskBiasDropout", "BitmaskDropout", "ComplexMul"),
            "ComplexMulConj",
        ),
        "microsoft.time_warping": ("DynamicTimeWarping",),
    },
    NCHWC: {
        "microsoft.layouts": (
            "AveragePool",
            "Conv",
            "GlobalAveragePool",
            "GlobalMaxPool",
            "MaxPool",
            "ReorderInput",
            "ReorderOutput",
            "Upsample",
        ),
    },
    NHWC: {
        "microsoft.layouts": (
            "AveragePool",
            "BatchNormalization",
            "Conv",
            "ConvTranspose",
            "DepthToSpace",
            "GlobalAveragePool",
            "GlobalLpPool",
            "GlobalMaxPool",
            "GridSample",
            "InstanceNormalization",
            "LRN",
            "LpPool",
            "MaxPool",
            "MaxUnpool",
            "QLinearAveragePool",
            "QLinearConv",
            "QLinearConvTranspose",
            "Resize",
            "SpaceToDepth",
        ),
    },
    ONNXRUNTIME: {
        "microsoft.default_domain": (
            *("Affine", "Crop", "DisentangledAttention_TRT", "DynamicSlice", "EfficientNMS_TRT", "GRUUnit"),
            *("GivenTensorFill", "ImageScaler", "LayerNormalization", "MeanVarianceNormalization", "MemcpyFromHost"),
            *("MemcpyToHost", "MultilevelCropAndResize_TRT", "ParametricSoftplus", "PyramidROIAlign_TRT", "Scale"),
            *("ScaledTanh", "SimplifiedLayerNormalization", "ThresholdedRelu"),
        ),
    },
}

FILES = {domain: {op: file for file, ops in files.items() for op in ops} for domain, files in _FILES.items()}
"""The file by domain and operator."""

_QUANTIZED = (
    *("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QAttention", "QEmbedLayerNormalization", "QGemm"),
    "QLinearConv",
)


def integer_operators() -> frozenset[tuple[str, str]]:
    """The operators that compute in integers between scales."""
    return frozenset((MICROSOFT, op) for op in (*_FILES[MICROSOFT]["microsoft.qlinear"], *_QUANTIZED))
