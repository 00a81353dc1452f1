"""External data where a signal, an interrupt or a full disk comes between: all of it is there, or nothing."""

import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from opshift.passes.model import tensor_data

from opshift.files import copying, external, model_file, skeletons, wire
from tests.opshift.files.weights import listing, saved, source

pytestmark = [pytest.mark.posix, pytest.mark.usefixtures("small_files_are_lazy")]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file may be left to the collector
def test_an_interrupt_at_any_line_leaves_nothing(here, tmp_path):
    saved(here, embedded=False)
    there = tmp_path / "there"
    there.mkdir()
    ours = {module.__file__ for module in (model_file, external, copying, skeletons, wire, tensor_data)}
    count = 0
    for stop in range(1, 10_000):
        count = 0

        def traced(frame, event, _, stop=stop):
            nonlocal count
            if frame.f_code.co_filename not in ours:
                return None
            count += event == "line"
            if count == stop:
                sys.settrace(None)
                raise KeyboardInterrupt
            return traced

        proto, interrupted = model_file.read(here / "in.onnx"), False
        try:
            sys.settrace(traced)
            with model_file.Draft(proto, there / "sub/out.onnx", here, "all", external.Packing(64)) as draft:
                draft.publish()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(None)
        draft = None
        found = listing(there)
        assert found == ["sub/out.onnx", "sub/out.onnx.data"] or (interrupted and not found), f"line {stop}"
        if not interrupted:
            break
        for name in found:
            (there / name).unlink()
    assert count > 100, "the trace saw the lines"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_or_all(number, here):
    held = source()
    held.graph.initializer[-1].CopyFrom(onnx.numpy_helper.from_array(np.zeros(10_000_000, np.float32), "w"))
    onnx.save(held, here / "in.onnx")
    command = [sys.executable, "-m", "opshift", "convert", "in.onnx", "out.onnx", "--opset", "13"]
    seen = set()
    for delay in (0.3, None, None):  # None: as soon as there is a draft, which is then verified
        process = subprocess.Popen(
            command,
            cwd=here,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # a shell's background jobs ignore interrupts
        )
        while delay is None and process.poll() is None and listing(here) == ["in.onnx"]:
            time.sleep(0.001)
        time.sleep(delay or 0)
        process.send_signal(number)
        process.communicate()
        seen.add(process.returncode)
        if "out.onnx" in listing(here):  # it came too late, maybe while the report was printed
            assert onnx.load(here / "out.onnx").opset_import[0].version == 13
            (here / "out.onnx").unlink()
        assert listing(here) == ["in.onnx"]
    assert seen & {130, -number}


@pytest.mark.long
@pytest.mark.parametrize("policy", ["keep", "all"])
def test_a_full_disk_is_one_line_and_leaves_nothing(policy, here):
    held = source()
    held.graph.initializer[-1].CopyFrom(onnx.numpy_helper.from_array(np.zeros(3_000_000, np.float32), "w"))
    onnx.save(held, here / "in.onnx")
    limit = "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20));"
    run = f"{limit} from opshift.cli import main as cli; raise SystemExit(cli.main(['convert', 'in.onnx', 'out.onnx', '--opset', '13', '--external-data', '{policy}']))"
    done = subprocess.run([sys.executable, "-c", run], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 6
    assert done.stderr == "opshift: out.onnx cannot be written: File too large\n"
    assert listing(here) == ["in.onnx"]
