"""`python -m tests.lab make-torch [--only FAMILY ...] [--large FOLDER]`: what PyTorch's two exporters write.

`--large` writes models with larger dimensions for `benchmarks` into a folder, and leaves the committed ones alone.
"""

from __future__ import annotations

import argparse
import inspect
import io
from collections.abc import Callable
from functools import partial

import onnx
import torch
from onnx import ModelProto
from torch import Tensor, nn

from tests.exported import store, torch_families
from tests.exported.making import parsed, quiet

OPSETS = {"torchscript": [11, 13, 17, 18, 20], "dynamo": [18, 20, 23]}
RAW = {"torchscript_raw": [17], "dynamo_raw": [18]}  # without the exporters' own optimizations
LARGE = {"torchscript": [17], "dynamo": [18]}
WIDER = 8  # times as wide as the committed ones
PACKAGES = ["torch", "onnx", "onnxscript", "onnx-ir"]
Axes = list[dict[int, str]]


def main() -> None:
    """Export what is asked for; a family that an exporter cannot write at an opset is left out, and named."""
    options = parsed(__doc__)
    found = []
    for name, make in torch_families.FAMILIES.items():
        if not options.only or name in options.only:
            found += exported(name, make, torch_families.DYNAMIC.get(name), *size(options, OPSETS | RAW))
    if options.large:
        store.write_large(options.large, "torch", found)
    else:
        store.write("torch", found, PACKAGES)


def size(options: argparse.Namespace, opsets: dict[str, list[int]]) -> tuple[int, dict[str, list[int]]]:
    """How wide, and the opsets of each exporter."""
    return (WIDER, LARGE | RAW) if options.large else (1, opsets)


def exported(
    name: str,
    make: Callable[[int], torch_families.Made],
    axes: Axes | None,
    n: int,
    opsets: dict[str, list[int]] = OPSETS,
) -> list[store.Family]:
    """The family with fixed dimensions and, with `axes`, once more with those that vary."""
    torch.manual_seed(0)
    model, inputs = make(n)
    coarsen(model.eval())
    with torch.no_grad():
        outputs = model(*inputs)
    outputs = [value.numpy() for value in (outputs if isinstance(outputs, tuple) else (outputs,))]
    found = []
    for title, given in ((name, None), (f"{name}.dynamic", axes)):
        if given is not None or title == name:
            family = store.Family(title, [value.numpy() for value in inputs], outputs)
            for exporter, chosen in opsets.items():
                for opset in chosen:
                    try:
                        written = EXPORTERS[exporter](model, inputs, opset, given)
                    except Exception as error:
                        print(
                            f"{title}, {exporter} {opset}: {type(error).__name__}: {' '.join(str(error).split())[:150]}"
                        )
                        continue
                    if store.opset(written) == opset:
                        family.exports[exporter, opset] = store.stripped(written)
                    else:
                        print(f"{title}, {exporter} {opset}: written at {store.opset(written)}")
            found.append(family)
    return found


def coarsen(model: nn.Module) -> None:
    """Draw what a fresh module leaves at 0 or 1, and round weights to a few bits, which a zip packs well."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if not value.is_floating_point() or "frequencies" in name or "inv_freq" in name:
            continue
        if name.endswith("running_var"):
            value.data = torch.rand_like(value) + 0.5
        elif value.ndim == 1 and name.endswith("weight"):
            value.data = 1 + torch.randn_like(value) / 4
        elif value.ndim == 1:
            value.data = torch.randn_like(value) / 4
        value.data = (value.data * 32).round() / 32


def torchscript(
    model: nn.Module, inputs: tuple[Tensor, ...], opset: int, axes: Axes | None, optimize: bool = True
) -> ModelProto:
    """The older exporter, which traces."""
    names = [f"x{number}" for number in range(len(inputs))]
    held = io.BytesIO()
    with quiet():
        torch.onnx.export(
            model, inputs, held, dynamo=False, opset_version=opset, input_names=names, output_names=["y"],
            dynamic_axes=dict(zip(names, axes, strict=True)) if axes else None, do_constant_folding=optimize,
            training=torch.onnx.TrainingMode.EVAL if optimize else torch.onnx.TrainingMode.PRESERVE,
        )  # fmt: skip
    return onnx.load_from_string(held.getvalue())


def dynamo(
    model: nn.Module, inputs: tuple[Tensor, ...], opset: int, axes: Axes | None, optimize: bool = True
) -> ModelProto:
    """The newer exporter, which builds on torch.export."""
    dims = {name: torch.export.Dim(name) for held in axes or [] for name in held.values()}
    shapes = tuple({place: dims[name] for place, name in held.items()} for held in axes or [])
    if shapes:
        named = [p for p in inspect.signature(model.forward).parameters.values() if p.kind is not p.VAR_POSITIONAL]
        rest = shapes[len(named) :]
        shapes = (*shapes[: len(named)], *([rest] if rest else []))
    with quiet():
        program = torch.onnx.export(
            model, inputs, dynamo=True, opset_version=opset, dynamic_shapes=shapes or None, verbose=False, optimize=optimize,
            input_names=[f"x{number}" for number in range(len(inputs))], output_names=["y"],
        )  # fmt: skip
    return program.model_proto


EXPORTERS: dict[str, Callable[..., ModelProto]] = {
    "torchscript": torchscript,
    "dynamo": dynamo,
    "torchscript_raw": partial(torchscript, optimize=False),
    "dynamo_raw": partial(dynamo, optimize=False),
}


if __name__ == "__main__":
    main()
