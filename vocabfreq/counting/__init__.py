"""Counts the tokens of corpora: plan, count shard by shard, merge.

In go source specs and a tokenizer; out comes a `FrequencyTable`. Each shard leaves a partial file,
so that a run that was interrupted counts only what is missing. Shards run in local worker processes
or as Ray tasks. Reading the corpora is left to `corpus`.
"""
