"""A process and all it has started, as one: the memory they hold together (Linux; elsewhere nothing can be said)."""

from pathlib import Path

PROC = Path("/proc")


def members(pid):
    """The process and all its descendants that live now."""
    parents = {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents[int(stat.parent.name)] = int(after_name[1])
    family, more = {pid}, True
    while more:
        more = {child for child, parent in parents.items() if parent in family} - family
        family |= more
    return family


def memory_mb(pid):
    """What the family holds, pages that it shares counted once."""
    return sum(_kilobytes(member) for member in members(pid)) / 1_000


def _kilobytes(pid):
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
