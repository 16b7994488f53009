"""Folders of model weights: read row by row as bytes, pruned, and checked. No torch needed."""
