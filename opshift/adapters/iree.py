"""IREE: its importer of ONNX, its compiler for this machine's processor, and its runtime."""

import os

import iree.runtime
import numpy as np
import onnx
from iree.compiler.api import Invocation, Output, Source
from iree.compiler.api import Session as Compiler
from iree.compiler.extras import onnx_importer
from iree.compiler.ir import Context

PACKAGE = "iree-base-compiler"
REASONS = [r"error: (?!Failures have been detected)"]
_FLAGS = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-input-type=onnx",
]


class Session:
    """A compiled module."""

    def __init__(self, path, folder, inputs, outputs, options):
        self._inputs, self._kinds = list(inputs), [kind for kind, _ in outputs.values()]
        compiled = os.path.join(folder, "model.vmfb")
        _compile(import_model(onnx.load(path)), compiled, options)
        config = iree.runtime.Config("local-sync")
        with open(compiled, "rb") as file:
            module = iree.runtime.VmModule.copy_buffer(config.vm_instance, file.read())
        context = iree.runtime.SystemContext(config=config)
        context.add_vm_module(module)
        name = next(name for name in module.function_names if not name.startswith("__") and "$" not in name)
        self._call = context.modules[module.name][name]

    def run(self, feeds):
        found = self._call(*(np.array(feeds[name], order="C") for name in self._inputs))
        found = found if isinstance(found, (list, tuple)) else [found]
        arrays = [np.asarray(value.to_host() if hasattr(value, "to_host") else value) for value in found]
        return [array.astype(bool) if kind == "bool" else array for array, kind in zip(arrays, self._kinds)]  # noqa: B905


def import_model(model):
    """The text of a model in MLIR, as `iree-import-onnx` writes it."""
    onnx.checker.check_model(model)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    with Context() as context:
        info = onnx_importer.ModelInfo(model)
        module = info.create_module(context=context)
        onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
        return module.operation.get_asm(assume_verified=False)


def _compile(text, target, options):
    compiler = Compiler()
    compiler.set_flags(*_FLAGS, *options)
    source, output = Source.wrap_buffer(compiler, text.encode() + b"\0"), Output.open_file(target)
    invocation = Invocation(compiler)
    invocation.enable_console_diagnostics()
    if not invocation.parse_source(source) or not invocation.execute():
        raise RuntimeError("the compiler refused")
    invocation.output_vm_bytecode(output)
    output.keep()
