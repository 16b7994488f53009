"""Corpora → shards → batches of text or ids."""
