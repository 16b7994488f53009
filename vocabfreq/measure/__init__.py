"""Measurements: drafting speed (`bench`), acceptance in real engines (`eval`), best K (`advise`).

`bench` times drafting with a pruned head on this machine, next to the implementations of other
engines. `eval` runs a drafter, pruned and unpruned, in vLLM or transformers, and compares its
output with plain decoding. `advise` computes the K with the most expected tokens per second from a
frequency file and the JSON of both. Results are values; the room `cli` renders them.
"""
