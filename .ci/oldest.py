"""The newest and an older onnx make the same bytes of frozen and exported models, or the older is refused by name.

    python .ci/oldest.py record FILE    # with the newest onnx: models, and what becomes of them
    python .ci/oldest.py compare FILE   # with an older one, and nothing of the tests

`--every N` takes one of N models.
"""

from __future__ import annotations

import argparse
import hashlib
import pickle
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx

import opshift

OPSETS = (7, 9, 12, 13, 17, 18, 20, 21, 23, 26, 28)
Made = tuple[str, bytes, int, str]
"""The name of a model, its bytes, the opset that it is brought to, and what comes of it."""


def made(data: bytes, opset: int) -> str:
    """The result as a hash, or the refusal."""
    model = onnx.ModelProto()
    model.ParseFromString(data)
    try:
        result = opshift.convert_version(model, opset)
    except opshift.Refused as refused:
        return f"refused: {refused}"
    return hashlib.sha256(result.SerializeToString(deterministic=True)).hexdigest()


def recorded(every: int) -> Iterator[Made]:
    sys.path.append(str(Path(__file__).parents[1]))
    from tests.exported import store as exported
    from tests.frozen import store as frozen

    models = [(f"frozen/{v}/{case.name}", case.model) for v in frozen.frozen_opsets() for case in frozen.read(v)]
    models += [(f"exported/{e.name}", e.model) for framework in exported.frameworks() for e in exported.read(framework)]
    for name, model in models[::every]:
        for opset in random.Random(name).sample(OPSETS, 2):
            data = model.SerializeToString()
            yield name, data, opset, made(data, opset)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("record", "compare"))
    parser.add_argument("file")
    parser.add_argument("--every", type=int, default=8)
    options = parser.parse_args()
    if options.task == "record":
        with open(options.file, "wb") as file:
            pickle.dump(list(recorded(options.every)), file)
        return 0
    with open(options.file, "rb") as file:
        held: list[Made] = pickle.load(file)
    found: Counter[str] = Counter()
    for name, data, opset, before in held:
        after = made(data, opset)
        named = f"onnx {onnx.__version__} is installed" in after
        kind = "the same" if after == before else "refused by the name of onnx" if named else "OTHER"
        found[kind] += 1
        if kind == "OTHER":
            print(f"{name} to {opset}: {after} instead of {before}")
    print(f"onnx {onnx.__version__}: {', '.join(f'{count} {kind}' for kind, count in found.items())}")
    return 1 if found["OTHER"] else 0


if __name__ == "__main__":
    sys.exit(main())
