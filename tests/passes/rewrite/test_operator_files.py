"""The tables of files name each operator once, and the file that registers it."""

import json
import subprocess
import sys

import pytest
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.microsoft import files as vendor_files
from opshift.passes.rewrite import operator_files

REGISTRARS = """
import collections, importlib, json, pkgutil, sys
from opshift.passes import operators
from opshift.passes.rewrite import registry

home, callers = operators.__name__ + ".", collections.defaultdict(set)


def noting(register):
    def note(ops, *rest, domain="", **named):
        file = sys._getframe(1).f_globals["__name__"].removeprefix(home)
        for op in [ops] if isinstance(ops, str) else list(ops):
            callers[f"{domain}::{op}"].add(file)
        register(ops, *rest, domain=domain, **named)
    return note


for name in ("changed", "same", "cannot", "defined", "refused"):
    setattr(registry, name, noting(getattr(registry, name)))
for module in pkgutil.walk_packages(operators.__path__, home):
    importlib.import_module(module.name)
print(json.dumps({op: sorted(files) for op, files in callers.items()}))
"""


@pytest.mark.long
def test_every_operator_is_registered_in_the_one_file_that_the_table_names():
    """Asked in a new interpreter, which imports every file by its path and notes who calls the registry."""
    found = json.loads(subprocess.run([sys.executable, "-c", REGISTRARS], check=True, capture_output=True).stdout)
    tables = (*operator_files.FILES.items(), *vendor_files.FILES.items())
    assert found == {f"{domain}::{op}": [file] for domain, ops in tables for op, file in ops.items()}


def test_what_computes_in_integers_between_scales_takes_scales():
    """Asked of the names: each is of the family that the vendor calls so."""
    of_vendor = {op for domain, op in vendor_files.integer_operators() if domain == MICROSOFT}
    assert len(of_vendor) == len(vendor_files.integer_operators())
    plain = {op for op in of_vendor if not op.startswith("QLinear")}
    assert plain == {"DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QAttention", "QEmbedLayerNormalization", "QGemm"}
    assert of_vendor - plain >= {"QLinearAdd", "QLinearConv", "QLinearMul", "QLinearSigmoid", "QLinearWhere"}
