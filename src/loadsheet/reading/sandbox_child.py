"""The child's side of the sandbox: a fork server, and one reader for each file.

The fork server imports the readers' libraries once. It has one thread, no secrets in its environment, and never opens a file. A
reader confines itself before it reads the first byte, opens the file, describes its tables, and then sends batches of rows on
request; several passes over the rows may overlap. All of these processes end when loadsheet ends for any reason, because their
connections close.

The limits, except on Windows: memory, CPU time and open files; no file is written and no core dumped (macOS accepts the memory
limit but does not enforce it). Linux adds Landlock and seccomp, if the kernel has them. Landlock allows reading the given file
and the installed program only. seccomp forbids sockets, programs, forks, signals, access to other processes and changes of
attributes. An audit hook of the interpreter refuses the same, as a second line of defence. The process cannot undo any of this.
"""

import ctypes
import gc
import os
import pkgutil
import platform
import resource
import signal
import socket
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from loadsheet.reading.messages import (
    DONE,
    END,
    FORK,
    OPEN,
    ROWS,
    TABLES,
    ErrorReport,
    ExitStatus,
    Limits,
    Message,
    OpenRequest,
    TableDescription,
    decode,
    pack_rows,
    receive,
    send,
)
from loadsheet.reading.tables import Bounds, Layout, Table

_OPEN_FILES_MAX = 64
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")  # folders of the interpreter and its packages
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED_EVENTS = (
    *("socket.", "urllib.", "http.client.", "ftplib.", "smtplib.", "webbrowser.", "subprocess.", "pty.", "shutil."),
    *("os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "os.startfile", "os.kill"),
    *("os.rename", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate", "os.mkdir", "os.remove", "os.rmdir"),
)

_SET_SECCOMP, _SET_NO_NEW_PRIVILEGES, _FILTER = 22, 38, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1  # SECCOMP_RET_ERRNO with EPERM
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_CALLS: dict[str, tuple[int, int | None]] = {  # system calls with their numbers on x86_64 and aarch64 (Linux, syscall tables)
    "socket": (41, 198), "socketpair": (53, 199), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "connect": (42, 203),
    "clone": (56, 220), "fork": (57, None), "vfork": (58, None), "clone3": (435, 435),
    "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438), "setpriority": (141, 140),
    # Landlock knows no attributes
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88), "truncate": (76, 45),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268),
    "bpf": (321, 280), "perf_event_open": (298, 241), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "setrlimit": (160, 164), "prlimit64": (302, 261),
    "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "open_by_handle_at": (304, 265), "mq_open": (240, 180), "shmget": (29, 194),
}  # fmt: skip
_SIGNAL_THREAD = (234, 131)  # tgkill, by which a process also aborts itself
_X32 = 0x40000000

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # Landlock; the same numbers everywhere
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1}  # by version of Landlock; version 3 adds truncating
_RIGHTS_NOW = (1 << 15) - 1


def confine(limits: Limits, file: int) -> None:
    """Confine this process to its limits and to the descriptor `file`."""
    memory = _address_space() + (limits.memory_mb << 20)
    for resource_id, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES_MAX),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, limits.cpu_s),
    ):
        _lower(resource_id, limit)
    if sys.platform == "linux":
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # out of memory: kill this one first
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _forbid_files(libc, file)
        _forbid_calls(libc)
    sys.addaudithook(_refuse)


def _lower(resource_id: int, limit: int) -> None:
    _, hard = resource.getrlimit(resource_id)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    # CPU time: SIGXCPU first, which shows the reason, then SIGKILL
    hard_limit = limit + 1 if resource_id == resource.RLIMIT_CPU else limit
    if hard != resource.RLIM_INFINITY:
        hard_limit = min(hard_limit, hard)
    with suppress(ValueError, OSError):  # macOS refuses some
        resource.setrlimit(resource_id, (limit, hard_limit))


def _address_space() -> int:
    """The address space of this process in bytes; on systems other than Linux a fixed allowance for the interpreter."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return 1 << 30
    return pages * resource.getpagesize()


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    """The audit hook: refuses with PermissionError, which counts as a failure of the reader."""
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITING:
            raise PermissionError(f"a reader may not write: {path!r}")
    elif event.startswith(_REFUSED_EVENTS):
        raise PermissionError(f"a reader may not do this: {event}")


def _forbid_files(libc: ctypes.CDLL, file: int) -> None:
    """Landlock: only `file` and the installed program may be opened, for reading. Does nothing on a kernel without Landlock."""
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return
    attributes = struct.pack("=Q", _RIGHTS.get(version, _RIGHTS_NOW))
    rules = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        return
    _allow(libc, rules, file, _READ_FILE)
    for folder in {*(sysconfig.get_path(name) for name in _INSTALLED), str(Path(__file__).parents[1])}:
        with suppress(OSError):
            opened = os.open(folder, os.O_RDONLY)
            _allow(libc, rules, opened, _READ_FILE | _READ_DIR)
            os.close(opened)
    libc.syscall(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, opened: int, rights: int) -> None:
    libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, opened), 0)


def forbidden_calls(machine: str) -> dict[str, int]:
    """The system calls that a reader may not make, with their numbers on an architecture of `_ARCHITECTURES`."""
    _, column = _ARCHITECTURES[machine]
    return {name: number for name, call in _CALLS.items() if (number := call[column]) is not None}


def _forbid_calls(libc: ctypes.CDLL) -> None:
    """seccomp: the system calls of `_CALLS`, and signals to other processes, fail with EPERM. Does nothing on an architecture whose call
    numbers are not in `_ARCHITECTURES`.
    """
    if platform.machine() not in _ARCHITECTURES:
        return
    architecture, column = _ARCHITECTURES[platform.machine()]
    numbers = forbidden_calls(platform.machine()).values()
    last = len(numbers) + 8  # index of the refusing instruction; jumps count from the next instruction
    program = [
        (0x20, 0, 0, 4),  # load the architecture
        (0x15, 0, last - 2, architecture),  # another one: refuse
        (0x20, 0, 0, 0),  # load the number of the call
        (0x35, last - 4, 0, _X32),  # the second set of numbers of x86_64: refuse
        (0x15, 0, 2, _SIGNAL_THREAD[column]),
        (0x20, 0, 0, 16),  # load its first argument, the process
        (0x15, last - 8, last - 7, os.getpid()),
        *((0x15, last - 8 - place, 0, number) for place, number in enumerate(numbers)),
        (0x06, 0, 0, _ALLOW),
        (0x06, 0, 0, _REFUSE),
    ]
    packed = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    filtering = struct.pack("@HP", len(program), ctypes.addressof(packed))
    libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER), filtering, ctypes.c_ulong(0), ctypes.c_ulong(0))


Target = Callable[[Path, str, Sequence[Layout], Bounds], dict[str, Table]]
"""The function that reads a file: `opening.open_in_this_process`, or a test's own."""

