"""ImageDecoder has no form in older operators."""

from tests.support import check_refused, check_unchanged


def test_an_image_cannot_be_decoded_below_20():
    io = {"inputs": "uint8[N] x", "outputs": "uint8[H,W,3] y"}
    check_unchanged("y = ImageDecoder(x)", 20, 28, **io)
    check_refused("y = ImageDecoder(x)", 21, 19, "no operator of opset 19 decodes the bytes of an image file", **io)
