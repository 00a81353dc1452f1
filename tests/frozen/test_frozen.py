"""What a release once converted, every later one converts: frozen models reach what they reached, with their outputs.

Each case goes to a sample of opsets that its name settles: the ends of all opsets and of those it reached, those next
to its own, and one more that it reached, or three of these without `--whole`. `python -m tests.lab freeze --reach` goes to all of them.
"""

import random
from pathlib import Path

import numpy as np
import pytest

from tests import pairs
from tests.conformance.cases import Case
from tests.conformance.draws import is_random
from tests.conformance.judge import CRASHED, INVALID, OK, UNJUDGED, WRONG, judge
from tests.frozen import store
from tests.frozen.__main__ import LARGEST, size


def sampled(case: Case, reached: list[int]) -> list[int]:
    everywhere, drawn = store.targets(), random.Random(case.name)
    chosen = [everywhere[0], everywhere[-1], case.opset - 1, case.opset + 1, *reached[:1], *reached[-1:]]
    chosen += drawn.sample(reached, min(1, len(reached)))
    chosen = chosen if pairs.whole else [case.opset + drawn.choice((-1, 1)), *drawn.sample(chosen, 2)]
    return sorted(set(chosen) & set(everywhere))


@pytest.mark.parametrize("opset", store.frozen_opsets())
def test_frozen_cases_reach_what_they_reached(opset: int):
    recorded = store.read_reach()[opset]
    kept = {OK, UNJUDGED} if store.older_engine() else {OK}
    complaints = []
    for case in pairs.some(store.read(opset), 4):
        reached = recorded[case.name]
        for target in sampled(case, reached):
            verdict = judge(case, target)
            if verdict.status in (WRONG, INVALID, CRASHED) or (target in reached and verdict.status not in kept):
                complaints.append(f"{case.name} {opset}->{target} {verdict.status}: {verdict.why}")
    assert not complaints, "\n".join(complaints)


def test_every_opset_with_new_versions_is_frozen():
    missing = [opset for opset in store.targets() if store.introduced(opset) and not store.archive(opset).exists()]
    assert not missing, f"python -m tests.lab freeze {' '.join(f'--opset {opset}' for opset in missing)}"


def test_every_frozen_case_has_its_reach_recorded():
    frozen = {opset: sorted(case.name for case in store.read(opset)) for opset in store.frozen_opsets()}
    assert {opset: sorted(cases) for opset, cases in store.read_reach().items()} == frozen
    unreached = [name for cases in store.read_reach().values() for name, reached in cases.items() if not reached]
    assert not unreached


@pytest.mark.parametrize("opset", store.frozen_opsets())
def test_a_frozen_case_shows_a_version_that_no_older_file_shows(opset: int):
    cases, unshown = store.read(opset), store.unshown(opset)
    assert cases
    for case in cases:
        assert case.opset == opset
        assert store.operators(case.model) & unshown, case.name
        assert not is_random(case.model), case.name
        assert any(value.size for value in case.outputs), case.name
        assert size(case) <= LARGEST, case.name


def test_a_frozen_file_is_never_written_again(tmp_path: Path):
    path = store.archive(7, tmp_path)
    cases = store.read(7)[:1]
    store.write(path, cases)
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        store.write(path, store.read(7)[1:2])
    assert path.read_bytes() == before


def test_the_same_cases_make_the_same_file(tmp_path: Path):
    (tmp_path / "again").mkdir()
    cases = store.read(13)
    store.write(store.archive(13, tmp_path), cases)
    store.write(store.archive(13, tmp_path / "again"), reversed(cases))
    assert store.archive(13, tmp_path).read_bytes() == store.archive(13, tmp_path / "again").read_bytes()
    for before, after in zip(cases, store.read(13, tmp_path), strict=True):
        assert before.name == after.name
        assert before.model == after.model
        for one, other in zip(before.outputs, after.outputs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_reach_is_stored_as_spans(tmp_path: Path):
    reach = {9: {"test_b": [7, 8, 9, 13], "test_a": [28]}, 28: {"test_c": []}}
    store.write_reach(reach, tmp_path)
    assert '"test_b": "7..9 13"' in (tmp_path / "reach.json").read_text(encoding="utf-8")
    assert store.read_reach(tmp_path) == reach
