"""`python -m tests.lab make-keras [--only FAMILY ...] [--large FOLDER]`: Keras 3 models by `model.export(format="onnx")`.

On the TensorFlow backend, where Keras calls tf2onnx; the batch varies.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import onnx

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
from keras import layers

from tests.exported import store
from tests.exported.making import coarse, export, quiet

OPSETS = [13, 15, 18]
Made = tuple[keras.Model, list[np.ndarray]]
random = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def model(result: keras.KerasTensor, *inputs: keras.KerasTensor) -> keras.Model:
    """With every weight drawn, and with few bits; variances and scales around 1."""
    made = keras.Model(list(inputs), result)
    for weight in made.weights:
        if not weight.dtype.startswith("float"):
            continue
        values = coarse(random.standard_normal(weight.shape) / max(1, weight.shape[0]) ** 0.5)
        values = np.abs(values) + 0.5 if "variance" in weight.name else values + 1 if "gamma" in weight.name else values
        weight.assign(values)
    return made


def gelu(x: keras.KerasTensor) -> keras.KerasTensor:
    """The exact form with erf: Keras' own takes TensorFlow's erfc, which tf2onnx leaves as it is."""
    return 0.5 * x * (1.0 + keras.ops.erf(x / 2.0**0.5))


def cnn(n: int) -> Made:
    x = given = layers.Input((12 * n, 12 * n, 3))
    x = layers.ReLU(6.0)(layers.BatchNormalization()(layers.Conv2D(8 * n, 3, 2, "same", use_bias=False)(x)))
    x = layers.Activation("hard_swish")(layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same")(x)))
    y = layers.Dense(8 * n, "hard_sigmoid")(
        layers.Dense(2 * n, "relu")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    )
    x = layers.MaxPooling2D()(layers.Multiply()([x, y]))
    return model(layers.Dense(5, "softmax")(layers.Flatten()(x)), given), [drawn(2, 12 * n, 12 * n, 3)]


def encoder(n: int) -> Made:
    x = given = layers.Input((6 * n, 16 * n))
    y = layers.MultiHeadAttention(4, 4 * n)(x, x)
    x = layers.LayerNormalization(epsilon=1e-6)(x + y)
    y = layers.Dense(16 * n)(gelu(layers.Dense(32 * n)(x)))
    return model(layers.LayerNormalization(epsilon=1e-6)(x + y), given), [drawn(2, 6 * n, 16 * n)]


def decoder(n: int) -> Made:
    """Causal grouped-query attention, RMS normalization, a gated feed-forward network."""
    x = given = layers.Input((6 * n, 16 * n))
    y = layers.RMSNormalization(epsilon=1e-6)(x)
    x = x + layers.GroupQueryAttention(4 * n, 4, 2)(y, y, use_causal_mask=True)
    y = layers.RMSNormalization(epsilon=1e-6)(x)
    y = layers.Dense(16 * n)(layers.Dense(32 * n, "silu")(y) * layers.Dense(32 * n)(y))
    return model(x + y, given), [drawn(2, 6 * n, 16 * n)]


def recurrent(n: int) -> Made:
    x = given = layers.Input((5, 4 * n))
    x = layers.Bidirectional(layers.LSTM(8 * n, return_sequences=True))(x)
    return model(layers.Dense(3)(layers.GRU(8 * n)(x)), given), [drawn(2, 5, 4 * n)]


def norms(n: int) -> Made:
    given = layers.Input((5 * n, 5 * n, 8 * n))
    kinds = [
        layers.GroupNormalization(4),
        layers.GroupNormalization(-1),
        layers.LayerNormalization(),
        layers.UnitNormalization(),
    ]
    kinds += [layers.RMSNormalization(), layers.LayerNormalization(axis=[1, 2, 3]), layers.BatchNormalization()]
    return model(layers.Concatenate()([kind(given) for kind in kinds]), given), [drawn(2, 5 * n, 5 * n, 8 * n)]


def activations(n: int) -> Made:
    names = "relu relu6 elu selu sigmoid silu mish softplus softsign hard_sigmoid hard_swish leaky_relu log_softmax softmax tanh_shrink soft_shrink glu"
    given = layers.Input((8 * n,))
    kinds = [layers.Activation(name)(given) for name in names.split()]
    kinds += [
        keras.ops.gelu(given, approximate=True),
        layers.PReLU()(given),
        keras.ops.normalize(given),
        keras.ops.logsumexp(given, -1, True),
    ]
    return model(layers.Concatenate()(kinds), given), [drawn(3, 8 * n) * 2]


FAMILIES = {made.__name__: made for made in (cnn, encoder, decoder, recurrent, norms, activations)}


def exported(name: str, n: int) -> list[store.Family]:
    """The family at each opset."""
    made, inputs = FAMILIES[name](n)
    family = store.Family(name, inputs, [np.asarray(made(inputs))])
    for opset in OPSETS:
        try:
            with quiet(), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.onnx"
                made.export(path, format="onnx", verbose=False, opset_version=opset)
                family.exports["tf2onnx", opset] = store.stripped(onnx.load(path))
        except Exception as error:
            print(f"{name} {opset}: {type(error).__name__}: {str(error)[:150]}")
    return [family]


if __name__ == "__main__":
    export(__doc__, "keras", ["keras", "tensorflow-cpu", "tf2onnx", "onnx"], FAMILIES, exported)
