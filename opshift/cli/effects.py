"""Reject options that would have no effect, before anything is done."""

from __future__ import annotations

import argparse

_RUN = (
    "inputs",
    "input_shape",
    "val_range",
    "runs",
    "seed",
    "save_inputs",
    "engine",
    "rtol",
    "atol",
    "repro",
    "evidence",
)
_PACKING = ("extract", "merge")  # these put the data of several files into one
_UNREPEATED = ("types", "rebatch", "add_output", "drop_output", "zipmap", "map")
"""With these `opshift verify` cannot repeat the proof: it compares files with the same outputs and sizes."""
_ONE = ("save_inputs", "report", "repro", "evidence")


def check(options: argparse.Namespace) -> None:
    """Raise `ValueError` for options of proof and output that would have no effect, or contradict each other."""
    if options.threshold is not None and options.threshold < 0:
        raise ValueError(f"--threshold must be 0 or more, not {options.threshold}")
    if options.threshold is not None and options.external_data != "all":
        raise ValueError("--threshold needs --external-data all")
    packs = options.external_data == "all" or (options.external_data is None and options.command in _PACKING)
    for name in ("shard", "dedupe"):
        if getattr(options, name) and not packs:
            raise ValueError(f"--{name} has no effect without --external-data all")
    if options.no_verify and not getattr(options, "try_", None):
        for name in _RUN:
            if getattr(options, name) is not None:
                raise ValueError(f"{_spell_type(name)} has no effect with --no-verify")
    if options.evidence is not None and options.command in _PACKING:
        raise ValueError(f"--evidence does not work with {options.command}")
    for name in _UNREPEATED:
        if getattr(options, name, None) and options.evidence is not None:
            raise ValueError(f"--evidence does not work with {_spell_type(name)}")
    if options.out_dir is None and (options.jobs is not None or options.backend is not None):
        raise ValueError("--jobs and --backend need --out-dir")
    if options.out_dir is not None:
        for name in _ONE:
            if getattr(options, name):
                raise ValueError(f"{_spell_type(name)} works with one model only, not with --out-dir")


def _spell_type(name: str) -> str:
    return f"--{name.replace('_', '-')}"
