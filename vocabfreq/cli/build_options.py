"""Options that `build` and `plan` share, and the library objects that they become."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vocabfreq.cli.options import COUNTED, INPUT, RUN, JsonOption, QuietOption, parse_named_numbers

if TYPE_CHECKING:
    from vocabfreq.corpus.sources import Source
    from vocabfreq.counting.plan import Plan


class RolesChoice(StrEnum):
    """Turns of a chat that count."""

    assistant = "assistant"
    all = "all"


class EncoderChoice(StrEnum):
    """Library that encodes text."""

    auto = "auto"
    gigatoken = "gigatoken"
    tokenizers = "tokenizers"


@dataclass(frozen=True, kw_only=True)
class CountingOptions:
    """What is counted, and how text becomes ids."""

    tokenizer: Annotated[
        str,
        INPUT.option(
            "TOK",
            r"Folder, tokenizer.json, or owner/name\[@revision] on the Hub.",
            "--tokenizer",
            "-t",
        ),
    ]
    source: Annotated[
        list[str],
        INPUT.option(
            "[NAME=]SPEC",
            "File or glob (jsonl, json, parquet, arrow, txt; also .gz, .zst), - for standard "
            "input, or Hub data set org/name, followed by :config, :split, @revision as needed; "
            "repeat for more sources.",
            "--source",
            "-s",
        ),
    ]
    model_config: Annotated[
        str | None,
        INPUT.option(
            "DIR|REPO",
            "Model whose config.json gives the number of rows and the stop ids. Default: "
            "next to the tokenizer, if present.",
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        COUNTED.option(
            "[NAME=]COLUMN",
            "Column to count, or a path such as choices\\[].message.content, for every source or "
            "for the source NAME; repeat for more columns. Default: detected.",
        ),
    ] = None
    roles: Annotated[RolesChoice, COUNTED.option(None, "Turns of a chat that count.")] = (
        RolesChoice.assistant
    )
    separator: Annotated[
        str | None,
        COUNTED.option(
            "TEXT",
            r"Splits plain text into documents; \n, \t, \r and \0 are understood. Default: "
            "a file is one document.",
        ),
    ] = None
    max_documents: Annotated[
        int | None, COUNTED.option("N", "Count only the first N documents of each source.", min=1)
    ] = None
    weight: Annotated[
        list[str] | None,
        COUNTED.option(
            "NAME=W",
            "Rank by the shares of each source times its weight; unnamed sources weigh 1. "
            "Default: rank by raw counts.",
        ),
    ] = None
    chat_template: Annotated[
        str,
        COUNTED.option(
            "auto|off|FILE",
            "Count conversations and answers as the model writes them, by the tokenizer's chat "
            "template or a Jinja file; off counts the text of the rows.",
        ),
    ] = "auto"
    holdout: Annotated[
        int,
        COUNTED.option("N", "Hold out one document in N to measure coverage; 0 for none.", min=0),
    ] = 50
    output: Path  # its option is that of the verb
    as_json: JsonOption = False
    quiet: QuietOption = False
    encoder: Annotated[
        EncoderChoice,
        RUN.option(
            "NAME", "auto (gigatoken where it works, checked on a sample), gigatoken or tokenizers."
        ),
    ] = EncoderChoice.auto

    def make_plan(self, **run_options: Any) -> "Plan":
        """Cuts the sources into shards.

        Args:
            **run_options: the other fields of `CountOptions`: `work_dir`, `workers`, `engine`,
                `address`.

        Raises:
            typer.BadParameter: an option cannot be parsed.
            VocabfreqError: the tokenizer or a source cannot be used.
        """
        from vocabfreq.counting.plan import CountOptions, make_plan

        sources, weights = self.parse_sources(), self._parse_weights()
        count_options = CountOptions(
            holdout=self.holdout,
            encoder=self.encoder.value,
            weights=weights,
            model_config=self.model_config,
            chat_template=self.chat_template,
            **run_options,
        )
        return make_plan(sources, self.tokenizer, count_options)

    def parse_sources(self) -> "list[Source]":
        """The sources with their columns: `COLUMN` for all of them, `NAME=COLUMN` for one.

        Columns of a name go before those for all sources.
        """
        from dataclasses import replace

        from vocabfreq.corpus.sources import parse_source

        settings: dict[str, Any] = {
            "roles": self.roles.value,
            "separator": self._parse_separator(),
            "max_documents": self.max_documents,
        }
        sources = [parse_source(spec, **settings) for spec in self.source]
        names = [source.name for source in sources]
        columns: dict[str, list[str]] = {}
        for text in self.column or []:
            name, equals, column = text.rpartition("=")
            if equals and name not in names:
                raise typer.BadParameter(f"no source {name!r} among {', '.join(names)}")
            columns.setdefault(name, []).append(column)
        chosen = {name: tuple(columns.get(name) or columns.get("") or ()) for name in names}
        return [replace(s, column=chosen[s.name] or None) for s in sources]

    def _parse_weights(self) -> dict[str, float] | None:
        weights = parse_named_numbers(self.weight, "--weight")
        for name, weight in (weights or {}).items():
            if not 0 <= weight < float("inf"):
                raise typer.BadParameter(f"--weight {name}={weight:g}; expected a number W ≥ 0")
        return weights

    def _parse_separator(self) -> str | None:
        if self.separator is None:
            return None
        if not self.separator:
            raise typer.BadParameter("--separator is empty; expected at least one character")
        separator = self.separator
        for escape, character in ((r"\n", "\n"), (r"\t", "\t"), (r"\r", "\r"), (r"\0", "\0")):
            separator = separator.replace(escape, character)
        return separator
