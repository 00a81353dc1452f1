"""`python -m tests.lab make-paddle [--only FAMILY ...] [--large FOLDER]`: Paddle layers through paddle2onnx."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import paddle
from paddle import Tensor, nn

from tests.exported import store
from tests.exported.making import coarse, export, quiet

OPSETS = [11, 13, 17, 19]
Made = tuple[nn.Layer, list[Tensor], list[list[int]]]
random = np.random.default_rng(0)


def drawn(*shape: int) -> Tensor:
    return paddle.to_tensor(random.standard_normal(shape).astype(np.float32))


class Squeezed(nn.Layer):
    """Convolutions with BatchNorm, squeeze and excite, HardSwish."""

    def __init__(self, width: int):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2D(3, width, 3, 2, 1, bias_attr=False), nn.BatchNorm2D(width), nn.Hardswish())
        self.deep = nn.Sequential(nn.Conv2D(width, width, 3, 1, 1, groups=width), nn.BatchNorm2D(width), nn.ReLU6())
        down, up = nn.Conv2D(width, width // 4, 1), nn.Conv2D(width // 4, width, 1)
        self.excite = nn.Sequential(nn.AdaptiveAvgPool2D(1), down, nn.ReLU(), up, nn.Hardsigmoid())
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.deep(self.stem(x))
        return self.head((x * self.excite(x)).mean([2, 3]))


def cnn(n: int) -> Made:
    return Squeezed(8 * n), [drawn(2, 3, 12 * n, 12 * n)], [[-1, 3, 12 * n, 12 * n]]


def encoder(n: int) -> Made:
    layer = nn.TransformerEncoderLayer(16 * n, 4, 32 * n, activation="gelu", dropout=0.0)
    return nn.TransformerEncoder(layer, 1), [drawn(2, 6 * n, 16 * n)], [[-1, -1, 16 * n]]


class Joined(nn.Layer):
    """What several layers make of one input, beside each other."""

    def __init__(self, *layers: nn.Layer):
        super().__init__()
        self.layers = nn.LayerList(layers)

    def forward(self, x: Tensor) -> Tensor:
        return paddle.concat([layer(x) for layer in self.layers], -1)


def norms(n: int) -> Made:
    layers = [nn.LayerNorm(4 * n), nn.GroupNorm(2, 8 * n), nn.InstanceNorm2D(8 * n)]
    return Joined(*layers), [drawn(2, 8 * n, 4 * n, 4 * n)], [[-1, 8 * n, 4 * n, 4 * n]]


FAMILIES = {made.__name__: made for made in (cnn, encoder, norms)}


def exported(name: str, n: int) -> list[store.Family]:
    """The family at each opset, with the dimensions that vary."""
    paddle.seed(0)
    model, inputs, shapes = FAMILIES[name](n)
    model.eval()
    for held in [*model.parameters(), *model.buffers()]:
        value = coarse(held.numpy() + random.standard_normal(held.shape) / 8)
        held.set_value(
            np.maximum(value, 0.5).astype(np.float32) if "variance" in held.name else value.astype(np.float32)
        )
    with paddle.no_grad():
        family = store.Family(name, [value.numpy() for value in inputs], [model(*inputs).numpy()])
    spec = [paddle.static.InputSpec(shape, "float32", f"x{i}") for i, shape in enumerate(shapes)]
    for opset in OPSETS:
        try:
            with quiet(), tempfile.TemporaryDirectory() as folder:
                paddle.onnx.export(model, f"{folder}/model", spec, opset_version=opset)
                written = onnx.load(Path(folder) / "model.onnx")
        except Exception as error:
            print(f"{name} {opset}: {type(error).__name__}: {str(error)[:150]}")
            continue
        if store.opset(written) == opset:
            family.exports["paddle2onnx", opset] = store.stripped(written)
        else:
            print(f"{name} {opset}: written at {store.opset(written)}")
    return [family]


if __name__ == "__main__":
    export(__doc__, "paddle", ["paddlepaddle", "paddle2onnx", "onnx"], FAMILIES, exported)
