"""What kills, full disks, failing reads and damaged files do to a build: nothing that lasts.

`python tests/faults/matrix.py [--quick]` tries everything and prints a table; `test_faults.py`
tries a part of it within the tests.
"""
