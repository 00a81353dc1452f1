"""Bytes on disk: model files, external data, OpenVINO IR, and the wire format below them."""
