"""`vocabfreq bench`: the speed of a pruned head on this machine, against baselines."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from vocabfreq.cli import render
from vocabfreq.cli.options import (
    GENERAL,
    DtypeChoice,
    JsonOption,
    NoRemarksOption,
    parse_integers,
    with_options,
)

if TYPE_CHECKING:
    from vocabfreq.measure.bench import Cell, Result, Timing


class DeviceChoice(StrEnum):
    """Device that is measured."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options of `bench`."""

    hidden_size: Annotated[
        int | None,
        GENERAL.option("H", "Hidden size. Default: 4096 on a GPU, 1024 on a CPU.", min=1),
    ] = None
    vocab_size: Annotated[int, GENERAL.option("V", "Rows of the full head.", min=1)] = 128_256
    sizes: Annotated[
        str | None,
        GENERAL.option("K,…", "Rows of the pruned head. Default: 32768, or V / 4 of a small V."),
    ] = None
    batch_sizes: Annotated[
        str | None, GENERAL.option("B,…", "Batch sizes. Default: 1,8,64 on a GPU, 1,8 on a CPU.")
    ] = None
    dtype: Annotated[DtypeChoice, GENERAL.option("DTYPE", "bfloat16, float16 or float32.")] = (
        DtypeChoice.bfloat16
    )
    device: Annotated[DeviceChoice, GENERAL.option(None, "auto takes a GPU if there is one.")] = (
        DeviceChoice.auto
    )
    runs: Annotated[
        int | None, GENERAL.option("N", "Timed rounds. Default: 50 on a GPU, 5 on a CPU.", min=1)
    ] = None
    as_json: JsonOption = False
    quiet: NoRemarksOption = False


@with_options(BenchOptions)
def bench(options: BenchOptions) -> None:
    """Time a pruned head against baselines, after checking the ids.

    Heads are random; no model is needed. Baselines of the greedy sampler: the full head, scattering
    into the full vocabulary, adding an offset; of sampling: softmax and a draw from it. The
    defaults on a CPU take less than half a minute on two cores.
    """
    sizes = None if options.sizes is None else parse_integers(options.sizes, "--sizes")
    batch_sizes = (
        None
        if options.batch_sizes is None
        else parse_integers(options.batch_sizes, "--batch-sizes")
    )
    from vocabfreq.measure import bench as benching

    setup = benching.default_setup(
        options.device.value,
        hidden_size=options.hidden_size,
        vocab_size=options.vocab_size,
        sizes=sizes,
        batch_sizes=batch_sizes,
        dtype=options.dtype.value,
        runs=options.runs,
    )
    result = benching.run(setup, lambda text: render.note(text, quiet=options.quiet))
    if options.as_json:
        render.print_json(result.as_dict())
    else:
        _print(result)


def _print(result: "Result") -> None:
    setup, machine = result.setup, result.machine
    triton = f"triton {machine.triton}" if machine.triton else "no triton"
    print(f"{machine.device}, torch {machine.torch}, {triton}, threads: {machine.threads}")
    render.print_table(
        f"H = {setup.hidden_size:,}, V = {setup.vocab_size:,}, {setup.dtype}, "
        f"medians of {setup.runs} rounds",
        [
            "task",
            "mode",
            "implementation",
            "K",
            "B",
            "µs",
            "lowest to highest",
            "× ours",
            "of copying",
        ],
        [_row(cell, timing) for cell in result.cells for timing in cell.timings],
        left=3,
    )
    print("All ids were checked first. × ours: its time over that of ours in the same round.")
    speeds = [cell.copy_gb_per_s for cell in result.cells]
    print(
        "of copying: the speed at which ours reads the head, over that of a large copy, "
        f"{min(speeds):,.1f} to {max(speeds):,.1f} GB/s."
    )
    for name, why in {k: v for cell in result.cells for k, v in cell.skipped.items()}.items():
        print(render.clean(f"Left out: {name} ({why})."))
    if setup.device == "cpu":
        print("Figures of a GPU are missing, and none is estimated: this ran on the CPU.")


COLUMNS = [
    *("task", "mode", "implementation", "K", "B", "µs"),
    *("lowest to highest", "× ours", "of copying"),
]


def _row(cell: "Cell", timing: "Timing") -> list[str]:
    ratio = "" if timing.implementation == cell.default else f"{timing.ratios[cell.default]:.2f}"
    share = (
        "" if timing.copy_bandwidth_share is None else render.percent(timing.copy_bandwidth_share)
    )
    spread = f"{timing.min_us:,.0f} to {timing.max_us:,.0f}"
    numbers = [f"{cell.size:,}", str(cell.batch_size), f"{timing.median_us:,.0f}", spread]
    return [timing.task, timing.mode, timing.implementation, *numbers, ratio, share]
