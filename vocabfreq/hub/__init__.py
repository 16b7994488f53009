"""Publishing a frequency file on the Hugging Face Hub, and getting one from there, verified.

>>> from vocabfreq.hub import pull, push, verify
>>> push("vocab_freq.safetensors", "org/llama3-vocab-freq", sizes=[32_768])
>>> table = FrequencyTable.load("org/llama3-vocab-freq")
"""

from vocabfreq.hub.contents import Contents, contents_of
from vocabfreq.hub.pull import pull
from vocabfreq.hub.push import Pushed, push
from vocabfreq.hub.verify import Check, verify

__all__ = ["Check", "Contents", "Pushed", "contents_of", "pull", "push", "verify"]
