"""What a run found, as a table, and a finding as a script that stands alone."""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.parser
import onnx.printer
import onnxruntime
from onnx import ModelProto
from rich.table import Table

from tests.random.rare import NEVER
from tests.random.verdict import STATUSES, Verdict

if TYPE_CHECKING:
    from tests.random.models import Source
    from tests.random.verbs import Verb

EXPLAINED = """Calls of all operators that ONNX published, changed at random (sizes, axes, types, attributes, what is left out),
alone and in graphs of up to 40 nodes, in the main graph, branches, loops, scans and functions, each put through several verbs.

- **ok**: the same bits. **near**: the same within the rounding of kernels. **refused**: the verb said no.
- **unjudged**: no engine runs both forms, or engines differ on the source. **wrong**, **fails**: an engine that runs the source
  computes something else from the result, or nothing. **invalid**: onnx.checker takes the source, but not the result.
- **crashed**, **rejected**, **hangs**, **died**: the verb raised an error, called a valid source invalid, or did not come back."""


CLASSES = """## What it finds

Each of these was once a defect. In the state in which none of them was repaired,
`python -m tests.lab random --seed 0 --seconds 20 --op NAME` finds it; the last three were looked for with their own repair taken out alone:

| defect | found with | as |
| --- | --- | --- |
| a Dropout whose mask nobody reads becomes an Identity with two outputs | `--op Dropout` | invalid |
| STFT in a function where the shape of the signal is not known | `--op STFT` | invalid |
| the step of a Slice is the least number there is | `--op Slice` | crashed |
| starts of unknown or another length than the rank, without axes | `--op Slice` | crashed |
| axes of Squeeze in any order | `--op Squeeze` | invalid |
| AffineGrid with corners aligned and a size of 1 of the run time | `--op AffineGrid` | wrong |
| indices of no length, of empty data | `--op GatherND` | fails |
| Celu with a negative alpha, by the function of onnx | `--op Celu` | wrong |
| an attribute that no caller binds, in a Constant of its own | `--op Dropout` | invalid |
| an input of a function that a caller leaves out, taken for one that is there | `--op Split` | invalid |
| a Resize of which nothing is left becomes a Gather without data | `--op Resize` | invalid |
| Softmax, LogSoftmax and Hardmax of what has no element, known only at run time | `--op Softmax` | fails |
| sizes of a Resize that a caller leaves out, taken for those that are asked for | `--op Resize` | wrong, invalid |

They are of six classes. With the repair in the middle of each taken out alone, from seed 0, at 3 to 89 results a second beside other
work (`python -m tests.lab random-networks SECONDS 1 RECIPE` for networks):

| class | taken out | with | found |
| --- | --- | --- | --- |
| a body judged by names alone | copies of a function for what its calls leave out | Resize, Split, Clip, Selu, Trilu | 25 of 4,482 results in 71 s: invalid, wrong, fails |
| guards for constants only | a size of 1 that only the run tells AffineGrid | AffineGrid | 15 of 1,482 in 65 s: wrong (NaN) |
| sizes of 0 | a Softmax of nothing that is not flattened | Softmax, LogSoftmax, Hardmax | 34 of 5,376 in 60 s: fails |
| unknown read as a value | the refusal of unknown ranks, which become 0 | STFT, Softmax, Gather, PRelu, DFT | 1 of 966 in 61 s: wrong |
| the same | the shape of a scalar of IR | networks, `reduced` | 71 in 62 s: invalid |
| outputs not made to fit | the outputs that an Identity has not | Dropout, `--kind optimize` | 4 of 186 in 60 s: invalid |
| scruples of the IR reader | a Slice backwards to the end | networks, `sliced` | 42 in 63 s: differs |
| the same | NormalizeL2 without axes | networks, `normalize_l2` | 42 in 66 s: differs |
"""


def table(counts: Counter[tuple[str, str, str]]) -> Table:
    """By what was done, and by where."""
    made = Table("", *STATUSES, "total")
    for index, title in ((1, "verb"), (0, "place")):
        made.add_section()
        names = sorted({key[index] for key in counts if key[1] != "-"})
        for name in names:
            found = {s: sum(n for key, n in counts.items() if key[index] == name and key[2] == s) for s in STATUSES}
            made.add_row(f"{title}: {name}", *(str(found[s] or "") for s in STATUSES), str(sum(found.values())))
    made.add_section()
    total = {s: sum(n for key, n in counts.items() if key[2] == s) for s in STATUSES}
    made.add_row("all", *(str(total[s]) for s in STATUSES), str(sum(total.values())))
    return made


