"""The files that other tools read and write."""
