"""The README.md of a published repo: what it is, where it comes from, how to use it.

Names out of a file are a stranger's: they are made plain before they become Markdown.

Text of strangers in Markdown, and tables.

The parts of a card that hold commands: how to use a repo, how it was built.
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

LONGEST = 200
_SPECIAL = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "\\|", "`": "'"}
_SPECIAL |= {c: f"\\{c}" for c in "\\*_[]#!"}


def plain(text: str | None) -> str:
    """A name as it is, whatever it holds: no markup, no control characters, no line ends."""
    shown = "".join(c if c.isprintable() else " " for c in text or "")
    cut = shown if len(shown) <= LONGEST else shown[:LONGEST] + "…"
    return "".join(_SPECIAL.get(c, c) for c in cut)


def table_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


HUB_FILE = re.compile(r"hf://datasets/(?P<spec>(?P<repo>[\w.-]+/[\w.-]+)@[0-9a-f]{40})/.+")
DEFAULTS: dict[str, Any] = {
    "encoder": "auto",
    "holdout": 50,
    "max_documents": None,
    "roles": "assistant",
    "separator": None,
}


def usage(repo: str, sizes: list[int]) -> str:
    """How to use a repo in each engine; the largest size but 65,536 is the example."""
    size = max([s for s in sizes if s <= 32768] or sizes or [32768])
    published = f"`--speculative-token-map {repo}/freq_{size}.pt`"
    sglang = f"{published} beside `--speculative-algorithm EAGLE`" if sizes else "see below"
    return f"""
## How to use it

SGLang, EAGLE-2 and MTP drafters: {sglang}.

vLLM, SGLang and TensorRT-LLM, EAGLE-3 drafters: prune the drafter once, serve the folder.

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

Training an EAGLE-3 drafter (SpecForge and others):

```console
$ vocabfreq pull {repo} -o freq
$ vocabfreq export freq/vocab_freq.safetensors --size {size} --format mapping -o mapping.pt
```

`vocabfreq verify {repo}` checks every file of this repo against its manifest and the counts.
"""


def built(table: FrequencyTable) -> str:
    """The command that counts the same; paths are base names."""
    return f"""
## How it was built

