"""Architectures in PyTorch: each function gives a module and its inputs, `n` times as wide as the committed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Made = tuple[nn.Module, tuple[Tensor, ...]]


class Apply(nn.Module):
    """What a function does with its inputs and with modules that are kept here."""

    def __init__(self, function: Callable[..., Tensor], *modules: nn.Module):
        super().__init__()
        self.function = function
        self.held = nn.ModuleList(modules)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*self.held, *inputs)


def mlp(n: int) -> Made:
    model = nn.Sequential(
        nn.Linear(8 * n, 16 * n), nn.ReLU(), nn.Linear(16 * n, 16 * n), nn.Tanh(), nn.Linear(16 * n, 4)
    )
    return model, (torch.randn(3, 8 * n),)


def cnn(n: int) -> Made:
    layers = [nn.Conv2d(3, 4 * n, 3, padding=1), nn.BatchNorm2d(4 * n), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(4 * n, 8 * n, 3, bias=False), nn.BatchNorm2d(8 * n), nn.LeakyReLU(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * n, 5), nn.Softmax(-1)), (
        torch.randn(2, 3, 12 * n, 12 * n),
    )


class Residual(nn.Module):
    """Two convolutions with BatchNorm and a projected shortcut."""

    def __init__(self, before: int, after: int, stride: int):
        super().__init__()
        self.one, self.two = (
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
        )
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        same = stride == 1 and before == after
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[1](self.two(F.relu(self.norms[0](self.one(x)))))
        return F.relu(y + self.shortcut(x))


def resnet(n: int) -> Made:
    stem = [nn.Conv2d(3, 4 * n, 7, 2, 3, bias=False), nn.BatchNorm2d(4 * n), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks = [
        Residual(4 * n, 4 * n, 1),
        Residual(4 * n, 8 * n, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(1),
        nn.Linear(8 * n, 5),
    ]
    return nn.Sequential(*stem, *blocks), (torch.randn(2, 3, 16 * n, 16 * n),)


class Inverted(nn.Module):
    """MobileNetV3's block: expand, depthwise, squeeze and excite, project."""

    def __init__(self, width: int, expanded: int):
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(width, expanded, 1, bias=False), nn.BatchNorm2d(expanded), nn.Hardswish())
        depthwise = nn.Conv2d(expanded, expanded, 3, padding=1, groups=expanded, bias=False)
        self.depthwise = nn.Sequential(depthwise, nn.BatchNorm2d(expanded), nn.ReLU6())
        squeezed = max(2, expanded // 4)
        down, up = nn.Conv2d(expanded, squeezed, 1), nn.Conv2d(squeezed, expanded, 1)
        self.excite = nn.Sequential(nn.AdaptiveAvgPool2d(1), down, nn.ReLU(), up, nn.Hardsigmoid())
        self.project = nn.Sequential(nn.Conv2d(expanded, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(self.expand(x))
        return x + self.project(y * self.excite(y))


def mobilenet(n: int) -> Made:
    stem = [nn.Conv2d(3, 4 * n, 3, 2, 1, bias=False), nn.BatchNorm2d(4 * n), nn.Hardswish()]
    return nn.Sequential(*stem, Inverted(4 * n, 8 * n), Inverted(4 * n, 8 * n)), (torch.randn(1, 3, 12 * n, 12 * n),)


class Recurrent(nn.Module):
    """A recurrent network of two layers and what follows its last step."""

    def __init__(self, kind: type[nn.RNNBase], width: int):
        super().__init__()
        self.steps, self.last = (
            kind(4 * width, 8 * width, num_layers=2, bidirectional=True, batch_first=True),
            nn.Linear(16 * width, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.steps(x)[0][:, -1])


def lstm(n: int) -> Made:
    return Recurrent(nn.LSTM, n), (torch.randn(2, 5 * n, 4 * n),)


def gru(n: int) -> Made:
    return Recurrent(nn.GRU, n), (torch.randn(2, 5 * n, 4 * n),)


def encoder(n: int, activation: str = "gelu") -> Made:
    layer = nn.TransformerEncoderLayer(16 * n, 4, 32 * n, activation=activation, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 6 * n, 16 * n),)


def decoder(n: int) -> Made:
    layer = nn.TransformerDecoderLayer(16 * n, 4, 32 * n, activation="gelu", batch_first=True, norm_first=True)
    model = nn.TransformerDecoder(layer, 1, norm=nn.LayerNorm(16 * n))

    def run(model: nn.Module, x: Tensor, memory: Tensor) -> Tensor:
        size = x.shape[1]
        return model(x, memory, tgt_mask=torch.ones(size, size, dtype=torch.bool).triu(1), tgt_is_causal=True)

    return Apply(run, model), (torch.randn(2, 6 * n, 16 * n), torch.randn(2, 4 * n, 16 * n))


class Heads(nn.Module):
    """Multi-head attention over scaled_dot_product_attention; `kind` says which mask it is given."""

    def __init__(self, width: int, kind: str):
        super().__init__()
        self.projected, self.out, self.kind = nn.Linear(width, 3 * width), nn.Linear(width, width), kind

    def forward(self, x: Tensor, *mask: Tensor) -> Tensor:
        q, k, v = (part.view(*x.shape[:2], 2, -1).transpose(1, 2) for part in self.projected(x).chunk(3, -1))
        given = mask[0] if mask else None
        if self.kind == "by hand":
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + (mask[0] if mask else 0.0)
            y = scores.softmax(-1) @ v
            return self.out(y.transpose(1, 2).reshape(*x.shape))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=given, is_causal=self.kind == "causal")
        return self.out(y.transpose(1, 2).flatten(2))


def attention(n: int) -> Made:
    return Heads(16 * n, "plain"), (torch.randn(2, 6 * n, 16 * n),)


def attention_causal(n: int) -> Made:
    return Heads(16 * n, "causal"), (torch.randn(2, 6 * n, 16 * n),)


def attention_by_hand(n: int) -> Made:
    return Heads(16 * n, "by hand"), (torch.randn(2, 6 * n, 16 * n),)


def attention_by_hand_masked(n: int) -> Made:
    mask = torch.full((6 * n, 6 * n), -torch.inf).triu(1)
    return Heads(16 * n, "by hand"), (torch.randn(2, 6 * n, 16 * n), mask)


def attention_bool_mask(n: int) -> Made:
    mask = torch.ones(6 * n, 6 * n, dtype=torch.bool).tril(1)
    return Heads(16 * n, "masked"), (torch.randn(2, 6 * n, 16 * n), mask)


def attention_float_mask(n: int) -> Made:
    return Heads(16 * n, "masked"), (torch.randn(2, 6 * n, 16 * n), torch.randn(2, 1, 6 * n, 6 * n))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Rms(nn.Module):
    """RMSNorm as models wrote it before torch had it."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Llama(nn.Module):
    """One block: RMSNorm, rotary grouped-query attention, SwiGLU."""

    def __init__(self, width: int, norms: list[nn.Module]):
        super().__init__()
        self.norms = nn.ModuleList(norms)
        self.q, self.k, self.v = (
            nn.Linear(width, width, False),
            nn.Linear(width, width // 2, False),
            nn.Linear(width, width // 2, False),
        )
        self.o, self.head = nn.Linear(width, width, False), width // 4
        self.gate, self.up, self.down = (
            nn.Linear(width, 2 * width, False),
            nn.Linear(width, 2 * width, False),
            nn.Linear(2 * width, width, False),
        )
        self.frequencies = nn.Buffer(10000.0 ** (-torch.arange(0, self.head, 2) / self.head), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1])[:, None] * self.frequencies
        angles = torch.cat((angles, angles), -1)
        y = self.norms[0](x)
        q, k, v = (part(y).view(*x.shape[:2], -1, self.head).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = rotated(q, angles.cos(), angles.sin()), rotated(k, angles.cos(), angles.sin())
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def llama(n: int) -> Made:
    return Llama(16 * n, [nn.RMSNorm(16 * n, eps=1e-5), nn.RMSNorm(16 * n)]), (torch.randn(2, 6 * n, 16 * n),)


def llama_by_hand(n: int) -> Made:
    return Llama(16 * n, [Rms(16 * n), Rms(16 * n)]), (torch.randn(2, 6 * n, 16 * n),)


class Block(nn.Module):
    """An encoder's layer out of operators that every exporter has, with Gelu as BERT's first code wrote it."""

    def __init__(self, width: int):
        super().__init__()
        self.heads, self.norms = Heads(width, "by hand"), nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norms[0](x + self.heads(x))
        y = self.up(x)
        return self.norms[1](x + self.down(y * 0.5 * (1.0 + torch.erf(y / 2.0**0.5))))


def encoder_by_hand(n: int) -> Made:
    return nn.Sequential(Block(16 * n), Block(16 * n)), (torch.randn(2, 6 * n, 16 * n),)


def group_norm(n: int) -> Made:
    model = nn.Sequential(
        nn.Conv2d(3, 8 * n, 3), nn.GroupNorm(4, 8 * n), nn.SiLU(), nn.Conv2d(8 * n, 4, 3), nn.GroupNorm(2, 4)
    )
    return model, (torch.randn(2, 3, 8 * n, 8 * n),)


def instance_norm(n: int) -> Made:
    model = nn.Sequential(
        nn.Conv2d(3, 8 * n, 3), nn.InstanceNorm2d(8 * n, affine=True), nn.PReLU(), nn.InstanceNorm2d(8 * n)
    )
    return model, (torch.randn(2, 3, 8 * n, 8 * n),)


def layer_norm(n: int) -> Made:
    def run(one: nn.Module, two: nn.Module, x: Tensor) -> Tensor:
        return two(F.gelu(one(x), approximate="tanh")) + F.layer_norm(x, (4, 8 * n))

    return Apply(run, nn.LayerNorm(8 * n), nn.LayerNorm((4, 8 * n), eps=1e-6)), (torch.randn(3, 4, 8 * n),)


def norms(n: int) -> Made:
    def run(x: Tensor) -> Tensor:
        kinds = [
            torch.linalg.vector_norm(x, 2, -1, True),
            torch.linalg.vector_norm(x, 1, -1, True),
            x.abs().amax(-1, True),
        ]
        kinds += [torch.logsumexp(x, -1, True), x.square().sum(-1, True), x.std(-1, keepdim=True), x.prod(-1, True)]
        return torch.cat([F.normalize(x, dim=-1), F.normalize(x, p=1.0, dim=1), *kinds], -1)

    return Apply(run), (torch.randn(2, 3, 4 * n),)


ACTIVATIONS = [
    nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.ELU(0.5), nn.SELU(), nn.CELU(0.7), nn.Softplus(), nn.Softsign(),
    nn.Hardswish(), nn.Hardsigmoid(), nn.LeakyReLU(0.2), nn.ReLU6(), nn.LogSigmoid(), nn.Hardtanh(-0.5, 0.5), nn.Tanhshrink(),
    nn.Softshrink(), nn.Hardshrink(), nn.Softmax(-1), nn.LogSoftmax(-1), nn.Softmin(-1), nn.GLU(),
]  # fmt: skip


def activations(n: int) -> Made:
    def run(*held: Any) -> Tensor:
        *layers, x = held
        return torch.cat([layer(x) for layer in layers], -1)

    return Apply(run, *ACTIVATIONS), (torch.randn(3, 8 * n) * 2,)


def embedding(n: int) -> Made:
    def run(words: nn.Module, places: nn.Module, norm: nn.Module, ids: Tensor) -> Tensor:
        x = norm(words(ids) + places(torch.arange(ids.shape[1])))
        mask = (ids != 0).to(x.dtype).unsqueeze(-1)
        return (x * mask).sum(1) / mask.sum(1).clamp(min=1e-9)

    modules = nn.Embedding(16, 8 * n), nn.Embedding(32 * n, 8 * n), nn.LayerNorm(8 * n)
    return Apply(run, *modules), (torch.randint(0, 16, (2, 5 * n)),)


def shapes(n: int) -> Made:
    def run(x: Tensor) -> Tensor:
        y = x.reshape(x.shape[0], x.shape[1] // 2, 2, *x.shape[2:]).transpose(1, 2).reshape(x.shape)
        y = F.pad(F.interpolate(y, scale_factor=2.0, mode="bilinear"), (1, 1, 1, 1))
        return torch.where(y > 0, y, y.flip(-1)).roll(1, 2)[:, :, 1:-1:2, 1:-1:2] + x

    return Apply(run), (torch.randn(2, 4, 4 * n, 4 * n),)


def bottleneck_1d(n: int) -> Made:
    layers = [
        nn.Conv1d(4, 8 * n, 3, padding=1),
        nn.BatchNorm1d(8 * n),
        nn.GLU(1),
        nn.ConvTranspose1d(4 * n, 4, 4, 2, 1),
        nn.AvgPool1d(2),
    ]
    return nn.Sequential(*layers), (torch.randn(2, 4, 8 * n),)


FAMILIES = {
    made.__name__: made
    for made in (
        mlp, cnn, resnet, mobilenet, bottleneck_1d, lstm, gru, encoder, encoder_by_hand, decoder, attention, attention_causal, attention_by_hand, attention_by_hand_masked,
        attention_bool_mask, attention_float_mask, llama, llama_by_hand, group_norm, instance_norm, layer_norm, norms, activations, embedding, shapes,
    )
}  # fmt: skip
DYNAMIC = {  # family: the names of the dimensions of its inputs that vary
    "mlp": [{0: "batch"}],
    "cnn": [{0: "batch"}],
    "lstm": [{0: "batch"}],
    "resnet": [{0: "batch", 2: "height", 3: "width"}],
    "encoder": [{0: "batch", 1: "sequence"}],
    "decoder": [{0: "batch", 1: "sequence"}, {0: "batch", 1: "memory"}],
    "attention": [{0: "batch", 1: "sequence"}],
    "attention_causal": [{0: "batch", 1: "sequence"}],
    "attention_by_hand": [{0: "batch", 1: "sequence"}],
    "attention_bool_mask": [{0: "batch", 1: "sequence"}, {0: "sequence", 1: "sequence"}],
    "llama": [{0: "batch", 1: "sequence"}],
    "llama_by_hand": [{0: "batch", 1: "sequence"}],
    "group_norm": [{0: "batch", 2: "height", 3: "width"}],
    "layer_norm": [{0: "batch"}],
    "norms": [{0: "batch"}],
    "encoder_by_hand": [{0: "batch", 1: "sequence"}],
    "embedding": [{0: "batch", 1: "sequence"}],
}
