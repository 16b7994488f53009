"""The files that other tools read and write: see docs/formats.md.

    >>> from vocabfreq import formats
    >>> vocab = formats.read("freq_32768.pt", rows=128_256)
    >>> formats.write(vocab, "mapping.pt", "mapping")

`read` gives a `DraftVocab` (which ids are kept), `Counts` (how often ids occur), or the
`FrequencyTable` of our own file. Nothing read is trusted in size, range or uniqueness, and nothing
in it is executed. `write` reads back what it wrote and compares. The rest is in the submodules.
"""

from vocabfreq.formats.counts import Counts
from vocabfreq.formats.read_options import KINDS, Kind
from vocabfreq.formats.reading import read
from vocabfreq.formats.writing import COUNT_FORMATS, FORMATS, write

__all__ = ["COUNT_FORMATS", "FORMATS", "KINDS", "Counts", "Kind", "read", "write"]
