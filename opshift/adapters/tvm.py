"""TVM: relax's front end for ONNX, compiled by LLVM for this machine's processor."""

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

PACKAGE = "apache-tvm"
REASONS = [
    r"not supported yet|[Nn]ot [Ii]mplemented|are not supported",
    r"(?:Value|Type|Key|Attribute|Assertion|TVM\w*)Error: \S",
]


class Session:
    """A compiled module on relax's virtual machine."""

    def __init__(self, path, folder, inputs, outputs, options):
        self._inputs, self._count = list(inputs), len(outputs)
        module = from_onnx(onnx.load(path), keep_params_in_input=False)
        module = relax.transform.DecomposeOpsForInference()(module)
        module = relax.transform.LegalizeOps()(module)
        built = tvm.compile(module, target="llvm")
        self._machine = relax.VirtualMachine(built, tvm.cpu())

    def run(self, feeds):
        given = [tvm.runtime.tensor(np.array(feeds[name], order="C")) for name in self._inputs]
        found = self._machine["main"](*given)
        found = list(found) if self._count > 1 or not hasattr(found, "numpy") else [found]
        return [value.numpy() for value in found]
