"""Names that nobody knows are errors with the likely one, in every verb; what is known and not there is said."""

import json

import onnx
import onnx_ir
import pytest
from opshift.passes import ConvertVersionPass, InlineFunctionsPass

import opshift
from opshift.cli import elsewhere
from opshift.cli import main as cli
from opshift.cli.parser import _parser, _verbs, parse_arguments
from tests.support import model

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}


def rows():
    return model("y = ReduceMax(x, a)", 18, constants="int64[1] a = {1}", **ROWS)


def calling():
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.Twice(x) }'
        '<domain: "my", opset_import: ["" : 17]> Twice (a) => (b) { b = Add(a, a) }'
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(rows(), "in.onnx")
    onnx.save(calling(), "calls.onnx")
    (tmp_path / "deny.txt").write_text("ReduceL22\n")
    (tmp_path / "deny.toml").write_text("ops = [\n")
    (tmp_path / "in.toml").write_bytes(b"\x08\x0a\xc3\x28")
    return tmp_path


MISSPELT = [
    ("inline in.onnx --op ReduceL22", "unknown operator 'ReduceL22'; did you mean ReduceL2?"),
    ("inline in.onnx --op Silu", "unknown operator 'Silu'; did you mean Swish?"),
    ("inline in.onnx --op layer_norm", "did you mean LayerNormalization?"),
    ("fold in.onnx --op SDPA", "did you mean Attention?"),
    ("inline in.onnx --op reducel2", "did you mean ReduceL2?"),
    ("inline in.onnx --op ReduceL2,Gemm", "unknown operator 'ReduceL2,Gemm': name one at a time"),
    ("targets rknn", "unexpected argument 'rknn'"),
    ("inline in.onnx --op ReduceMax --op RELU6X", "unknown operator 'RELU6X'"),
    ("inline in.onnx --deny deny.txt", "did you mean ReduceL2?"),
    ("inline calls.onnx --op my::Twise", "did you mean my::Twice?"),
    ("inline calls.onnx --op Twice", "did you mean my::Twice?"),
    ("inline calls.onnx --domain myy", "no operator of domain 'myy'; did you mean 'my'?"),
    ("inline in.onnx --target rknnn-2.1", "did you mean rknn-2.1?"),
    ("inline in.onnx --target rknn-9", "versions of rknn: "),
    ("inline in.onnx --target 13", "13 is an opset: use --opset 13"),
    ("inline in.onnx --target latest", "latest is an opset: use --opset latest"),
    ("inspect in.onnx --target tensorrt-8.66", "versions of tensorrt: "),
    ("inspect in.onnx --opset 99", "unknown opset 99; supported: 1 to "),
    ("inspect in.onnx --opset 13 --target rknn", "not both"),
    ("convert in.onnx --opset latests", "unknown target 'latests'; did you mean latest?"),
    ("convert in.onnx --opset ai.onnx.ml=9", "unknown opset 9 of ai.onnx.ml; supported: 1 to 5"),
    (
        "convert in.onnx --opset ai.onnx.ml=2",
        "does not import domain 'ai.onnx.ml', so its opset cannot be changed; it imports 'ai.onnx'",
    ),
    ("inline in.onnx --op foo::Bar", "unknown operator 'foo::Bar': opshift knows no operators of domain 'foo'"),
    ("inline in.onnx --op com.microsft::Gelu", "did you mean com.microsoft::Gelu?"),
    ("inline in.onnx --op ai.onnx::ReduceL22", "did you mean ReduceL2?"),
    (
        "optimize in.onnx --opset 13",
        "--opset is an option of convert, inline, fold, extract, merge, inspect, ledger, not of optimize",
    ),
    ("convert - in.onnx --out-dir out --opset 13", "'-' is not a file"),
    ("inline in.onnx --deny in.toml", "in.toml: not UTF-8 text"),
    ("inline in.onnx --target in.toml", "in.toml: not UTF-8 text"),
    ("inline in.onnx --deny deny.toml", "deny.toml: "),
    ("convert in.onnx --opset onnxruntme-1.8", "did you mean onnxruntime-1.8?"),
    ("convert in.onnx --opset ai.onnx.mll=3", "'ai.onnx.mll' are not known; did you mean 'ai.onnx.ml'?"),
    ("convert in.onnx --opset 13 --opset 14", "--opset names two opsets for domain 'ai.onnx': 13 and 14; give one"),
    ("convert in.onnx --opset 13 --target rknn", "not both"),
    ("convert in.onnx --target rknn --target=mnn", "--target is given twice, as rknn and as mnn; give one"),
    ("convert in.onnx --types float16 --types int64=int32", "--types is given twice, as float16 and as int64=int32"),
    ("convert in.onnx --target 13", "--opset 13"),
    ("convert in.onnx --ir-version 99", "unknown IR version 99; supported: 3 to 14"),
    ("convert in.onnx --opset 13 --ir-version 0", "unknown IR version 0"),
    ("convert in.onnx", "--opset, --target, --ir-version"),
    ("convert in.onnx --opset 13 --input-shape M=3", "no symbolic dimension 'M'"),
    ("convert in.onnx --opset 13 --val-range X:[0,1]", "did you mean 'x'?"),
    ("fold in.onnx --op gelu", "did you mean Gelu?"),
    ("verify in.onnx in.onnx --input-shape y:3,3", "no input 'y'"),
    ("ledger --opset 99", "unknown opset 99"),
    ("convert in.onnx --opset 13 --threshold -1", "--threshold must be 0 or more"),
    ("ledger --op resise", "did you mean Resize?"),
    ("probe --backend onnxruntim", "did you mean onnxruntime?"),
    ("probe --backend onnxruntime --op Relux", "unknown operator 'Relux'; did you mean Relu?"),
    ("convertt in.onnx", "did you mean convert?"),
    ("convert in.onnx --opst 13", "unknown argument '--opst'; did you mean --opset?"),
    ("convert in.onnx --opset 13 --external-data kep", "did you mean keep?"),
    ("convert in.onnx -o out.onnx --opset 13", "'-o': write the output after the model, without an option"),
    ("convert in.onnx --target_opset=13", "'--target_opset': use --opset"),
    ("convert in.onnx --target_opset=13", "\ntype: opshift convert in.onnx --opset 13\n"),
    (
        "optimize in.onnx out.onnx --overwrite-input-shape x:1,3",
        "'--overwrite-input-shape': use --fix-shape\ntype: opshift optimize in.onnx out.onnx --fix-shape x:1,3\n",
    ),
    ("optimize in.onnx --input-shapes x:1,3", "type: opshift optimize in.onnx --fix-shape x:1,3\n"),
    ("optimize in.onnx out.onnx --skip-optimization", "type: opshift optimize in.onnx out.onnx\n"),
    (
        "optimize in.onnx --model-check-inputs x:1,3",
        "use --input-shape\ntype: opshift optimize in.onnx --input-shape x:1,3\n",
    ),
    ("optimize in.onnx --model-check-inputs x:data.npy", "use --input-shape\nusage"),
    (
        "optimize in.onnx out.onnx --skip-fusion-patterns A B --overwrite-input-shape x:1,3 y:1 --model-check",
        "type: opshift optimize in.onnx out.onnx --fix-shape x:1,3 --fix-shape y:1\n",
    ),
    ("convert -o out.onnx -i in.onnx --target_opset 13", "type: opshift convert in.onnx out.onnx --opset 13\n"),
    (
        "extract in.onnx out.onnx --input-names x --output-names y",
        "type: opshift extract in.onnx out.onnx --from x --to y\n",
    ),
    (
        "convert in.onnx --opset 13 --op_block_list Mul Add",
        "--types float16 --keep op:NAME\ntype: opshift convert in.onnx --opset 13 --keep op:Mul --keep op:Add --types float16\n",
    ),
    ("convert in.onnx --dtype fp16", "type: opshift convert in.onnx --types fp16\n"),
    ("convert in.onnx --ir_version 8", "use --ir-version\ntype: opshift convert in.onnx --ir-version 8\n"),
    ("convert in.onnx -o out.onnx --opset 13", "type: opshift convert in.onnx out.onnx --opset 13\n"),
    (
        "convert in.onnx out.onnx --float16 --keep-io-types --op_block_list Softmax Pow",
        "type: opshift convert in.onnx out.onnx --types float16 --keep op:Softmax --keep op:Pow\n",
    ),
    ("convert --nodes_to_exclude=a,b in.onnx", "convert --keep node:a --keep node:b in.onnx --types float16\n"),
    ("convert in.onnx --dtype bf16 --data_max 500", "type: opshift convert in.onnx --types bf16\n"),
    ("convert in.onnx --calibration_data a.npz", "type: opshift convert in.onnx --inputs a.npz --types float16\n"),
    ("convert in.onnx --int64-to-int32", "type: opshift convert in.onnx --types int64=int32\n"),
    (
        "convert in.onnx --opset 13 --overwrite",
        "'--overwrite': outputs are overwritten anyway",
    ),
    ("inspect in.onnx --json", "use --format json"),
    ("inspect in.onnx --version", "use `opshift --version`"),
    ("ledger --json", "unknown argument '--json'\n"),
    ("verify in.onnx in.onnx --tolerance 1", "--rtol and --atol"),
    ("verify in.onnx in.onnx --output x", "--output is an option of probe, not of verify"),
    ("in.onnx --opset 13", "give a command first, such as: opshift convert in.onnx ..."),
    ("convert in.onnx --opset opset13", "unknown target 'opset13'; did you mean 13?"),
    ("convert in.onnx --opset ai.onnx:13", "did you mean 13?"),
    ("convert in.onnx --opset -1", "unknown opset -1; supported: 1 to "),
    ("convert in.onnx --opset 1.5", "unknown target '1.5'; an opset is a whole number"),
    ("convert in.onnx --opset", "--opset needs a value: --opset "),
    ("convert in.onnx --opset 13 --ir-version x", "--ir-version must be a whole number, not 'x'"),
    ("convert in.onnx --opset 13 --runs 1.5", "--runs must be a whole number, not '1.5'"),
    ("convert in.onnx --opset onnx-1.13", "did you mean onnx-tf-1.10?"),
    ("--versoin", "unknown argument '--versoin'; did you mean --version?"),
    (
        "-v convert in.onnx",
        "-v is an option of convert, inline, fold, optimize, extract, merge, verify, inspect, not of opshift",
    ),
    ("convert in.onnx --opset 13 out.onnx more.onnx", "give one model and its output, or --out-dir for several models"),
    ("convert in.onnx --in-place --opset 13 out.onnx", "give --in-place or an output"),
    ("convert in.onnx --opset 13 --fast out.onnx", "unknown argument '--fast'"),
    ("convert in.onnx . --opset 13", ". is a folder; give the path of a file, or --out-dir"),
]


