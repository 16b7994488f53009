"""The files that other tools read and write: draft vocabularies and counts, in and out.

    >>> from vocabfreq import formats
    >>> vocab = formats.read("freq_32768.pt", rows=128_256)
    >>> formats.write(vocab, "mapping.pt", "mapping")

`read` takes a path or an address on the Hub and returns a `DraftVocab` (which ids are kept),
`Counts` (how often ids occur), or the `FrequencyTable` of our own file. Nothing in a file is
trusted in size, range or uniqueness, and nothing in it is executed. `write` reads back what it
wrote and compares.

`registry` is the table of formats: a new format is one entry there. `d2t` turns offsets into ids
and back, `token_map` and `json_file` have lists of ids, `counts` has counts; `containers` detects
torch, npy, safetensors, JSON and text files. docs/formats.md says which tool takes which format.
The files of vocabfreq itself belong to `frequencies`, weights of models to `checkpoints`.
"""

from vocabfreq.formats.counts import Counts
from vocabfreq.formats.read_options import KINDS, Kind
from vocabfreq.formats.reading import read
from vocabfreq.formats.registry import COUNT_FORMATS, FORMATS
from vocabfreq.formats.writing import write

__all__ = ["COUNT_FORMATS", "FORMATS", "KINDS", "Counts", "Kind", "read", "write"]
