"""A wall clock that can be set, for a daemon and its PostgreSQL: as if that of the machine were.

A small library is laid before the C library's (LD_PRELOAD). It adds an offset to the time of day
and leaves the clocks alone that only count.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from tracker.store.embedded.binaries import find_binaries

_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *seconds;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) seconds = page;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && seconds && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        at->tv_sec += *seconds;
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


class SettableClock:
    """Its files are in *folder*; ``environment`` lets a daemon and its server go by it."""

    def __init__(self, folder: Path, bindir: Path | None) -> None:
        """Skips the test where there is no C compiler."""
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("a C compiler is needed to lay a clock under a process")
        library, self._file, programs = folder / "clock.so", folder / "clock", folder / "programs"
        (folder / "clock.c").write_text(_SOURCE)
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(folder / "clock.c")],
            check=True,
        )
        self._file.write_bytes(bytes(8))
        programs.mkdir()
        for program in find_binaries(bindir).bindir.iterdir():
            script = programs / program.name
            script.write_text(
                f"#!/bin/sh\nTEST_CLOCK={self._file} LD_PRELOAD={library}\n"
                f'export TEST_CLOCK LD_PRELOAD\nexec {program} "$@"\n'
            )
            script.chmod(0o755)
        for path in (library, self._file):
            path.chmod(0o644)
        programs.chmod(0o755)
        self.environment = {
            "TEST_CLOCK": str(self._file), "LD_PRELOAD": str(library),
            "GPUCOST_POSTGRES_BINDIR": str(programs),
        }  # fmt: skip

    def set(self, offset: timedelta) -> None:
        """Let it go wrong, or right, by so much."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("l", int(offset.total_seconds())))
