"""Object stores: lists, fetches, uploads, copies and removes objects by address, such as `s3://bucket/prefix/name`.

Owns: the library (fsspec, with s3fs for S3; the extra `objects`), the versions of objects, and the error messages. Writes and
fetches are atomic. The store's library finds the credentials (environment, role); no message shows them. The library is loaded
with the first address.
"""

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from threading import get_ident
from typing import Any, NamedTuple

from loadsheet.errors import FolderError, SettingsError
from loadsheet.places import from_stored_path
from loadsheet.settings import Settings

AT_ONCE = 8  # listings, fetches and puts of many small objects
_NETWORK_S = {"connect_timeout": 10, "read_timeout": 60}
_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {
        "config_kwargs": {**_NETWORK_S, "retries": {"total_max_attempts": 3, "mode": "standard"}},
        "use_listings_cache": False,
    }
}
_VERSION = "#version="  # between the address and the version of an object in the inbox
_MARKS = ("ETag", "etag", "md5", "content_md5", "md5Hash")
_CHANGED = ("LastModified", "last_modified", "mtime", "updated", "created")
_TEXT_MAX = 300
_COPIED_AT_ONCE = 5 * 2**30 - 1  # the most that S3 copies in one request
_ENVIRONMENT = re.compile(r"AWS_|LOADSHEET_|FSSPEC_|GOOGLE_|AZURE_")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_ADVICE = (
    (("accessdenied", "forbidden", "access denied"), "access denied; give these credentials access to it"),
    (
        ("invalidaccesskey", "signaturedoesnotmatch", "expiredtoken", "invalidtoken"),
        "the store refuses the credentials; renew them",
    ),
    (
        ("slowdown", "throttl", "toomanyrequests", "reduce your request rate", "503"),
        "too many requests at this store",
    ),
    (("could not connect", "connectionerror", "connect timeout"), "the store cannot be reached"),
    (("timeout", "timed out"), "the store did not answer in time"),
)


class Object(NamedTuple):
    """A version of an object: its address, its name below the listed address, its size in bytes, its version id (`ETAG-SIZE`),
    and when the store received it (aware).
    """

    address: str
    name: str
    size: int
    version: str
    changed: datetime


def objects_in(address: str) -> list[Object]:
    """All objects below an address, sorted by name. Raises FolderError if the bucket does not exist or cannot be listed."""
    store, path = _store(address)
    with _errors_translated(address, "listed"):
        infos = store.find(path, detail=True)
    prefix = f"{path.rstrip('/')}/"
    objects = [_object(address, prefix, name, info) for name, info in infos.items() if name.startswith(prefix)]
    return sorted((item for item in objects if item.name and not item.name.endswith("/")), key=lambda item: item.name)


def names_in(address: str) -> list[str]:
    """The names directly below an address, sorted. Raises FolderError."""
    store, path = _store(address)
    with _errors_translated(address, "listed"):
        try:
            names = store.ls(path, detail=False)
        except FileNotFoundError:
            return []
    return sorted({str(name).rstrip("/").rpartition("/")[2] for name in names} - {""})


def find_object(address: str) -> Object | None:
    """The present object at an address; None without one. Raises FolderError."""
    store, path = _store(address)
    with _errors_translated(address, "checked"):
        try:
            info = store.info(path)
        except FileNotFoundError:
            return None
    return _object(address, f"{path.rpartition('/')[0]}/", path, info) if info["type"] == "file" else None


def is_still(stored: Object) -> bool:
    """Whether the store still has this version of an object. Raises FolderError."""
    now = find_object(stored.address)
    return now is not None and now.version == stored.version


