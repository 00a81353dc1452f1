"""`python -m tests.lab make-transformers [--only FAMILY ...] [--large FOLDER]`: Hugging Face models of a few layers.

Their weights are drawn here; nothing is downloaded. They go through PyTorch's two exporters, with attention as
transformers writes it itself (`eager`) and through scaled_dot_product_attention (`sdpa`).
"""

from __future__ import annotations

import transformers
from torch import Tensor, nn, randint, randn

from tests.exported import make_torch, store
from tests.exported.making import parsed


class Outputs(nn.Module):
    """A model of transformers as a function of its named inputs that returns one tensor."""

    def __init__(self, model: nn.Module, names: list[str], result: str):
        super().__init__()
        self.model, self.names, self.result = model, names, result

    def forward(self, *inputs: Tensor) -> Tensor:
        given = dict(zip(self.names, inputs, strict=True))
        return self.model(**given, return_dict=True)[self.result]


Made = tuple[nn.Module, tuple[Tensor, ...]]


def _text(n: int) -> dict[str, int]:
    return {
        "hidden_size": 16 * n,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 32,
        "max_position_embeddings": 32 * n,
    }


def _ids(n: int) -> Tensor:
    return randint(1, 32, (2, 6 * n))


def _mask(n: int) -> Tensor:
    mask = randint(0, 2, (2, 6 * n))
    mask[:, 0] = 1
    return mask


def bert(n: int, attention: str) -> Made:
    config = transformers.BertConfig(**_text(n), intermediate_size=32 * n, attn_implementation=attention)
    model = transformers.BertModel(config, add_pooling_layer=False)
    return Outputs(model, ["input_ids", "attention_mask"], "last_hidden_state"), (_ids(n), _mask(n))


def gpt2(n: int, attention: str) -> Made:
    config = transformers.GPT2Config(
        n_embd=16 * n, n_layer=2, n_head=4, vocab_size=32, n_positions=32 * n, attn_implementation=attention
    )
    config.use_cache = False
    return Outputs(transformers.GPT2LMHeadModel(config), ["input_ids", "attention_mask"], "logits"), (_ids(n), _mask(n))


def llama(n: int, attention: str) -> Made:
    config = transformers.LlamaConfig(
        **_text(n), intermediate_size=32 * n, num_key_value_heads=2, attn_implementation=attention
    )
    config.use_cache = False
    return Outputs(transformers.LlamaForCausalLM(config), ["input_ids", "attention_mask"], "logits"), (
        _ids(n),
        _mask(n),
    )


def qwen3(n: int, attention: str) -> Made:
    config = transformers.Qwen3Config(
        **_text(n), intermediate_size=32 * n, num_key_value_heads=2, head_dim=8 * n, attn_implementation=attention
    )
    config.use_cache = False
    return Outputs(transformers.Qwen3ForCausalLM(config), ["input_ids"], "logits"), (_ids(n),)


def vit(n: int, attention: str) -> Made:
    config = transformers.ViTConfig(
        hidden_size=16 * n,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32 * n,
        image_size=8 * n,
        patch_size=4,
        attn_implementation=attention,
    )
    return Outputs(transformers.ViTModel(config, add_pooling_layer=False), ["pixel_values"], "last_hidden_state"), (
        randn(2, 3, 8 * n, 8 * n),
    )


def t5(n: int, attention: str) -> Made:
    config = transformers.T5Config(
        d_model=16 * n,
        d_kv=4 * n,
        d_ff=32 * n,
        num_layers=1,
        num_heads=4,
        vocab_size=32,
        feed_forward_proj="gated-gelu",
        attn_implementation=attention,
    )
    config.use_cache = False
    model = transformers.T5ForConditionalGeneration(config)
    return Outputs(model, ["input_ids", "decoder_input_ids"], "logits"), (_ids(n), randint(1, 32, (2, 4 * n)))


def whisper(n: int, attention: str) -> Made:
    config = transformers.WhisperConfig(
        d_model=16 * n, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=32 * n,
        decoder_ffn_dim=32 * n, vocab_size=32, num_mel_bins=8, max_source_positions=8 * n, max_target_positions=16 * n, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, attn_implementation=attention,
    )  # fmt: skip
    config.use_cache = False
    model = transformers.WhisperForConditionalGeneration(config)
    inputs = randn(2, 8, 16 * n), randint(1, 32, (2, 6 * n)), _mask(n)
    return Outputs(model, ["input_features", "decoder_input_ids", "decoder_attention_mask"], "logits"), inputs


DYNAMIC = {
    "bert": [{0: "batch", 1: "sequence"}, {0: "batch", 1: "sequence"}],
    "gpt2": [{0: "batch", 1: "sequence"}, {0: "batch", 1: "sequence"}],
    "llama": [{0: "batch", 1: "sequence"}, {0: "batch", 1: "sequence"}],
}
FAMILIES = {
    f"{make.__name__}.{attention}": (make, attention)
    for make, kinds in (
        (bert, "es"),
        (gpt2, "es"),
        (llama, "es"),
        (qwen3, "s"),
        (vit, "es"),
        (t5, "e"),
        (whisper, "es"),
    )
    for attention in ("eager", "sdpa")
    if attention[0] in kinds
}


def main() -> None:
    """Export what is asked for, as `make_torch` does."""
    options = parsed(__doc__)
    sizes = make_torch.size(options, make_torch.OPSETS)
    found = []
    for name, (make, attention) in FAMILIES.items():
        if not options.only or name in options.only:
            axes = DYNAMIC.get(name.partition(".")[0])
            found += make_torch.exported(name, lambda n, m=make, a=attention: m(n, a), axes, *sizes)
    if options.large:
        store.write_large(options.large, "transformers", found)
    else:
        store.write("transformers", found, ["transformers", *make_torch.PACKAGES])


if __name__ == "__main__":
    main()
