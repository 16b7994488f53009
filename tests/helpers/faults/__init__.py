"""What kills, full disks, failing reads and damaged files do to a build: nothing that lasts.

`python tests/helpers/faults/matrix.py [--quick]` tries everything and prints a table;
`tests/faults` tries a part of it.
"""
