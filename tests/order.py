"""The order of tests for several workers, each of which begins with a contiguous part of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

LONG = (  # modules with tests of seconds, which nothing may be left to wait for at the end
    "exported/test_refined.py",
    "scenarios/test_package_models.py",
    "opshift/jobs/test_batch.py",
    "opshift/probing/test_probe.py",
    "conformance/test_sweeps.py",
    "opshift/catalog/test_definitions.py",
    "scenarios/test_corrupt_files.py",
    "scenarios/test_random_models.py",
    "scenarios/test_structures.py",
    "networks/test_sample.py",
    "test_docs.py",
    "opshift/files/test_external.py",
)


def long_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """As many parts as workers, of one size, each of which begins with its share of the long modules."""
    places = {Path(__file__).parent / name: index % workers for index, name in enumerate(LONG)}
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    short = [item for item in items if item.path not in places]
    for item in items:
        if item.path in places:
            parts[places[item.path]].append(item)
    for part in parts[:-1]:
        more = max(len(items) // workers - len(part), 0)
        part += short[:more]
        del short[:more]
    parts[-1] += short
    return [item for part in parts for item in part]
