"""Exports `encoder.onnx`, a small image encoder with unit-length embeddings, with PyTorch's own exporter.

    pip install torch onnxscript
    python examples/export_encoder.py

The weights come from a fixed seed: the model is untrained, its graph is what the exporter makes of ordinary code.
"""

from pathlib import Path

import onnx
import torch
from torch import nn
from torch.nn import functional


class Encoder(nn.Module):
    """Two convolutions, global pooling, and an L2-normalized projection."""

    def __init__(self, width: int = 16, size: int = 24):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.project = nn.Linear(2 * width, size)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """An image batch to its embeddings and the mean strength of each channel."""
        features = self.features(image)
        embedding = functional.normalize(self.project(features.mean(dim=(2, 3))), p=2.0, dim=1)
        return embedding, features.abs().sum(dim=(2, 3))


def main() -> None:
    """Write the model beside this script."""
    torch.manual_seed(0)
    path = Path(__file__).with_name("encoder.onnx")
    torch.onnx.export(
        Encoder().eval(),
        (torch.randn(2, 3, 32, 32),),
        path,
        input_names=["image"],
        output_names=["embedding", "strength"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        opset_version=18,
        dynamo=True,
        external_data=False,
    )
    drop_stack_traces(path)


def drop_stack_traces(path: Path) -> None:
    """The exporter writes the paths of the exporting machine into every node; the example keeps the rest."""
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if "stack_trace" not in entry.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


if __name__ == "__main__":
    main()
