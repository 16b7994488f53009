"""Counts the tokens of corpora: plans shards, counts each, merges the counts.

In go sources and a tokenizer; out comes a `FrequencyTable`. Each shard leaves a partial file, so
that an interrupted run counts only what is missing. Shards run in worker processes of this machine
or as Ray tasks. Reading the corpora is left to `corpus`, encoding to `tokenizer`, and what the
counts are used for to `frequencies`.
"""
