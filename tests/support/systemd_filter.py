"""Runs a command behind the system call filter of a systemd unit, as systemd would set it up: `systemd_filter.py UNIT COMMAND ...`.

systemd has to be running to start units; its filter needs libseccomp only. Expands groups with `systemd-analyze`.
"""

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NO_NEW_PRIVILEGES, _PROT_EXEC, _PROT_WRITE, _MASKED_EQ, _EQ = 38, 4, 2, 7, 4
_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}


class _Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def directives(unit):
    """The values of each directive of a unit, in order."""
    found = {}
    for line in Path(unit).read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def allowed(unit):
    """The system calls that a unit allows, by name."""
    calls = set()
    for value in directives(unit)["SystemCallFilter"]:
        named = {call for word in value.removeprefix("~").split() for call in _expanded(word)}
        calls = calls - named if value.startswith("~") else calls | named
    return calls


def _expanded(word):
    if not word.startswith("@"):
        return {word}
    told = subprocess.run(["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True)
    names = [line.strip() for line in told.stdout.splitlines()[1:] if line.strip() and "#" not in line]
    return {call for name in names for call in _expanded(name)}


def confine(unit):
    """Put this process behind the filter."""
    lib, libc = ctypes.CDLL("libseccomp.so.2"), ctypes.CDLL(None)
    lib.seccomp_init.restype = ctypes.c_void_p
    _confine_calls(lib, libc, allowed(unit))
    _confine_arguments(lib, directives(unit))


def _confine_calls(lib, libc, names):
    context = ctypes.c_void_p(lib.seccomp_init(_REFUSE))
    for name in [*names, "execve", "exit", "exit_group", "rt_sigreturn"]:
        number = lib.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            lib.seccomp_rule_add(context, _ALLOW, number, 0)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    assert lib.seccomp_load(context) == 0


def _confine_arguments(lib, given):
    """Memory that is writable and executable, sockets of other families, and namespaces."""
    context = ctypes.c_void_p(lib.seccomp_init(_ALLOW))

    def refuse(name, *compares):
        rules = (_Compare * len(compares))(*compares)
        number = lib.seccomp_syscall_resolve_name(name.encode())
        assert lib.seccomp_rule_add_array(context, _REFUSE, number, len(compares), rules) == 0, name

    if given["MemoryDenyWriteExecute"] == ["yes"]:
        both = _PROT_EXEC | _PROT_WRITE
        refuse("mmap", _Compare(2, _MASKED_EQ, both, both))
        refuse("mprotect", _Compare(2, _MASKED_EQ, _PROT_EXEC, _PROT_EXEC))
        refuse("pkey_mprotect", _Compare(2, _MASKED_EQ, _PROT_EXEC, _PROT_EXEC))
    if given["RestrictNamespaces"] == ["yes"]:
        for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
            refuse("clone", _Compare(0, _MASKED_EQ, flag, flag))
            refuse("unshare", _Compare(0, _MASKED_EQ, flag, flag))
    families = {_FAMILIES[name] for name in given["RestrictAddressFamilies"][0].split()}
    for family in set(range(45)) - families:
        refuse("socket", _Compare(0, _EQ, family, 0))
    assert lib.seccomp_load(context) == 0


if __name__ == "__main__":
    confine(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
