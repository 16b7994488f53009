"""The parts of a card that hold commands: how to use a repo, how it was built."""

import re
import shlex
from typing import Any

from vocabfreq.frequencies.metadata import SourceRecord
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.hub.markdown import LONGEST, plain

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
        words += _source(source, options)
    for name, usual in DEFAULTS.items():
        value = options.get(name, usual)
        if value != usual:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(_harmless(word) for word in [*words, "-o", "vocab_freq.safetensors"])


def _source(source: SourceRecord, options: dict[str, Any]) -> list[str]:
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
