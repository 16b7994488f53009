"""Files on disk and on the Hub, whatever they contain.

`atomic` writes files and folders whole or not at all; `resolve` turns a path or
`owner/name[@revision]` into local files, downloaded and compared with the SHA-256 sums that
`manifest` reads. What a file means is left to the rooms above.
"""
