"""Bytes on disk: model files, external data, OpenVINO IR, and protobuf's wire format."""
