"""Images to resize, shared by the tests of Resize."""

import numpy as np

IMAGE = {"inputs": "float[N,C,4,6] x", "outputs": "float[N,C,A,B] y"}
DATA = np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype(np.float32)


def scaled(*scales):
    return f"float[{len(scales)}] s = {{{', '.join(map(str, scales))}}}"


def sized(*sizes):
    return f"int64[{len(sizes)}] z = {{{', '.join(map(str, sizes))}}}"