By [vocabfreq](https://pypi.org/project/vocabfreq/) {plain(table.meta.vocabfreq)}:

```console
$ {command(table)}
```
"""


def command(table: FrequencyTable) -> str:
    """`vocabfreq build …` with every option that is not the default."""
    tokenizer, options = table.tokenizer, table.meta.options
    at = f"@{tokenizer.revision}" if tokenizer.revision else ""
    words = ["vocabfreq", "build", "--tokenizer", tokenizer.name + at]
    for source in table.sources:
        words += _source_arguments(source, options)
    for name, usual in DEFAULTS.items():
        value = options.get(name, usual)
        if value != usual:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(_harmless(word) for word in [*words, "-o", "vocab_freq.safetensors"])


def _source_arguments(source: SourceRecord, options: dict[str, Any]) -> list[str]:
    found = [(HUB_FILE.match(file), file) for file in source.files]
    specs = dict.fromkeys(match["spec"] if match else file for match, file in found)
    words = [w for spec in list(specs)[:8] for w in ("--source", f"{source.name}={spec}")]
    columns = options.get("columns")
    column = columns.get(source.name) if isinstance(columns, dict) else None
    if column:
        words += ["--column", f"{source.name}={column}"]
    if source.weight is not None:
        words += ["--weight", f"{source.name}={source.weight:g}"]
    return words


def _harmless(word: str) -> str:
    """A word without line ends and without what would end the code block; quoted after this."""
    shown = "".join(c if c.isprintable() else " " for c in word[:LONGEST])
    return shown.replace("`", " ")


@dataclass(frozen=True)
class About:
    """What a card says beyond the file.

    Attributes:
        repo: `owner/name`.
        licence: identifier on the Hub, such as `apache-2.0`.
        base_model: repo of the target; None takes the tokenizer's where that is on the Hub.
    """

    repo: str
    licence: str = "unknown"
    base_model: str | None = None

    def __post_init__(self) -> None:
        """Refuses what would not be metadata.

        Raises:
            RefusedError: a licence or a target that cannot be one.
        """
        if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]{0,60}", self.licence):
            raise RefusedError(f"licence {self.licence!r}", expected="an id such as apache-2.0")
        if self.base_model is not None and not is_repo_name(self.base_model):
            raise RefusedError(f"base model {self.base_model!r}", expected="owner/name on the Hub")


def card_of(
    table: FrequencyTable, vocabs: Sequence[DraftVocab], about: About, picture: bool
) -> str:
    """The card.

    Args:
        table: the counts.
        vocabs: what is kept of each published size.
        about: what else it says.
        picture: whether there is a coverage.png.
    """
    parts = [
        _metadata(table, about),
        _what(table, about),
        _coverage(table, vocabs, picture),
        _provenance(table),
        usage(about.repo, [len(vocab) for vocab in vocabs]),
        built(table),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def target_of(table: FrequencyTable, about: About) -> str | None:
    """Repo of the target, where it is known."""
    if about.base_model is not None:
        return about.base_model
    known = table.tokenizer.revision and is_repo_name(table.tokenizer.name)
    return table.tokenizer.name if known else None


def data_sets(table: FrequencyTable) -> list[str]:
    """Hub data sets among the sources, each once."""
    found = (HUB_FILE.match(file) for source in table.sources for file in source.files)
    return sorted({match["repo"] for match in found if match})


def _metadata(table: FrequencyTable, about: About) -> str:
    from huggingface_hub import ModelCardData

    target = target_of(table, about)
    data = ModelCardData(
        library_name="vocabfreq",
        license=about.licence,
        base_model=target,
        datasets=data_sets(table) or None,
        tags=["speculative-decoding", "fr-spec", "token-frequency"],
    )
    return f"---\n{data.to_yaml()}\n---"


def _what(table: FrequencyTable, about: About) -> str:
    tokenizer, target = table.tokenizer, target_of(table, about)
    revision = f" at `{plain(tokenizer.revision)}`" if tokenizer.revision else ""
    of_target = f" of {plain(target)}" if target else ""
    rows = [
        ["tokenizer", f"{plain(tokenizer.name)}{revision}"],
        ["sha256 of its tokenizer.json", f"`{plain(tokenizer.sha256)}`"],
        ["V, rows of the target's head", f"{tokenizer.rows:,}"],
        ["tokens counted", f"{sum(source.tokens for source in table.sources):,}"],
    ]
    return f"""
# Token frequencies{of_target} for drafting with a pruned vocabulary

How often each token id occurs in text, and the most frequent ids as lists. A drafter for
speculative decoding that keeps only these rows of its `lm_head` ([FR-Spec](https://arxiv.org/abs/2502.14856))
drafts faster; the target still verifies over its full vocabulary, so its output does not change.

{table_of(["", ""], rows)}

**Only for this tokenizer.** Ids of another one mean other tokens; compare the sha256.
"""


def _coverage(table: FrequencyTable, vocabs: Sequence[DraftVocab], picture: bool) -> str:
    held = "held out, not used for ranking" if table.heldout.any() else "counted"
    names = list(vocabs[0].coverage) if vocabs else []
    if len(names) == 2:  # one source, and all of them
        names = [name for name in names if name != "all sources"]
    rows = [
        [plain(name), *(f"{100 * vocab.coverage[name]:.2f} %" for vocab in vocabs)]
        for name in names
    ]
    if any(vocab.filled for vocab in vocabs):
        rows.append(["ids never seen", *(f"{vocab.filled:,}" for vocab in vocabs)])
    header = ["source", *(f"K = {len(vocab):,}" for vocab in vocabs)]
    shown = "\n![Coverage by size](coverage.png)\n" if picture else ""
    return f"""
## Coverage

Share of tokens ({held}) whose id is kept. K counts every kept id, among them
those that are kept whatever their count: stop ids, chat tokens, byte tokens.

{table_of(header, rows) if rows else "No size is published."}
{shown}"""


def _provenance(table: FrequencyTable) -> str:
    header = ["source", "files", "weight", "documents", "held out", "tokens", "text", "skipped"]
    return f"""
## Where the counts come from

{table_of(header, [_source(source) for source in table.sources])}

{_encoded(table)}
"""


def _encoded(table: FrequencyTable) -> str:
    encoder = table.meta.encoder
    by = f"Encoded by {plain(encoder.name)} {plain(encoder.version)}"
    if not encoder.cross_checked_documents:
        return f"{by}."
    return (
        f"{by}; {encoder.cross_checked_documents:,} texts were encoded by `tokenizers` too, of "
        f"which {encoder.mismatched_documents:,} differed: their part was counted by `tokenizers`."
    )


def _source(source: SourceRecord) -> list[str]:
    more = f" and {len(source.files) - 3:,} more" if len(source.files) > 3 else ""
    skipped = "; ".join(f"{n:,} × {plain(reason)}" for reason, n in source.skipped.items())
    return [
        plain(source.name),
        ", ".join(plain(file) for file in source.files[:3]) + more,
        "raw" if source.weight is None else f"{source.weight:g}",
        f"{source.documents:,}",
        f"{source.heldout_documents:,}",
        f"{source.tokens:,}",
        f"{source.bytes / 1e6:,.1f} MB",
        skipped or "none",
    ]