_EXITS_MAX = 1_000


def serve(control: int, target: str) -> None:
    """Run the fork server until `control` closes. `target` is a module and a function in it, such as `json:loads`."""
    sys.modules["numpy"] = None  # type: ignore[assignment]  # keeps openpyxl from importing it needlessly
    function: Target = pkgutil.resolve_name(target)
    os.chdir("/")
    gc.collect()
    gc.freeze()  # keeps present objects shared with every reader
    gc.set_threshold(50_000)  # rows make many objects and no cycles
    connection = Connection(control)
    readers = _RunningReaders()
    for kind, body in _requests(connection):
        if kind == FORK:
            with socket.fromfd(control, socket.AF_UNIX, socket.SOCK_STREAM) as end:
                file, control_of_reader = socket.recv_fds(end, 1, 2)[1]
            pid = os.fork()
            if not pid:
                connection.close()
                _run_reader(Connection(control_of_reader), file, function)
            os.close(file)
            os.close(control_of_reader)
            readers.add(pid)
            send(connection, DONE, pid)
        else:
            send(connection, DONE, readers.kill(decode(body, int)))
    readers.kill_all()


class _RunningReaders:
    """The readers of this fork server: those that run, and the exit statuses of the others."""

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._exits: dict[int, ExitStatus] = {}

    def add(self, pid: int) -> None:
        """Add a new reader, and collect the exit statuses of those that ended."""
        self._running.add(pid)
        with suppress(ChildProcessError):  # none is left
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                self._record_exit(ended)
        while len(self._exits) > _EXITS_MAX:
            del self._exits[next(iter(self._exits))]

    def kill(self, pid: int) -> ExitStatus:
        """Kill a reader, if it still runs, and return its exit status."""
        if pid in self._running:
            os.kill(pid, signal.SIGKILL)
            self._record_exit(os.wait4(pid, 0))
        return self._exits.pop(pid, ExitStatus(0, 0, 0, 0.0))

    def kill_all(self) -> None:
        """Kill all readers that still run."""
        for pid in list(self._running):
            self.kill(pid)

    def _record_exit(self, ended: tuple[int, int, resource.struct_rusage]) -> None:
        pid, status, usage = ended
        code = os.waitstatus_to_exitcode(status)
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10  # ru_maxrss counts bytes there, KiB elsewhere
        cpu_s = usage.ru_utime + usage.ru_stime
        self._exits[pid] = ExitStatus(max(-code, 0), max(code, 0), usage.ru_maxrss // unit, cpu_s)
        self._running.discard(pid)


def _requests(connection: Connection) -> Iterator[Message]:
    """The requests, until the other end closes."""
    while True:
        try:
            request = receive(connection)
        except (EOFError, OSError):
            return
        yield request


def _run_reader(connection: Connection, file: int, target: Target) -> NoReturn:
    """Run a reader until its connection closes. An exception is reported; it ends only the pass over the rows that raised it."""
    tables: dict[str, Table] = {}
    passes: dict[int, Iterator[bytearray]] = {}
    code = 1
    try:
        for kind, body in _requests(connection):
            with ErrorReport(connection):
                if kind == OPEN:
                    tables = _open_tables(decode(body, OpenRequest), file, target)
                    fields = TableDescription._fields
                    send(connection, TABLES, [[getattr(table, field) for field in fields] for table in tables.values()])
                elif kind == ROWS:
                    number, name = decode(body, tuple[int, str])
                    if number not in passes:
                        passes[number] = pack_rows(tables[name].rows())
                    connection.send_bytes(next(passes[number], END))
                else:
                    passes.pop(decode(body, int), None)
        code = 0
    finally:
        os._exit(code)


def _open_tables(request: OpenRequest, file: int, target: Target) -> dict[str, Table]:
    """Confine this process, then read the tables of the file behind a descriptor."""
    confine(request.limits, file)
    reopened = Path(f"/proc/self/fd/{file}")  # the same file, even if its path was replaced
    path = reopened if reopened.exists() else Path(os.fsdecode(request.path))
    return target(path, request.name, request.layouts, request.bounds)