def markdown(counts: Counter[tuple[str, str, str]], how: str, covered: list[str], note: str = "") -> str:
    """The counts as a page, by what was done and by where; `note` says what became of what was found."""
    head = "Written by `python -m tests.lab random --seconds 3600 --markdown docs/random.md`; do not edit."
    versions = f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}"
    rows = ["# Random models", "", head, "", EXPLAINED, "", f"{how}; {versions}.", "", *filter(None, [note])]
    for index, title in ((1, "verb"), (0, "place")):
        rows += ["", f"| {title} | {' | '.join(STATUSES)} | total |", f"|{' --- |' * (len(STATUSES) + 2)}"]
        for name in sorted({key[index] for key in counts if key[1] != "-"}):
            found = [sum(n for key, n in counts.items() if key[index] == name and key[2] == s) for s in STATUSES]
            rows.append(f"| {name} | {' | '.join(map(str, found))} | {sum(found)} |")
    reached, missed, bare = covered
    rows += ["", "## What was reached", "", f"{reached}.", "", f"{missed}.", "", f"{bare}.", ""]
    rows += ["", "Operators of which nothing is drawn:", ""]
    rows += [f"- {', '.join(ops.split())}: {why}." for ops, why in NEVER.items()]
    rows += ["", "Versions of opset 1 to 6 are judged only where onnx.reference looks at the version of an operator, or",
             "onnx's converter takes the model up to the opsets that onnxruntime has kernels for.", "", CLASSES]  # fmt: skip
    return "\n".join([*rows, ""])


def script(source: Source, verb: Verb, verdict: Verdict) -> str:
    """Python that does it again."""
    return "\n".join(
        [
            f'"""{verdict.status} by {verdict.engine or "opshift"}, seed {source.seed}, in {source.place}: {verb}:',
            verdict.why.replace("\\", "/").replace('"""', "'''"),
            '"""',
            "import numpy as np, onnx, onnx.parser, opshift",
            "",
            _model(source.model),
            f"feeds = {{{', '.join(f'{k!r}: {_array(v)}' for k, v in source.feeds.items())}}}",
            "onnx.checker.check_model(model, full_check=True)",
            *(f"model = {_call(name, args)}" for name, args in verb.steps),
            "print(onnx.printer.to_text(model))",
            "onnx.checker.check_model(model, full_check=True)",
            "import onnxruntime",
            "print(onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds))",
            "",
        ]
    )


def _model(model: ModelProto) -> str:
    text = onnx.printer.to_text(model)
    try:
        same = onnx.parser.parse_model(text).SerializeToString() == model.SerializeToString()
    except Exception:
        same = False
    if same and "'''" not in text and "\\" not in text:
        return f"model = onnx.parser.parse_model('''{text}''')"
    data = base64.b64encode(zlib.compress(model.SerializeToString())).decode()
    shown = "\n".join(f"# {line}" for line in text.splitlines())
    load = f"import base64, zlib\nmodel = onnx.ModelProto.FromString(zlib.decompress(base64.b64decode({data!r})))"
    return f"{shown}\n{load}"


def _array(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_array, value))}]"
    if not isinstance(value, np.ndarray):
        return repr(value)
    text = value.dtype.kind in "OSU"
    if not text and hasattr(np, value.dtype.name) and value.size > 8 and (value == value.flat[0]).all():
        return f"np.full({list(value.shape)}, {value.flat[0].item()!r}, {value.dtype.name!r})"
    plain = repr(value.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    if not text and not hasattr(np, value.dtype.name):
        return f"onnx.numpy_helper.to_array(onnx.TensorProto.FromString({_bytes(value)!r}))"
    return f"np.array({plain}, {'object' if value.dtype.kind in 'OSU' else value.dtype.name!r}).reshape({list(value.shape)})"


def _bytes(value: Any) -> bytes:
    from tests.random.values import tensor

    return tensor(value).SerializeToString()


def _call(name: str, args: tuple[Any, ...]) -> str:
    if name == "convert":
        target, *wanted = (*args, False, False)
        more = "".join(f", {key}=True" for key, on in zip(("modernize", "optimize"), wanted, strict=False) if on)
        return f"opshift.convert_version(model, {target!r}{more})" if target else "opshift.optimize(model)"
    if name == "inline":
        more = f", target={args[1]}" if len(args) > 1 and args[1] is not None else ""
        return f"opshift.inline(model, {list(args[0])!r}{more})"
    return f"opshift.fold(model{', optimize=True' if args and args[0] else ''})"
