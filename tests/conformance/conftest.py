"""The published cases, loaded once per session."""

import pytest

from tests.conformance.cases import Case, all_cases


@pytest.fixture(scope="session")
def published() -> list[Case]:
    """Of the installed onnx and of the older wheels, in an order that does not depend on either."""
    return sorted(all_cases(), key=lambda case: (case.name, case.opset, case.release))
