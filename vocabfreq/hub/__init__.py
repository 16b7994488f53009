"""Publishes a frequency file on the Hugging Face Hub, downloads published ones, and verifies them.

>>> from vocabfreq.hub import pull, push, verify
>>> push("vocab_freq.safetensors", "org/llama3-vocab-freq", sizes=[32_768])
>>> table = FrequencyTable.load("org/llama3-vocab-freq")

A published repo holds the frequency file, a token map for each size, a card, and a manifest with
the sha256 of every file. How a single file or a revision is found on the Hub is up to `storage`.
"""

from vocabfreq.hub.contents import Contents, contents_of
from vocabfreq.hub.pulling import pull
from vocabfreq.hub.pushing import Pushed, push
from vocabfreq.hub.verifying import Check, verify

__all__ = ["Check", "Contents", "Pushed", "contents_of", "pull", "push", "verify"]
