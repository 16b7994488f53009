"""What counting needs of a tokenizer: its fingerprint, its special ids, and encoders.

In goes a `tokenizer.json` (and the model config beside it); out come the number of rows V, the
stop, special and byte ids, and encoders that turn texts into token ids. Counting is left to
`counting`.
"""