@pytest.mark.parametrize(("typed", "said"), MISSPELT, ids=[typed for typed, _ in MISSPELT])
def test_what_nobody_knows_is_a_usage_error_and_writes_nothing(here, capsys, typed, said):
    before = sorted(path.name for path in here.iterdir())
    assert cli.main(typed.split()) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert not captured.out
    assert sorted(path.name for path in here.iterdir()) == before


def test_options_of_other_tools_are_answered_by_lines_that_are_understood():
    models = {"inspect": 1, "merge": 3}
    moved = {o for other in elsewhere.OTHERS if other.instead in ("FIRST", "LAST") for o in other.options.split()}
    for other in elsewhere.OTHERS:
        for verb in ("convert", "optimize", "extract", "verify", "merge", "inspect"):
            parser = _verbs(_parser(verb))[verb]
            for option in other.options.split():
                typed = [verb, *["a.onnx"] * (models.get(verb, 2) - (option in moved)), option, "1"]
                if (told := elsewhere.answer(parser, option, typed)) and told[1]:
                    parse_arguments(told[1])


@pytest.mark.parametrize(
    "typed", ["in.onnx --opset 13 out.onnx", "in.onnx -q out.onnx --opset=13", "--opset 13 in.onnx -q out.onnx"]
)
def test_options_may_stand_between_paths(here, typed):
    assert cli.main(["convert", "--no-verify", *typed.split()]) == 0
    assert onnx.load("out.onnx").opset_import[0].version == 13


