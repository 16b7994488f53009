"""`vocabfreq plan`: cuts corpora into shards that other processes count."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vocabfreq.cli import render
from vocabfreq.cli.build_options import CountingOptions
from vocabfreq.cli.options import OUTPUT, RUN, with_options

if TYPE_CHECKING:
    from vocabfreq.corpus.sources import Source
    from vocabfreq.counting.plan import Plan


@dataclass(frozen=True, kw_only=True)
class PlanOptions(CountingOptions):
    """Options of `plan`."""

    output: Annotated[Path, OUTPUT.option("PLAN", "Plan file to write.", "--output", "-o")] = Path(
        "plan.json"
    )
    work_dir: Annotated[
        Path | None,
        RUN.option(
            "DIR", "Folder for partial files, shared by all processes. Default: PLAN.parts."
        ),
    ] = None

    def parse_sources(self) -> "list[Source]":
        """The sources, with absolute paths: other processes may run in another folder."""
        from vocabfreq.counting.plan import absolute_sources

        return absolute_sources(super().parse_sources())


@with_options(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Write the shards of a build to a file, for other processes.

    Then run vocabfreq count --plan PLAN in any number of processes (a Slurm array, say), watch
    vocabfreq status --plan PLAN, and finish with vocabfreq merge --plan PLAN -o FILE. The file has
    the bytes that one build would write.
    """
    from vocabfreq.counting.plan import check_plan_path, save_plan

    output = options.output
    check_plan_path(output)
    new_plan = options.make_plan(work_dir=options.work_dir or Path(f"{output}.parts"))
    save_plan(new_plan, output)
    if not options.quiet or options.as_json:
        print_plan(new_plan, options.as_json)
    if not options.as_json:
        render.note(
            f"Wrote {output}. Next, in each of N processes: "
            f"vocabfreq count --plan {output} --shard-index I --num-shards N",
            quiet=options.quiet,
        )


def print_plan(plan: "Plan", as_json: bool) -> None:
    """Prints what a build would read, one line per source."""
    sources = [_source_summary(plan, index) for index in range(len(plan.sources))]
    if as_json:
        total = {"shards": len(plan.shards), "bytes": plan.bytes, "rows": plan.tokenizer.rows}
        render.print_json({"plan": sources, **total})
        return
    rows = [
        [
            source["source"],
            source["layout"],
            f"{source['files']:,}",
            f"{source['shards']:,}",
            render.megabytes(source["bytes"]),
        ]
        for source in sources
    ]
    header = ["source", "layout", "files", "shards", "size"]
    render.print_table("Plan (nothing was counted)", header, rows, left=2)


def _source_summary(plan: "Plan", index: int) -> dict[str, Any]:
    shards = [shard for shard in plan.shards if shard.source == index]
    return {
        "source": plan.sources[index].name,
        "files": len(plan.files(index)),
        "shards": len(shards),
        "bytes": sum(shard.size for shard in shards),
        "column": shards[0].layout.columns,
        "kind": shards[0].layout.kind,
        "layout": plan.layouts[index].describe(rendered=plan.worker_config.template is not None),
    }
