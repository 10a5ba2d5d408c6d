"""What a process that reads a file may use and do: limits by the system, and a wall around it where the system has one.

Everywhere but on Windows: memory, CPU time, open files, no file written, no core dump (on macOS the memory limit is accepted but
not kept). On Linux also, as far as the kernel has them: Landlock (no file may be opened but the one handed over and the installed
program, none may be made or changed) and seccomp (no socket, no program started, no other process touched; and no fork, once rows
are streamed). As a second line an audit hook of the interpreter refuses the same. Nothing here can be taken back by the process.
"""

import ctypes
import os
import platform
import resource
import struct
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_OPEN_FILES_MAX = 64
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")  # folders of the interpreter and its packages
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED_EVENTS = (
    *("socket.", "urllib.", "http.client.", "ftplib.", "smtplib.", "webbrowser."),
    *(
        "subprocess.",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "os.startfile",
        "os.forkpty",
        "os.kill",
        "pty.",
    ),
    *(
        "os.rename",
        "os.link",
        "os.symlink",
        "os.chmod",
        "os.chown",
        "os.truncate",
        "os.mkdir",
        "os.remove",
        "os.rmdir",
        "shutil.",
    ),
)

_SET_PARENT_DEATH_SIGNAL, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES, _FILTER = 1, 22, 38, 2
_KILL = 9
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1  # SECCOMP_RET_ERRNO with EPERM
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_FORKS = ((56, 220), (57, None), (58, None), (435, 435))  # clone, fork, vfork, clone3
_CALLS = (  # numbers of system calls on x86_64 and aarch64 (Linux, syscall tables)
    (41, 198), (53, 199), (49, 200), (50, 201), (43, 202), (288, 242), (42, 203),  # socket ... connect
    (59, 221), (322, 281),  # execve, execveat
    (62, 129), (101, 117), (310, 270), (311, 271),  # kill, ptrace, process_vm_readv, process_vm_writev
    (165, 40), (166, 39), (155, 41), (161, 51), (272, 97), (308, 268),  # mount, umount2, pivot_root, chroot, unshare, setns
    (321, 280), (298, 241), (250, 219), (248, 217), (249, 218),  # bpf, perf_event_open, keyctl, add_key, request_key
    (175, 105), (313, 273), (176, 106), (246, 104),  # kernel modules, kexec_load
    (160, 164), (302, 261),  # setrlimit, prlimit64
    (425, 425), (323, 282), (304, 265), (240, 180), (29, 194),  # io_uring_setup, userfaultfd, open_by_handle_at, mq_open, shmget
)  # fmt: skip
_X32 = 0x40000000

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # Landlock; the same numbers everywhere
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1}  # by version of Landlock; from 3 on truncating too
_RIGHTS_NOW = (1 << 15) - 1


class Limits(NamedTuple):
    """What reading one file may take: memory beyond what the process began with, CPU time of each pass, and the longest wait for
    an answer.
    """

    memory_mb: int
    cpu_s: int
    wall_s: float


def confine(limits: Limits, file: int) -> None:
    """Put this process under its limits and behind its wall; `file` is the descriptor it may read. Whatever it forks is under
    the same limits, with CPU time of its own.
    """
    memory = _address_space() + (limits.memory_mb << 20)
    for what, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES_MAX),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, limits.cpu_s),
    ):
        _lower(what, limit)
    if sys.platform == "linux":
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # if memory runs out, end me first
        system = ctypes.CDLL(None, use_errno=True)
        system.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _forbid_files(system, file)
        _forbid_calls(system, _CALLS)
    sys.addaudithook(_refuse)


def confine_further() -> None:
    """What a process that only streams rows gives up as well: forking, and outliving the one that forked it."""
    if sys.platform == "linux":
        system = ctypes.CDLL(None, use_errno=True)
        system.prctl(_SET_PARENT_DEATH_SIGNAL, _KILL, 0, 0, 0)
        _forbid_calls(system, _FORKS)
    sys.addaudithook(_refuse_fork)


def _lower(what: int, limit: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    after = (
        limit + 1 if what == resource.RLIMIT_CPU else limit
    )  # first the signal that says why, then the one that kills
    if hard != resource.RLIM_INFINITY:
        after = min(after, hard)
    with suppress(ValueError, OSError):  # macOS refuses some
        resource.setrlimit(what, (limit, after))


def _address_space() -> int:
    """The address space of this process in bytes; elsewhere than on Linux an allowance for the interpreter."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return 1 << 30
    return pages * resource.getpagesize()


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    """The audit hook: refuses with PermissionError, which a reader can only take for the file's fault."""
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITING:
            raise PermissionError(f"a reader may not write: {path!r}")
    elif event.startswith(_REFUSED_EVENTS):
        raise PermissionError(f"a reader may not do this: {event}")


def _refuse_fork(event: str, _arguments: tuple[object, ...]) -> None:
    if event == "os.fork":
        raise PermissionError("a reader may not fork")


def _forbid_files(system: ctypes.CDLL, file: int) -> None:
    """Landlock: only `file` and the installed program may be opened, for reading. Does nothing on a kernel without it."""
    version = system.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return
    attributes = struct.pack("=Q", _RIGHTS.get(version, _RIGHTS_NOW))
    rules = system.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        return
    _allow(system, rules, file, _READ_FILE)
    for folder in {*(sysconfig.get_path(name) for name in _INSTALLED), str(Path(__file__).parents[1])}:
        with suppress(OSError):
            opened = os.open(folder, os.O_RDONLY)
            _allow(system, rules, opened, _READ_FILE | _READ_DIR)
            os.close(opened)
    system.syscall(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _allow(system: ctypes.CDLL, rules: int, opened: int, rights: int) -> None:
    system.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, opened), 0)


def _forbid_calls(system: ctypes.CDLL, calls: tuple[tuple[int, int | None], ...]) -> None:
    """seccomp: the calls fail with EPERM. Does nothing on a machine whose call numbers are not known here."""
    if platform.machine() not in _ARCHITECTURES:
        return
    architecture, column = _ARCHITECTURES[platform.machine()]
    numbers = [call[column] for call in calls if call[column] is not None]
    last = (
        len(numbers) + 5
    )  # the place of the instruction that refuses; jumps are counted from the instruction after them
    program = [
        (0x20, 0, 0, 4),  # load the architecture
        (0x15, 0, last - 2, architecture),  # another one: refuse
        (0x20, 0, 0, 0),  # load the number of the call
        (0x35, last - 4, 0, _X32),  # the second set of numbers of x86_64: refuse
        *((0x15, last - 5 - place, 0, number) for place, number in enumerate(numbers)),
        (0x06, 0, 0, _ALLOW),
        (0x06, 0, 0, _REFUSE),
    ]
    packed = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    filtering = struct.pack("@HP", len(program), ctypes.addressof(packed))
    system.prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER), filtering, ctypes.c_ulong(0), ctypes.c_ulong(0))
