"""Memory in pages of 2 MB, where the system has them: a fork copies the table of pages, and hundreds of tests fork."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

HUGE = 1 << 21
COLLAPSE = 25  # MADV_COLLAPSE of Linux 6.1


def collapse() -> None:
    """Put what this process has written into huge pages; what the system cannot put there stays as it is."""
    if sys.platform != "linux":
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in Path("/proc/self/maps").read_text("ascii", "replace").splitlines():
        addresses, access, _, _, inode, *_ = line.split()
        start, end = (int(address, 16) for address in addresses.split("-"))
        start, end = -(-start // HUGE) * HUGE, end // HUGE * HUGE
        if access == "rw-p" and inode == "0" and start < end:
            advise(start, end - start, COLLAPSE)