def test_a_usage_error_is_json_for_who_asks_for_it(here, capsys):
    for typed in ("inline in.onnx --op Relux --format json", "convert in.onnx --opst 3 --format=json"):
        assert cli.main(typed.split()) == 2
        found = json.loads(capsys.readouterr().out)["error"]
        assert (found["code"], found["kind"]) == (2, "not possible")
        assert "did you mean" in found["message"]


@pytest.mark.parametrize(
    "held", ["\ufeffReduceMax\r\n# all\r\n".encode(), "\ufeffReduceMax\r\n".encode("utf-16-le"), b"ReduceMax"]
)
def test_lists_are_read_as_editors_of_any_system_keep_them(here, capsys, held):
    (here / "kept.txt").write_bytes(held)
    (here / "kept.toml").write_bytes(
        held.decode("utf-16" if held[:1] == b"\xff" else "utf-8-sig").encode()
        and b'\xef\xbb\xbfops = ["ReduceMax"]\r\n'
    )
    for name in ("kept.txt", "kept.toml"):
        assert cli.main(["inline", "in.onnx", "--deny", name, "--dry-run"]) == 3
        assert "ReduceMax" in capsys.readouterr().out


@pytest.mark.long
def test_a_known_operator_that_is_not_there_is_said_and_no_error(here, capsys):
    assert cli.main(["inline", "in.onnx", "out.onnx", "--op", "ReduceL2"]) == 0
    assert "nothing to inline: the model has no ReduceL2\n" in capsys.readouterr().out
    assert onnx.load("out.onnx").graph.node[0].op_type == "ReduceMax"
    assert cli.main(["inline", "calls.onnx", "out.onnx", "--op", "my::Twice", "--op", "ReduceL2"]) == 0
    assert "nothing to inline: the model has no ReduceL2\n" in capsys.readouterr().out
    assert cli.main(["inline", "in.onnx", "--out-dir", "many", "--op", "ReduceL2"]) == 0
    assert "nothing to inline" in capsys.readouterr().out
    assert cli.main(["inline", "calls.onnx", "out.onnx", "--op", "my::Twice"]) == 0
    assert "nothing to inline" not in capsys.readouterr().out