def fetch(stored: Object, target: Path) -> bool:
    """Fetch this version of an object to a file, atomically; False if the store no longer has it. Raises FolderError."""
    store, path = _store(stored.address)
    part = target.with_name(f".{digest(target.name)}.{os.getpid()}.{get_ident()}.tmp")
    with _errors_translated(stored.address, "fetched"):
        try:
            _make_folder(target.parent)
            store.get_file(path, str(part))
            if part.stat().st_size == stored.size and is_still(stored):
                os.utime(part, (stored.changed.timestamp(), stored.changed.timestamp()))
                part.replace(target)
                return True
        except FileNotFoundError:
            return False
        finally:
            part.unlink(missing_ok=True)
    return False


def read(address: str) -> bytes:
    """The bytes of a small object; empty if it does not exist. Raises FolderError."""
    store, path = _store(address)
    with _errors_translated(address, "read"):
        try:
            return bytes(store.cat_file(path))
        except FileNotFoundError:
            return b""


def put(source: Path, address: str) -> None:
    """Upload a file, replacing the object at the address. Raises FolderError."""
    store, path = _store(address)
    with _errors_translated(address, "written"):
        store.put_file(str(source), path)


def copy(stored: Object, address: str) -> bool:
    """Copy this version of an object to another address. False if the store cannot copy, or has another version by now."""
    store, path = _store(stored.address)
    target_store, target = _store(address)
    if store is not target_store:
        return False
    conditional = hasattr(store, "call_s3") and stored.size <= _COPIED_AT_ONCE
    with _errors_translated(address, "written"):
        try:
            store.cp_file(path, target, **({"CopySourceIfMatch": _etag(stored)} if conditional else {}))
        except FileNotFoundError:
            if not is_still(stored):
                return False
            raise
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS):  # s3fs translates S3's error codes to these
                raise
            return False
    copied = find_object(address)
    # not every store honours the condition, and a copied multipart upload gets another ETag
    return copied is not None and copied.size == stored.size and (copied.version == stored.version or is_still(stored))


def remove_version(stored: Object) -> None:
    """Remove this version of an object; a newer one stays. A store without conditional deletes also removes a version that
    arrives between check and delete. Raises FolderError.
    """
    store, path = _store(stored.address)
    if not is_still(stored):
        return
    if not hasattr(store, "call_s3"):
        remove([stored.address])
        return
    bucket, _, key = path.partition("/")
    with _errors_translated(stored.address, "removed"):
        try:
            store.call_s3("delete_object", Bucket=bucket, Key=key, IfMatch=_etag(stored))
        except OSError as error:  # s3fs translates S3's error codes
            if error.errno == errno.ENOSYS:
                store.rm_file(path)
            elif error.errno != errno.EINVAL and not isinstance(error, FileNotFoundError):
                raise


def remove(addresses: Iterable[str]) -> None:
    """Remove the objects that exist. Raises FolderError."""
    for address in addresses:
        store, path = _store(address)
        with _errors_translated(address, "removed"), suppress(FileNotFoundError):
            store.rm_file(path)


def in_parallel(action: Any, items: Iterable[Any]) -> list[Any]:
    """The results of an action for each item, in order, computed in parallel. Raises the first error."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(action, items))


def local_copy(kept_as: str, settings: Settings) -> Path:
    """A local path with the bytes of an original: the original itself, or a copy of an object. Raises FolderError if it does not
    exist.
    """
    if "://" not in kept_as:
        return Path(from_stored_path(kept_as, settings.state))
    stored = find_object(split_kept_as(kept_as)[0])
    if stored is None:
        raise FolderError(f"{kept_as} no longer exists")
    target = settings.state / "fetched" / "kept" / digest(f"{stored.address} {stored.version}") / "original"
    if not target.is_file() and not fetch(stored, target):
        raise FolderError(f"{kept_as} changed while it was fetched. Try again")
    return target


def is_kept(kept_as: str, settings: Settings) -> bool:
    """Whether an original exists. Raises FolderError if the store cannot be reached."""
    if "://" in kept_as:
        return find_object(split_kept_as(kept_as)[0]) is not None
    return Path(from_stored_path(kept_as, settings.state)).exists()


def kept_as_of(stored: Object) -> str:
    """The ledger's name for a version of an object in the inbox."""
    return f"{stored.address}{_VERSION}{stored.version}"


