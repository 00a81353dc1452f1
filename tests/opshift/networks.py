"""OpenVINO IR written by hand: layers in order, each with its inputs as `layer` or `layer:output`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

PRECISIONS = {"float32": "f32", "float64": "f64", "float16": "f16", "bool": "boolean"}
PORTS = {"f32": "FP32", "f64": "FP64", "f16": "FP16", "boolean": "BOOL"}


def spelled(dtype: Any) -> str:
    name = np.dtype(dtype).name
    return PRECISIONS.get(name) or name.replace("uint", "u").replace("int", "i")


class Net:
    """A network that is written layer by layer; every method returns the new layer's id."""

    def __init__(self) -> None:
        self.data = b""
        self.layers: list[str] = []
        self.edges: list[str] = []
        self.ports: dict[str, tuple[int, list[tuple[str, Sequence[int]]]]] = {}

    def parameter(self, shape: Sequence[int], dtype: Any = np.float32, name: str = "") -> str:
        kind = spelled(dtype)
        text = ",".join("?" if dim < 0 else str(dim) for dim in shape)
        return self.layer("Parameter", [], {"shape": text, "element_type": kind}, [(kind, shape)], "opset1", name)

    def const(self, value: Any, dtype: Any = None) -> str:
        array = np.asarray(value, dtype)
        kind = spelled(array.dtype)
        held = {"element_type": kind, "shape": ", ".join(map(str, array.shape)), "offset": str(len(self.data))}
        self.data += array.tobytes()
        return self.layer("Const", [], {**held, "size": str(array.nbytes)}, [(kind, array.shape)])

    def layer(
        self,
        kind: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any],
        outputs: Sequence[tuple[str, Sequence[int]]],
        version: str = "opset1",
        name: str = "",
        inner: str = "",
    ) -> str:
        number = str(len(self.layers))
        for place, source in enumerate(inputs):
            layer, _, output = source.partition(":")
            port = self.ports[layer][0] + int(output or 0)
            self.edges.append(f'<edge from-layer="{layer}" from-port="{port}" to-layer="{number}" to-port="{place}"/>')
        self.ports[number] = len(inputs), list(outputs)
        taken = "".join(f'<port id="{place}"/>' for place in range(len(inputs)))
        given = "".join(self._port(len(inputs) + k, *output) for k, output in enumerate(outputs))
        data = " ".join(f"{key}={quoteattr(str(value))}" for key, value in attributes.items())
        self.layers.append(
            f'<layer id="{number}" name={quoteattr(name or f"{kind}_{number}")} type="{kind}" version="{version}">'
            f"<data {data}/><input>{taken}</input><output>{given}</output>{inner}</layer>"
        )
        return number

    @staticmethod
    def _port(number: int, kind: str, dims: Sequence[int]) -> str:
        held = "".join(f"<dim>{dim}</dim>" for dim in dims)
        return f'<port id="{number}" precision="{PORTS.get(kind, kind.upper())}">{held}</port>'

    def result(self, source: str) -> str:
        return self.layer("Result", [source], {}, [])

    @property
    def body(self) -> str:
        return f"<layers>{''.join(self.layers)}</layers><edges>{''.join(self.edges)}</edges>"

    def write(self, folder: Path, stem: str = "net") -> Path:
        path = folder / f"{stem}.xml"
        path.write_text(f'<?xml version="1.0"?><net name="{stem}" version="11">{self.body}</net>', encoding="utf-8")
        path.with_suffix(".bin").write_bytes(self.data)
        return path
