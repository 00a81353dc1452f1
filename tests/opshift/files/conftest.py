"""A folder for models with external data, which are read as files of gigabytes are."""

import pytest

from opshift.files import model_file


@pytest.fixture
def small_files_are_lazy(monkeypatch):
    """What holds for files of gigabytes is tested on files of kilobytes."""
    read = model_file.read
    monkeypatch.setattr(model_file, "read", lambda path, **_: read(path, whole=0, large=64))


@pytest.fixture
def here(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    return folder
