"""A goal that ends the process that works on it, in a file of its own, as other processes import it."""

import os
from dataclasses import dataclass
from pathlib import Path

from opshift.passes.goals import Goal


@dataclass(frozen=True)
class Deadly(Goal):
    """Ends the process that works on a model of a certain name, in the middle of its work; notes what it had fetched."""

    out: str = ""

    def run(self, source, folder=None, allowance=None):
        if source.graph.name == "deadly":
            Path(self.out, f".deadly.onnx.{'0' * 12}.part").touch()
            Path(self.out).with_name("note").write_text(folder)
            os._exit(7)
        return super().run(source, folder, allowance)
