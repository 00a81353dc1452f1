"""Export a model of transformers for an old runtime: optimum exports, opshift converts, optimum compares with PyTorch.

python examples/optimum_export.py bert-base-uncased exported/   # needs optimum-onnx
"""

import sys
import tempfile
from pathlib import Path

from optimum.exporters.onnx import main_export
from optimum.exporters.onnx.model_configs import BertOnnxConfig
from optimum.exporters.tasks import TasksManager

import opshift

TARGET = "onnxruntime-1.4"  # or an opset, such as 12
register = TasksManager.create_register("onnx", overwrite_existing=True)


@register("bert", "feature-extraction", library_name="transformers")
class Converted(BertOnnxConfig):
    """BERT as optimum exports it, and then at another opset. The same method does it for any other configuration."""

    def post_process_exported_models(self, path, models_and_onnx_configs, onnx_files_subpaths):
        configs, files = super().post_process_exported_models(path, models_and_onnx_configs, onnx_files_subpaths)
        with tempfile.TemporaryDirectory(dir=path) as folder:
            for done in opshift.convert_files([Path(path, name) for name in dict.fromkeys(files)], folder, TARGET):
                if done.code:
                    raise RuntimeError(f"{done.source}: {done.why}")
            for made in Path(folder).iterdir():
                made.replace(Path(path, made.name))
        return configs, files


if __name__ == "__main__":
    main_export(sys.argv[1], output=sys.argv[2], task="feature-extraction")
