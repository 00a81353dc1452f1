"""What is no file is not read, whatever would come out of it."""

import pytest
from opshift.passes.errors import InvalidModel

from opshift.files import model_file, openvino_xml

pytestmark = pytest.mark.posix


@pytest.mark.parametrize("read", [model_file.read, openvino_xml.parse])
def test_a_device_is_no_file(read):
    with pytest.raises(InvalidModel, match="no regular file"):
        read("/dev/null")
