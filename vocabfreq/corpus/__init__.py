"""Reads corpora: source specs → files → shards → batches of texts or token ids.

In go specs (a local path or glob, `-`, a Hub data set); out come `Shard`s, units of work that can
be read alone, and from each of them `Batch`es of texts or `IdBatch`es of token ids. Bad rows are
skipped and counted by reason. Encoding the texts and adding up their ids is left to `counting`.
"""
