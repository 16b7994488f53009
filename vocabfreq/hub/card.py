"""The card of a published repo (README.md): tokenizer, coverage, sources, usage, build command.

Names in a frequency file come from strangers: they are escaped before they become Markdown, and
quoted before they become part of a command.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vocabfreq.errors import RefusedError
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import SourceRecord
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.storage.resolve import is_repo_name

MAX_CHARS = 200  # of a name
MAX_FILES = 8  # of a source in the build command
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "\\|", "`": "'"}
_ESCAPES |= {c: f"\\{c}" for c in "\\*_[]#!"}
_HUB_FILE = re.compile(r"hf://datasets/(?P<spec>(?P<repo>[\w.-]+/[\w.-]+)@[0-9a-f]{40})/.+")
_BUILD_DEFAULTS: dict[str, Any] = {
    "encoder": "auto",
    "holdout": 50,
    "max_documents": None,
    "roles": "assistant",
    "separator": None,
}


@dataclass(frozen=True)
class CardInfo:
    """What a card states beyond the frequency file.

    Attributes:
        repo: `owner/name`.
        licence: identifier on the Hub, such as `apache-2.0`.
        base_model: repo of the target; None for the tokenizer's where that is on the Hub.
    """

    repo: str
    licence: str = "unknown"
    base_model: str | None = None

    def __post_init__(self) -> None:
        """Checks that both can be metadata of a card.

        Raises:
            RefusedError: the licence is no identifier, or the target no name of a repo.
        """
        if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]{0,60}", self.licence):
            raise RefusedError(f"licence {self.licence!r}", expected="an id such as apache-2.0")
        if self.base_model is not None and not is_repo_name(self.base_model):
            raise RefusedError(f"base model {self.base_model!r}", expected="owner/name on the Hub")


def render_card(
    table: FrequencyTable, vocabs: Sequence[DraftVocab], info: CardInfo, picture: bool
) -> str:
    """The card as Markdown.

    Args:
        table: the counts.
        vocabs: the kept ids of each published size.
        info: what else it states.
        picture: whether there is a coverage.png.
    """
    sections = [
        _metadata(table, info),
        _summary(table, info),
        _coverage(table, vocabs, picture),
        _sources(table),
        _usage(info.repo, [len(vocab) for vocab in vocabs]),
        _build(table),
    ]
    return "\n".join(section.strip("\n") + "\n" for section in sections)


def target_repo(table: FrequencyTable, info: CardInfo) -> str | None:
    """Repo of the target, None where unknown."""
    if info.base_model is not None:
        return info.base_model
    on_hub = table.tokenizer.revision and is_repo_name(table.tokenizer.name)
    return table.tokenizer.name if on_hub else None


def _metadata(table: FrequencyTable, info: CardInfo) -> str:
    from huggingface_hub import ModelCardData

    matches = (_HUB_FILE.match(file) for source in table.sources for file in source.files)
    data = ModelCardData(
        library_name="vocabfreq",
        license=info.licence,
        base_model=target_repo(table, info),
        datasets=sorted({match["repo"] for match in matches if match}) or None,
        tags=["speculative-decoding", "fr-spec", "token-frequency"],
    )
    return f"---\n{data.to_yaml()}\n---"


def _summary(table: FrequencyTable, info: CardInfo) -> str:
    tokenizer, target = table.tokenizer, target_repo(table, info)
    revision = f" at `{_escape(tokenizer.revision)}`" if tokenizer.revision else ""
    of_target = f" of {_escape(target)}" if target else ""
    rows = [
        ["tokenizer", f"{_escape(tokenizer.name)}{revision}"],
        ["sha256 of its tokenizer.json", f"`{_escape(tokenizer.sha256)}`"],
        ["V, rows of the target's head", f"{tokenizer.rows:,}"],
        ["tokens counted", f"{sum(source.tokens for source in table.sources):,}"],
    ]
    return f"""
# Token frequencies{of_target} for drafting with a pruned vocabulary

