"""Convert many models into one folder: one by one, in processes, or on a cluster."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from opshift.files import external, formats, model_file, urls
from opshift.files.writing import scratch, writing
from opshift.jobs import outcome as outcome_
from opshift.jobs.exit_codes import UNREADABLE, fault
from opshift.jobs.outcome import Outcome
from opshift.jobs.rewrite import Manner, rewrite
from opshift.passes import goals
from opshift.passes.errors import InvalidModel
from opshift.passes.goals import Goal, Refinement, check_quantization
from opshift.passes.inputs.ends import Names
from opshift.passes.inputs.sizes import Sizes
from opshift.passes.inputs.wanted import Values
from opshift.passes.progress import Heard, listen
from opshift.passes.targets import Target
from opshift.verification.feeding.asked import Engines, Inputs, Ranges, read_options
from opshift.verification.tolerances import Given as Tolerance

if TYPE_CHECKING:
    from opshift.verification.isolation import Ended

_LOCAL = ("threading", "multiprocessing")  # backends of joblib that run on this machine
Advance = Callable[["FileResult", int], None]
Placed = Generator[tuple[int, "FileResult"], None, None]


@dataclass(frozen=True)
class FileResult:
    """The result for one model.

    Attributes:
        source: the path or URL that was read.
        output: what was written; empty if nothing was.
        code: the exit code that `opshift convert` has for it: 0 done, 1 a bug in opshift, 2 not possible as
            it was asked for, 3 refused, 4 the outputs differ, 5 unreadable, or deadly to its process, 6 not writable.
        why: why nothing was written, in one line; empty if all is well.
        outcome: changes, refusals and verification; None for what could not be read.
    """

    source: str
    output: str
    code: int
    why: str = ""
    outcome: Outcome | None = None


@dataclass(frozen=True)
class BatchJob:
    """One model, its output and its options. URLs are copied through the folder `scratch`."""

    source: str
    output: str
    goal: Goal
    manner: Manner
    scratch: str = ""

    @property
    def afar(self) -> bool:
        return urls.is_url(self.source) or urls.is_url(self.output)


def convert_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out_dir: str | os.PathLike[str],
    target: Target | None = None,
    *,
    jobs: int | None = None,
    backend: str | None = None,
    ir_version: int | None = None,
    modernize: bool = False,
    optimize: bool = False,
    verify: bool = True,
    external_data: str | None = None,
    threshold: int = external.THRESHOLD,
    shard: int | str | None = None,
    dedupe: bool = False,
    inputs: Inputs | None = None,
    input_shape: Sizes | None = None,
    val_range: Ranges | None = None,
    runs: int | None = None,
    seed: int = 0,
    engine: Engines | None = None,
    rtol: Tolerance | None = None,
    atol: Tolerance | None = None,
    progress: Heard | None = None,
    fix_shape: Sizes | None = None,
    set: Values | None = None,
    rebatch: int | str | None = None,
    annotate: bool = False,
    rename: Names | None = None,
    add_output: str | Iterable[str] | None = None,
    drop_output: str | Iterable[str] | None = None,
    unroll: int | None = None,
    if_to_where: int | None = None,
    quantization: str | None = None,
    zipmap: str | None = None,
    map: str | None = None,
    interface: Iterable[str] | str | None = None,
) -> list[FileResult]:
    """Convert model files into a folder, each under its own name; a failure of one does not stop the others.

    Args:
        paths: one model file or several: paths, or URLs that fsspec opens; those with `*` for all that match, a folder
            for all files in it that end in `.onnx`.
        out_dir: the folder to write to, made if need be, or a URL. Data files go there, too; one that is not named
            after its model gets the model's name in front.
        target: as for `convert_version`.
        jobs: how many at once, one a core at most; -1 for all cores. Without it, one, or with a backend, all that it
            has. Several run in processes of their own, so that one which dies is one failed model.
        backend: `"loky"` for processes, as without it; `"threading"` or another one that joblib knows; `"dask"` for all
            of the cluster of the current client or of DASK_SCHEDULER_ADDRESS.
        ir_version: as for `convert_version`.
        modernize: as for `convert_version`.
        optimize: as for `convert_version`.
        verify: run both forms of each before it is written.
        external_data: where data go: `"keep"` leaves external data where they are, `"copy"` copies their files along,
            `"all"` puts all large tensors into one data file, `"none"` embeds everything. Without it, data stay where
            they are for an output in the same folder and are copied otherwise.
        threshold: the least size, in bytes, of a tensor that `"all"` puts into the data file.
        shard: with `"all"`, the most bytes of a data file, such as `"2GB"`; what is more goes into another one.
        dedupe: with `"all"`, write equal weights once.
        inputs: what both forms of each run on, as for `verify`.
        input_shape: as for `verify`.
        val_range: as for `verify`.
        runs: as for `verify`.
        seed: of the inputs that are drawn.
        engine: what runs both forms of each, as for `verify`.
        rtol: what outputs may differ by, as for `verify`.
        atol: as for `verify`.
        progress: as for `convert_version`; of what other processes do, it hears nothing.
        fix_shape: as for `convert_version`.
        set: as for `convert_version`.
        rebatch: as for `convert_version`.
        annotate: as for `convert_version`.
        rename: as for `convert_version`.
        add_output: as for `convert_version`.
        drop_output: as for `convert_version`.
        unroll: as for `convert_version`.
        if_to_where: as for `convert_version`.
        quantization: as for `convert_version`.
        zipmap: as for `convert_version`.
        map: as for `convert_version`.
        interface: as for `convert_version`.

    Returns:
        What became of each, in the order of `paths`.

    Raises:
        ValueError: before anything is written: an unknown target or policy, no models, two that would be written to
            one place, an output that is an input, a package that is not installed.
    """
    wanted = Refinement(modernize, optimize=optimize, quantization=check_quantization(quantization))
    goal = goals.convert_version_goal(
        target,
        ir_version,
        wanted,
        fix_shape=fix_shape,
        set=set,
        rebatch=rebatch,
        annotate=annotate,
        rename=rename,
        add_output=add_output,
        drop_output=drop_output,
        unroll=unroll,
        if_to_where=if_to_where,
        zipmap=zipmap,
        map=map,
        interface=interface,
    )
    external.check_policy(external_data, threshold)
    given = read_options(inputs, input_shape, val_range, runs, seed, engine=engine, rtol=rtol, atol=atol)
    if (shard is not None or dedupe) and external_data != "all":
        raise ValueError('shard and dedupe have no effect without external_data="all"')
    packing = external.Packing(threshold, None if shard is None else external.size_of(shard), dedupe=dedupe)
    manner = Manner(external_data, packing, verify, wanted=given)
    with listen(progress):
        named = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        return run(arrange([os.fspath(path) for path in named], os.fspath(out_dir), goal, manner), jobs, backend)


def arrange(paths: Sequence[str], out_dir: str, goal: Goal, manner: Manner) -> list[BatchJob]:
    """Plan the outputs: each model under its own name in `out_dir`.

    Raises:
        ValueError: two models would be written to one place, or one to a place where another is read.
    """
    sources = urls.expand_paths(paths)
    if not sources:
        raise ValueError("give models")
    folder = urls.local(out_dir)
    if not urls.is_url(folder) and os.path.exists(folder) and not os.path.isdir(folder):
        raise ValueError(f"{folder} is not a folder")
    taken: dict[str, str] = {}
    for source in sources:
        name = _name_output(source)
        if not name:
            raise ValueError(f"{source} is not a file")
        if (other := taken.get(urls.fold_case(name))) is not None:
            raise ValueError(f"{other} and {source} would both be written to {urls.join(folder, name)}")
        taken[urls.fold_case(name)] = source
    for name, source in taken.items():  # data files have the model's name, a dot, and more
        head = name.rpartition(".")[0]
        while head:
            if head in taken:
                raise ValueError(
                    f"the external data of {taken[head]} could overwrite {source}, which has a name like it; use "
                    "another folder"
                )
            head = head.rpartition(".")[0]
    inputs = {_identity(source): source for source in sources}
    manner = replace(manner, together=True)
    jobs = [BatchJob(source, urls.join(folder, _name_output(source)), goal, manner) for source in sources]
    written: dict[str, BatchJob] = {}
    for job in jobs:
        if (read := inputs.get(_identity(job.output))) is not None:
            raise ValueError(f"the output {job.output} is the input {read}; give another folder")
        if (first := written.setdefault(_identity(job.output), job)) is not job:
            raise ValueError(
                f"{first.output} and {job.output} are the same file under two names, and each would get a "
                "model; give another folder"
            )
        if not urls.is_url(job.output) and os.path.exists(job.output) and not os.path.isfile(job.output):
            raise ValueError(f"{job.output} is not a regular file; give another folder")
    return jobs


def _name(source: str) -> str:
    return PurePosixPath(source).name if urls.is_url(source) else Path(source).name


def _name_output(source: str) -> str:
    """Name the output of a model like the model itself; OpenVINO IR (.xml) becomes .onnx.

    Used while outputs are planned.
    """
    name = _name(source)
    return f"{formats.without_suffix(name)}.onnx" if formats.is_foreign(name) else name


def _identity(path: str) -> str:
    return urls.identity(path) if urls.is_url(path) else urls.fold_case(os.path.realpath(path))


def run(
    jobs: Sequence[BatchJob], workers: int | None = None, backend: str | None = None, advance: Advance | None = None
) -> list[FileResult]:
    """Do all jobs, in this process, in several, or on a cluster; `advance` gets each result as it comes, with the
    count so far.

    Raises:
        ValueError: joblib or what it needs is not installed, or there is no such backend.
    """
    if workers == 0 or (workers is not None and workers < -1):
        raise ValueError("jobs must be 1 or more, or -1 for all cores")
    several = backend is not None or (workers not in (None, 1) and len(jobs) > 1)
    results: dict[int, FileResult] = {}
    with ExitStack() as stack:
        if any(job.afar for job in jobs):  # which outlives a process that is killed
            shared = stack.enter_context(scratch())
            jobs = [replace(job, scratch=shared) for job in jobs]
        coming = _run_together(jobs, workers, backend) if several else (_run_placed(*each) for each in enumerate(jobs))
        stack.enter_context(_output_folder(jobs, sweep=several))
        stack.enter_context(closing(coming))
        for place, result in coming:
            results[place] = result
            if advance is not None:
                advance(result, len(results))
    return [results[place] for place in range(len(jobs))]


@contextmanager
def _output_folder(jobs: Sequence[BatchJob], *, sweep: bool) -> Iterator[None]:
    """Create the output folder of a batch; at the end, remove leftovers of crashed processes, and new empty folders."""
    folder = Path(jobs[0].output).parent
    if urls.is_url(jobs[0].output) or jobs[0].manner.dry_run:
        yield
        return
    with writing(folder):
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if sweep:
            model_file.sweep(folder, [Path(job.output).name for job in jobs])
        for parent in missing:
            with suppress(OSError):  # it holds what was written, or something looks at it
                parent.rmdir()


def do(job: BatchJob) -> FileResult:
    """Do one job; an error of any kind becomes its result. Runs in the worker process."""
    try:
        if job.manner.verify:
            from opshift.verification import engines

            engines.load()
        code, outcome = _rewrite(job)
    except Exception as error:
        code, lines = fault(error, *([] if urls.is_url(job.source) else [job.source]))
        return FileResult(job.source, "", code, "; ".join(map(str.strip, lines)).removeprefix(f"{job.source}: "))
    return FileResult(job.source, outcome.output, code, _explain_failure(outcome), outcome)


def _rewrite(job: BatchJob) -> tuple[int, Outcome]:
    """Convert one model of a batch; models at URLs are fetched first, and the output is sent afterwards."""
    from_afar, to_afar = urls.is_url(job.source), urls.is_url(job.output)
    if not from_afar and not to_afar:
        return rewrite(Path(job.source), Path(job.output), job.goal, job.manner)
    within = job.scratch if os.path.isdir(job.scratch) else None  # not on another machine
    with scratch(within) as fetched, scratch(within) as written:
        model = urls.fetch(job.source, Path(fetched)) if from_afar else Path(job.source)
        output = Path(written, _name(job.output)) if to_afar else Path(job.output)
        try:
            code, outcome = rewrite(model, output, job.goal, job.manner)
        except InvalidModel as error:
            raise InvalidModel(str(error).replace(str(model), job.source)) from None
        if to_afar and outcome.output:
            urls.send(output, job.output)
        return code, replace(outcome, source=job.source, output=job.output if outcome.output else "")


def _explain_failure(outcome: Outcome) -> str:
    """Say in one line why a model of the batch failed: the first refusal, what the backend said, or what the proof
    found.
    """
    if outcome.refusals:
        more = len(outcome.refusals) - 1
        return f"{outcome.refusals[0]}{f' (and {more} more)' if more else ''}"
    if outcome.tried is not None and not outcome.tried.agrees:
        return f"{outcome.tried.backend}, {outcome.tried.status}: {outcome.tried.why}"
    verification = outcome.verification
    return outcome_.verdict(verification) if verification is not None and not verification.equal else ""


def _run_together(jobs: Sequence[BatchJob], workers: int | None, backend: str | None) -> Placed:
    """Run jobs at the same time; yields results with their places, as they come."""
    if backend == "dask":
        yield from _run_on_cluster(jobs)
        return
    if backend in (None, "loky"):
        yield from _run_in_processes(jobs, workers)
        return
    try:
        import joblib
    except ImportError:
        raise ValueError(f"the backend {backend} needs joblib: pip install opshift[batch]") from None
    count = min(joblib.effective_n_jobs(workers or -1), len(jobs))
    if backend in _LOCAL:
        count = min(count, cores())
    work = (joblib.delayed(_run_placed)(place, job) for place, job in enumerate(jobs))
    results = joblib.Parallel(count, backend=backend, return_as="generator_unordered", batch_size=1)(work)
    try:
        for placed in results:  # noqa: UP028 - `yield from` would close it before the `finally`
            yield placed
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of what nobody waits for after an interrupt
            results.close()


def _run_in_processes(jobs: Sequence[BatchJob], workers: int | None) -> Placed:
    """Run jobs in processes of this machine, at most one a core."""
    from opshift.verification import engines, isolation  # slow to import

    count = cores() if workers in (None, -1) else min(workers, cores())
    if isolation.forks() and jobs[0].manner.verify:
        engines.load()  # once, for copies of this process
    for place, result in isolation.each(do, jobs, count):
        yield place, _report_death(jobs[place], result) if isinstance(result, isolation.Ended) else result


def cores() -> int:
    """Count the cores that this process may use; a container may have only some.

    Sets how many models are converted at once.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        count = min(count, max(1, math.ceil(int(quota) / int(period))))
    return count


