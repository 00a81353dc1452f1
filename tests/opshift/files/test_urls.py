"""Paths and URLs, and which of them are local."""

import pytest

from opshift.files import urls


@pytest.mark.parametrize(
    ("path", "local", "elsewhere"),
    [
        ("a b/m%20.onnx", "a b/m%20.onnx", False),
        ("file:///a%20b/m.onnx", "/a b/m.onnx", False),
        ("memory://a/m.onnx", "memory://a/m.onnx", True),
    ],
)
def test_which_paths_are_local(path, local, elsewhere):
    assert (urls.local(path), urls.is_url(path)) == (local, elsewhere)
