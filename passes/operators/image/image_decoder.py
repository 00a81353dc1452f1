"""Images in the formats of files."""

from __future__ import annotations

from opshift.passes.rewrite.registry import cannot

cannot("ImageDecoder", 20, "no operator of opset 19 decodes the bytes of an image file")
