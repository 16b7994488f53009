"""Files on disk and on the Hub: written whole or not at all, checked against SHA-256 sums.

In goes a path, or `owner/name[@revision]`; out comes a local file whose size and checksum were
verified. What a file means is left to the rooms above.
"""
