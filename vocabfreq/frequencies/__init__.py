"""Token frequencies, and the draft vocabularies selected from them.

`FrequencyTable` holds counts per source and reads and writes `vocab_freq.safetensors`. Selecting
from it gives a `DraftVocab`: the kept target ids and their encodings (d2t, t2d). Producing counts
is left to `counting`, the files of other tools to `formats`.
"""
