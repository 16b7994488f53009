"""`vocabfreq bench`: how fast a pruned head drafts on this machine, beside other ways."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import OUTPUT, JsonOption

if TYPE_CHECKING:
    from vocabfreq.measure.bench import Cell, Result, Timing


class DtypeChoice(StrEnum):
    """Of head and hidden states."""

    bfloat16 = "bfloat16"
    float16 = "float16"
    float32 = "float32"


class DeviceChoice(StrEnum):
    """Where it runs."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def bench(
    hidden_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="H", help="Default: 4,096 on a GPU, 1,024 on a CPU."),
    ] = None,
    vocab_size: Annotated[
        int, typer.Option(min=1, metavar="V", help="Rows of the full head.")
    ] = 128_256,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="K,…", help="Rows of the pruned head. Default: 32,768, or V / 4 of a small V."
        ),
    ] = None,
    batch_sizes: Annotated[
        str | None,
        typer.Option(metavar="B,…", help="Default: 1,8,64 on a GPU, 1,8 on a CPU."),
    ] = None,
    dtype: Annotated[DtypeChoice, typer.Option(help="Of head and hidden.")] = DtypeChoice.bfloat16,
    device: Annotated[
        DeviceChoice, typer.Option(help="auto: a GPU where there is one.")
    ] = DeviceChoice.auto,
    runs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Turns. Default: 50 on a GPU, 5 on a CPU."),
    ] = None,
    as_json: JsonOption = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Time drafting with a pruned head beside other ways, after checking that all ids are right.

    Heads are random; no model is needed. Other ways: the full head, scattering into the full
    vocabulary, adding an offset; for draws, softmax and a draw from it. A CPU has smaller defaults,
    meant to take less than half a minute on two cores.
    """
    counts = _numbers(sizes, "--sizes"), _numbers(batch_sizes, "--batch-sizes")
    from vocabfreq.measure import bench as benching

    setup = benching.default_setup(
        device.value,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        sizes=counts[0],
        batch_sizes=counts[1],
        dtype=dtype.value,
        runs=runs,
    )
    result = benching.run(setup, lambda text: render.note(text, quiet=quiet))
    if as_json:
        render.print_json(result.as_dict())
    else:
        _print(result)


def _numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Whole numbers between commas; None where the option was not given."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise typer.BadParameter(
            f"{text!r}; expected whole numbers from 1, with commas between: {option} 1,8,64"
        )
    return tuple(dict.fromkeys(int(part) for part in parts))


COLUMNS = ("task", "mode", "implementation")


def _print(result: "Result") -> None:
    setup, here = result.setup, result.machine
    triton = f"triton {here.triton}" if here.triton else "no triton"
    print(f"{here.device}, torch {here.torch}, {triton}, threads: {here.threads}")
    render.print_table(
        f"H = {setup.hidden_size:,}, V = {setup.vocab_size:,}, {setup.dtype}, "
        f"medians of {setup.runs} turns",
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
        [_row(cell, one) for cell in result.cells for one in cell.timings],
        left=len(COLUMNS),
    )
    print("All ids were checked first. × ours: its time to that of ours in the same turn.")
    speeds = [cell.copy_gb_per_s for cell in result.cells]
    print(
        "of copying: the speed at which ours went through the head, to that of a large copy, "
        f"{min(speeds):,.1f} to {max(speeds):,.1f} GB/s."
    )
    for name, why in {k: v for cell in result.cells for k, v in cell.skipped.items()}.items():
        print(render.clean(f"Left out: {name} ({why})."))
    if setup.device == "cpu":
        print("Figures of a GPU are missing, and none is estimated: this ran on the CPU.")


def _row(cell: "Cell", one: "Timing") -> list[str]:
    ratio = "" if one.implementation == cell.default else f"{one.ratios[cell.default]:.2f}"
    share = "" if one.copy_bandwidth_share is None else render.percent(one.copy_bandwidth_share)
    spread = f"{one.min_us:,.0f} to {one.max_us:,.0f}"
    numbers = [f"{cell.size:,}", str(cell.batch_size), f"{one.median_us:,.0f}", spread]
    return [one.task, one.mode, one.implementation, *numbers, ratio, share]
