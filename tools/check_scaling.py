#!/usr/bin/env python3
"""Measures that the work of every path that reads untrusted text or files grows with its input, and no faster.

    check_scaling.py [PROBE]        PROBE: build/release/tests/scaling_probe

The probe (tests/scaling) holds the worst inputs that we know for each path. For each of them the work for twice the
input may be at most 2.5 times as much, or, from half the size on, 2.5 times for each of two doublings: an input that
no longer fits a cache costs more once, work that grows too fast does so at each doubling. Time is that of the thread's
processor; what looks too slow is measured again, more carefully, before it fails. The C library is set up so that its own steps do not count as growth. The probe has a
path that is quadratic on purpose: the check fails unless it finds that one too.
"""
import concurrent.futures
import math
import os
import pathlib
import subprocess
import sys

MOST = 2.5  # n log n gives 2.2
PLANTED = "planted: quadratic"
FIRST_RUNS = 2
RUNS = 5
TRIES = 5
SECONDS = 1200
# From some sizes on malloc asks the kernel for pages each time. From some sizes on x86 processors copy by `rep movsb`,
# which is 15 times as slow where addresses lie badly. Neither is work of ours.
TUNABLES = ":".join(("glibc.malloc.mmap_max=0", "glibc.malloc.trim_threshold=1000000000",
                     "glibc.cpu.x86_rep_movsb_threshold=1000000000"))

Measured = tuple[str, int, float, float, float]


def measure(probe: str, *arguments: str) -> list[Measured]:
    """Name, size, seconds for half the size, for the size and for twice the size, of each case."""
    done = subprocess.run([probe, *arguments], capture_output=True, text=True, check=False, timeout=SECONDS,
                          env={**os.environ, "GLIBC_TUNABLES": TUNABLES})
    if done.returncode != 0:
        raise RuntimeError(f"{probe} {' '.join(arguments)} failed ({done.returncode}): {done.stderr.strip()}")
    rows = []
    for line in done.stdout.splitlines():
        name, size, half, once, twice = line.split("\t")
        rows.append((name, int(size), float(half), float(once), float(twice)))
    return rows


def growth(row: Measured) -> float:
    """Of the last doubling, or for one of the last two on average, whichever is less."""
    _, _, half, once, twice = row
    return min(twice / max(once, 1e-9), math.sqrt(twice / max(half, 1e-9)))


def measure_all(probe: str) -> list[Measured]:
    parts = os.cpu_count() or 1
    with concurrent.futures.ThreadPoolExecutor(parts) as pool:
        shards = pool.map(lambda part: measure(probe, str(part), str(parts), str(FIRST_RUNS)), range(parts))
        return list(pool.map(lambda row: measure_again(probe, row), [row for shard in shards for row in shard]))


def measure_again(probe: str, row: Measured) -> Measured:
    """The try of median growth, if the first growth is too much: other programs spoil some tries, in both directions."""
    if growth(row) <= MOST:
        return row
    tries = [measure(probe, row[0], str(RUNS))[0] for _ in range(TRIES)]
    return sorted(tries, key=growth)[TRIES // 2]


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    probe = sys.argv[1] if len(sys.argv) > 1 else str(root / "build/release/tests/scaling_probe")
    try:
        rows = measure_all(probe)
    except (OSError, RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"check_scaling: {error}")
        return 1
    slow = [row for row in rows if growth(row) > MOST]
    found_planted = PLANTED in [row[0] for row in slow]
    slow = [row for row in slow if row[0] != PLANTED]
    for row in sorted(slow, key=growth, reverse=True):
        name, size, half, once, twice = row
        print(f"{name}: {growth(row):.2f} times the work for twice the input (size {size // 2}: {half * 1e3:.3f} ms, "
              f"{size}: {once * 1e3:.3f} ms, {2 * size}: {twice * 1e3:.3f} ms), at most {MOST} is allowed")
    if not found_planted:
        print(f"check_scaling: the case '{PLANTED}' was not found to be slow: the check sees nothing")
    print(f"scaling: {len(rows) - 1 - len(slow)} of {len(rows) - 1} paths grow with their input")
    return 0 if found_planted and not slow else 1


if __name__ == "__main__":
    sys.exit(main())
