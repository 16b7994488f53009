"""Model folders: safetensors read row by row as bytes, drafters pruned and checked, no torch.

A drafter folder, a target folder and a `DraftVocab` come in; `pruning` writes a folder that servers
load (or a token map), `checks` returns findings. `folder` opens a folder, `tensors` reads rows,
`head` finds the head, `vocab_mapping` reads d2t and t2d, `config` reads config.json, `writing`
writes and verifies. Files of ids belong to `formats`, heads on a device to `runtime`.
"""
