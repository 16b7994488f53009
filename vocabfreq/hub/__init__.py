"""Publishing a frequency file on the Hugging Face Hub, and getting one from there, verified.

>>> from vocabfreq.hub import pull, push, verify
>>> push("vocab_freq.safetensors", "org/llama3-vocab-freq", sizes=[32_768])
>>> table = FrequencyTable.load("org/llama3-vocab-freq")
"""

from vocabfreq.hub.contents import Contents, contents_of
from vocabfreq.hub.pulling import pull
from vocabfreq.hub.pushing import Pushed, push
from vocabfreq.hub.verifying import Check, verify

__all__ = ["Check", "Contents", "Pushed", "contents_of", "pull", "push", "verify"]