def split_kept_as(kept_as: str) -> tuple[str, str]:
    """The address and the version (or empty) in the ledger's name of an object."""
    address, _, version = kept_as.partition(_VERSION)
    return address, version


def digest(text: str) -> str:
    """A short file name for any text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _etag(stored: Object) -> str:
    return f'"{stored.version.rpartition("-")[0]}"'


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents, closed to other users: shippers' data are confidential."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o750, exist_ok=True)


def _object(top: str, prefix: str, path: str, info: dict[str, Any]) -> Object:
    scheme = top.partition("://")[0]
    size = int(info.get("size") or 0)
    changed = next(
        (info[name] for name in _CHANGED if isinstance(info.get(name), datetime)), datetime.fromtimestamp(0, UTC)
    )
    mark = next((str(info[name]).strip('"') for name in _MARKS if info.get(name)), str(changed.timestamp()))
    return Object(f"{scheme}://{path}", path.removeprefix(prefix), size, f"{mark}-{size}", changed.astimezone(UTC))


def _store(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it. Raises SettingsError if this installation cannot reach such stores."""
    scheme, _, path = address.partition("://")
    environment = tuple(sorted((name, value) for name, value in os.environ.items() if _ENVIRONMENT.match(name)))
    return _file_system(scheme, os.getpid(), hash(environment)), path


@lru_cache(maxsize=8)
def _file_system(scheme: str, _process: int, _environment_hash: int) -> Any:
    try:
        import fsspec  # type: ignore[import-untyped]

        return fsspec.filesystem(scheme, skip_instance_cache=True, **_OPTIONS.get(scheme, {}))
    except ImportError as error:
        message = f"{scheme}:// needs libraries that are not installed ({error.name or error})"
        raise SettingsError(
            f"{message}. Install loadsheet with its extra objects: pip install 'loadsheet[objects]'"
        ) from error
    except ValueError as error:
        raise SettingsError(
            f"{scheme}:// is not a known kind of object store. Use an address such as s3://bucket/prefix"
        ) from error


@contextmanager
def _errors_translated(address: str, action: str) -> Iterator[None]:
    """Turn the errors of a store into FolderError and SettingsError with advice."""
    try:
        yield
    except FileNotFoundError as error:
        bucket = "/".join(address.split("/")[:3])
        raise FolderError(
            f"{address} could not be {action}: {bucket} does not exist. Create it or set another address"
        ) from error
    except _refusals() as error:
        if type(error).__name__ in (
            "NoCredentialsError",
            "PartialCredentialsError",
            "NoRegionError",
            "ProfileNotFound",
        ):
            raise SettingsError(
                f"{address} could not be {action}: no credentials found. "
                "Set them in the environment (AWS_ACCESS_KEY_ID and so on) or use a role"
            ) from error
        raise FolderError(f"{address} could not be {action}: {_reason(error)}. The next run tries again") from error


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk of this machine is full; make room"
    text = _CREDENTIALS.sub("", " ".join(str(error).split()))[:_TEXT_MAX] or type(error).__name__
    small = f"{type(error).__name__} {text} {type(error.__cause__).__name__} {error.__cause__}".casefold()
    advice = next((advice for words, advice in _ADVICE if any(word in small for word in words)), "")
    return f"{advice} ({text})" if advice else f"the store reports: {text}"


@lru_cache(maxsize=1)
def _refusals() -> tuple[type[BaseException], ...]:
    """The exceptions that the libraries raise for errors of a store."""
    try:
        from botocore.exceptions import (  # type: ignore[import-untyped]
            BotoCoreError,
            ClientError,
        )
    except ImportError:
        return (OSError, TimeoutError)
    return (OSError, TimeoutError, BotoCoreError, ClientError)