def _report_death(job: BatchJob, ended: Ended | None = None) -> FileResult:
    """Make the result of a model whose worker process crashed, for example for lack of memory."""
    full = ended is not None and ended.full
    why = str(ended) if full else "its worker process crashed"
    return FileResult(job.source, "", UNREADABLE, why)


def _run_placed(place: int, job: BatchJob) -> tuple[int, FileResult]:
    return place, do(job)


def _run_on_cluster(jobs: Sequence[BatchJob]) -> Placed:
    """Run jobs on Dask directly, because joblib waits forever for a task whose worker died."""
    try:
        import distributed
    except ImportError:
        raise ValueError("the backend dask needs its package: pip install opshift[dask]") from None
    try:
        held = nullcontext(distributed.get_client())
    except ValueError:  # there is none; the address is Dask's own setting, a cluster on this machine its default
        held = distributed.Client()
    with held as client:
        jobs = [replace(job, source=_absolute(job.source), output=_absolute(job.output)) for job in jobs]
        places = {client.submit(do, job, pure=False): place for place, job in enumerate(jobs)}
        suspects = []
        for future in distributed.as_completed(list(places)):
            place = places.pop(future)
            try:
                yield place, _take_result(future)
            except distributed.KilledWorker:  # by this one, or by another on the same worker
                suspects.append(place)
        for place in suspects:
            try:
                yield place, _take_result(client.submit(do, jobs[place], pure=False))
            except distributed.KilledWorker:
                yield place, _report_death(jobs[place])


def _take_result(future: Any) -> FileResult:
    """Fetch a result, and let it go at once: Dask does the work again where a worker that still holds it dies."""
    try:
        result: FileResult = future.result()
        return result
    finally:
        future.release()


def _absolute(path: str) -> str:
    """Make a path absolute, for workers in other directories."""
    return path if urls.is_url(path) else os.path.abspath(path)
