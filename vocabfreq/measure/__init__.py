"""Measurements: sampler speed (`bench`), acceptance in real engines (`eval`), which K (`advise`).

`bench` times the samplers beside the ways of other engines on this machine. `eval` runs a drafter,
pruned and unpruned, in vLLM or transformers. `advise` computes the best K from both.
"""
