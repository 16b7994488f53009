"""Tokenizers as counting sees them.

In goes a `tokenizer.json` and the JSON files next to it; out come the number of rows V, the stop,
special and byte ids (`info`), encoders that turn texts into token ids (`encoders`, guarded by
`crosscheck`), token ids as readable text (`decoder`), and comparisons of checksums (`fingerprint`).
Counting is left to `counting`.
"""
