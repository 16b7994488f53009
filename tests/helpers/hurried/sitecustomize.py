"""Makes a process wait 50 times less wherever it sleeps; Python imports this at its start.

For processes that try again after 1, 2, 4, … or 20 s when a Hub stumbles: how often they try and
what comes of it stay as they are.
"""

import time
from typing import SupportsIndex

_sleep = time.sleep


def sleep(seconds: float | SupportsIndex, /) -> None:
    """Sleeps for a 50th of it; short naps, in which a process polls, keep their length."""
    wanted = float(seconds)
    _sleep(wanted if wanted < 0.1 else max(0.02, wanted / 50))


time.sleep = sleep