How often each token id occurs in a corpus, and lists of the most frequent ids. In speculative
decoding, a drafter that keeps only these rows of its `lm_head`
([FR-Spec](https://arxiv.org/abs/2502.14856)) drafts faster. The target still verifies over its full
vocabulary, so its output does not change.

{_table(["", ""], rows)}

**For this tokenizer only.** In another tokenizer the same ids are other tokens: compare the sha256.
"""


def _coverage(table: FrequencyTable, vocabs: Sequence[DraftVocab], picture: bool) -> str:
    measured_on = "held out, not used for ranking" if table.heldout.any() else "counted"
    names = list(vocabs[0].coverage) if vocabs else []
    if len(names) == 2:  # one source, and all of them
        names = [name for name in names if name != "all sources"]
    rows = [
        [_escape(name), *(f"{100 * vocab.coverage[name]:.2f} %" for vocab in vocabs)]
        for name in names
    ]
    if any(vocab.filled for vocab in vocabs):
        rows.append(["ids never seen", *(f"{vocab.filled:,}" for vocab in vocabs)])
    header = ["source", *(f"K = {len(vocab):,}" for vocab in vocabs)]
    image = "\n![Coverage by size](coverage.png)\n" if picture else ""
    return f"""
## Coverage

The share of tokens ({measured_on}) whose id is kept. K is the number of kept ids. It includes ids
that are kept whatever their count: stop ids, chat tokens and byte tokens.

{_table(header, rows) if rows else "No size is published."}
{image}"""


def _sources(table: FrequencyTable) -> str:
    header = ["source", "files", "weight", "documents", "held out", "tokens", "text", "skipped"]
    encoder = table.meta.encoder
    encoded = f"Encoded by {_escape(encoder.name)} {_escape(encoder.version)}"
    if encoder.cross_checked_documents:
        encoded += (
            f"; {encoder.cross_checked_documents:,} texts were also encoded by `tokenizers`, and "
            f"{encoder.mismatched_documents:,} of them differed. A shard with a difference was "
            "counted again by `tokenizers`"
        )
    return f"""
## Sources

{_table(header, [_source_row(source) for source in table.sources])}

{encoded}.
"""


def _source_row(source: SourceRecord) -> list[str]:
    more = f" and {len(source.files) - 3:,} more" if len(source.files) > 3 else ""
    skipped = "; ".join(f"{n:,} × {_escape(reason)}" for reason, n in source.skipped.items())
    return [
        _escape(source.name),
        ", ".join(_escape(file) for file in source.files[:3]) + more,
        "raw" if source.weight is None else f"{source.weight:g}",
        f"{source.documents:,}",
        f"{source.heldout_documents:,}",
        f"{source.tokens:,}",
        f"{source.bytes / 1e6:,.1f} MB",
        skipped or "none",
    ]


def _usage(repo: str, sizes: list[int]) -> str:
    """Usage in each engine; the example is the largest published size up to 32,768."""
    size = max([s for s in sizes if s <= 32768] or sizes or [32768])
    token_map = f"`--speculative-token-map {repo}/freq_{size}.pt`"
    sglang = f"{token_map} with `--speculative-algorithm EAGLE`" if sizes else "see below"
    return f"""
## Usage

SGLang, with EAGLE-2 and MTP drafters: {sglang}.

vLLM, SGLang and TensorRT-LLM, with EAGLE-3 drafters: prune the drafter once and serve the folder.

```console
$ pip install vocabfreq
$ vocabfreq prune DRAFTER {repo} --size {size} --target TARGET -o pruned
$ vllm serve TARGET --speculative-config \\
    '{{"method": "eagle3", "model": "pruned", "num_speculative_tokens": 3}}'
```

Python, with torch:

```python
from vocabfreq.runtime import GreedySampler, prune_lm_head

head = prune_lm_head(model.lm_head, "{repo}", size={size})
ids = GreedySampler(head)(hidden)
```

To train an EAGLE-3 drafter (SpecForge and others):

```console
$ vocabfreq pull {repo} -o freq
$ vocabfreq export freq/vocab_freq.safetensors --size {size} --format mapping -o mapping.pt
```

`vocabfreq verify {repo}` checks every file of this repo against its manifest and the counts.
"""


def _build(table: FrequencyTable) -> str:
    return f"""
## How it was built

With [vocabfreq](https://pypi.org/project/vocabfreq/) {_escape(table.meta.vocabfreq)}; local files
are given by their base names:

```console
$ {build_command(table)}
```
"""


def build_command(table: FrequencyTable) -> str:
    """`vocabfreq build …` with every option that is not the default, quoted for a shell."""
    tokenizer, options = table.tokenizer, table.meta.options
    revision = f"@{tokenizer.revision}" if tokenizer.revision else ""
    arguments = ["vocabfreq", "build", "--tokenizer", tokenizer.name + revision]
    for source in table.sources:
        arguments += _source_arguments(source, options)
    for name, default in _BUILD_DEFAULTS.items():
        value = options.get(name, default)
        if value != default:
            arguments += [f"--{name.replace('_', '-')}", str(value)]
    arguments += ["-o", "vocab_freq.safetensors"]
    # A backtick could end the code block of the card.
    return shlex.join(_printable(argument[:MAX_CHARS]).replace("`", " ") for argument in arguments)


def _source_arguments(source: SourceRecord, options: dict[str, Any]) -> list[str]:
    found = [(_HUB_FILE.match(file), file) for file in source.files]
    specs = list(dict.fromkeys(match["spec"] if match else file for match, file in found))
    arguments = [a for spec in specs[:MAX_FILES] for a in ("--source", f"{source.name}={spec}")]
    columns = options.get("columns")
    column = columns.get(source.name) if isinstance(columns, dict) else None
    if column:
        arguments += ["--column", f"{source.name}={column}"]
    if source.weight is not None:
        arguments += ["--weight", f"{source.name}={source.weight:g}"]
    return arguments


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _escape(text: str | None) -> str:
    """A name as Markdown text: no markup, no control characters, no line ends."""
    name = _printable(text or "")
    name = name if len(name) <= MAX_CHARS else name[:MAX_CHARS] + "…"
    return "".join(_ESCAPES.get(c, c) for c in name)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