def test_an_operator_that_the_conversion_brings_and_takes_was_not_named_in_vain(here, capsys):
    onnx.save(model("y = Gelu(x)", 20, inputs="float[3] x", outputs="float[3] y"), "gelu.onnx")
    assert cli.main(["inline", "gelu.onnx", "out.onnx", "--op", "Gelu", "--opset", "13"]) == 0
    assert "nothing to inline" not in capsys.readouterr().out


def test_the_ir_version_alone_can_be_asked_for(here):
    assert cli.main(["convert", "in.onnx", "--ir-version", "7"]) == 0
    written = onnx.load("in.ir7.onnx")
    assert (written.ir_version, written.opset_import[0].version) == (7, 18)
    assert opshift.convert_version(rows(), ir_version=7).ir_version == 7


def test_convert_for_a_target_is_inline_for_it(here):
    assert cli.main(["convert", "in.onnx", "a.onnx", "--target", "onnxruntime-1.8"]) == 0
    assert cli.main(["inline", "in.onnx", "b.onnx", "--target", "onnxruntime-1.8"]) == 0
    made, other = (onnx.load(name) for name in ("a.onnx", "b.onnx"))
    assert made == other
    assert made.opset_import[0].version == 14


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: opshift.convert_version(rows(), None), "nothing to do: give an opset"),
        (lambda: opshift.convert_version(rows(), True), "not True"),
        (lambda: opshift.convert_version(rows(), 13.0), "not 13.0"),
        (lambda: opshift.convert_version(rows(), {}), "no opset is given"),
        (lambda: opshift.verify(rows(), rows(), seed=None), "seed must be 0 or more, not None"),
        (lambda: opshift.convert_version(rows(), {"": "x"}), "not 'x'"),
        (lambda: opshift.convert_version(rows(), 13, ir_version=99), "IR version 99"),
        (lambda: opshift.convert_version(rows(), {"ai.onnx.mll": 2}), "did you mean 'ai.onnx.ml'"),
        (lambda: opshift.inline(rows(), ["ReduceL22"]), "did you mean ReduceL2"),
        (lambda: opshift.inline(rows(), "ReduceL22"), "unknown operator 'ReduceL22'"),
        (lambda: opshift.inline(rows(), target="rknnn"), "did you mean rknn"),
        (lambda: opshift.plan(rows(), ops=["ReduceL22"]), "did you mean ReduceL2"),
        (lambda: opshift.fold(rows(), "Gellu"), "did you mean Gelu"),
        (lambda: opshift.convert_files(["in.onnx"], "out", None), "nothing to do: give an opset"),
        (lambda: opshift.convert_files(["in.onnx"], "out", 13, external_data="kep"), "did you mean keep"),
        (lambda: ConvertVersionPass(None)(onnx_ir.from_proto(rows())), "nothing to do: give an opset"),
        (lambda: InlineFunctionsPass(["my::Twise"])(onnx_ir.from_proto(calling())), "did you mean my::Twice"),
    ],
)
def test_the_same_in_python(here, call, said):
    with pytest.raises(ValueError, match=said):
        call()
