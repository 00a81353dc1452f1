"""What is no file is not read, whatever would come out of it."""

import pytest
from opshift.passes.errors import InvalidModel
from opshift.passes.openvino import xml_file

from opshift.files import model_file

pytestmark = pytest.mark.posix


@pytest.mark.parametrize("read", [model_file.read, xml_file.parse])
def test_a_device_is_no_file(read):
    with pytest.raises(InvalidModel, match="no regular file"):
        read("/dev/null")
