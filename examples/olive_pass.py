"""A pass of Olive that converts a model to an opset or a target, and proves that it computes the same.

python examples/olive_pass.py examples/encoder.onnx converted/   # needs olive-ai
"""

import sys
from pathlib import Path

from olive import run
from olive.model import ONNXModelHandler
from olive.package_config import OlivePackageConfig
from olive.passes import Pass
from olive.passes.pass_config import BasePassConfig, PassConfigParam

import opshift


class OpsetConversion(Pass):
    """Convert to `target`: an opset, or a runtime such as onnxruntime-1.8. Put it before quantization."""

    @classmethod
    def _default_config(cls, accelerator_spec):
        return {"target": PassConfigParam(type_=str, default_value="13", description="an opset or a runtime")}

    def _run_for_config(self, model: ONNXModelHandler, config: type[BasePassConfig], output_model_path: str):
        target = int(config.target) if config.target.isdigit() else config.target
        (done,) = opshift.convert_files([model.model_path], Path(output_model_path).with_suffix(""), target)
        if done.code:
            raise RuntimeError(f"{done.source}: {done.why}")
        return ONNXModelHandler(model_path=done.output)


def main(model: str, output: str, target: str = "onnxruntime-1.8") -> None:
    """Run a workflow of this pass alone; others may stand before and behind it."""
    packages = OlivePackageConfig.load_default_config().model_dump()
    packages["passes"]["opsetconversion"] = {"module_path": f"{Path(__file__).stem}.OpsetConversion"}
    run(
        {
            "input_model": {"type": "ONNXModel", "model_path": model},
            "passes": {"opset": {"type": "OpsetConversion", "target": target}},
            "output_dir": output,
        },
        package_config=packages,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
