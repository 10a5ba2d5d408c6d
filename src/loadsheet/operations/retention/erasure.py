"""Forgetting a key at a person's request: what would go, what goes, and what stays and has to be said.

Owns: the order. Files go first and the ledger's own words last, so that whoever is interrupted begins again and finds what is left; at
the end the database is written anew, so that no page and no log holds what was removed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from loadsheet import inbox, object_storage
from loadsheet.ledger import Ledger, Run
from loadsheet.ledger.erased_names import FileName
from loadsheet.ledger.erasure import Mine, Original, refuse_unsettled
from loadsheet.operations.retention.backups import copies, copies_elsewhere
from loadsheet.operations.retention.expiry import abridge
from loadsheet.operations.retention.old_reports import remove_folders, renew_index, strange_files
from loadsheet.operations.retention.pseudonyms import in_the_way, remove_original, rename_in_texts, rename_originals
from loadsheet.problems import FolderError, LedgerError, LedgerUnwritable
from loadsheet.settings import EMBEDDED, Settings
from loadsheet.settings.places import address_of, shown

CAPSULES = "*.capsule.zip"
_EVER = "9999"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person wants gone beside what the ledger says: whole originals that hold rows of others too, reports and capsules, copies of
    the ledger, the key itself, and names of files in which rows of others came too.
    """

    originals: bool = False
    reports: bool = False
    backups: bool = False
    with_key: bool = False
    names: bool = False


@dataclass(frozen=True, slots=True)
class Traces:
    """Where a key stands: its entries, the originals they came from, the runs whose reports are there, capsules of these, and copies of the
    ledger, those elsewhere too. `names` are those of the files it came in.
    """

    key: str
    entries: tuple[Mine, ...]
    originals: tuple[Original, ...]
    reports: tuple[Path, ...]
    capsules: tuple[Path, ...]
    copies: tuple[Path, ...]
    copies_elsewhere: tuple[Path, ...]
    names: tuple[FileName, ...]


@dataclass(frozen=True, slots=True)
class Deed:
    """What goes and what stays, in sentences; the paths of both are in the sentences, each path in one of its own."""

    goes: tuple[str, ...]
    stays: tuple[str, ...]


def find(settings: Settings, ledger: Ledger, ledger_file: Path, key: str) -> Traces:
    """Where a key stands."""
    mine = ledger.maintenance.entries_of_key(key)
    names = ledger.maintenance.file_names_of(key, mine)
    runs = ledger.maintenance.runs_of(mine, names)
    folders = [settings.outbox / name for name in dict.fromkeys([*runs, *(name[:10] for name in runs)])]
    sealed = {*settings.outbox_here.rglob(CAPSULES), *(settings.state / "capsules").rglob(CAPSULES)}
    capsules = sorted(path for path in sealed if runs and path.name >= runs[0])  # earlier ones cannot know of it
    return Traces(
        key,
        tuple(mine),
        tuple(ledger.maintenance.originals_of(mine)),
        tuple(folder for folder in folders if _is_there(folder)),
        tuple(capsules),
        tuple(copies(settings, ledger_file)),
        tuple(copies_elsewhere(settings)),
        tuple(names),
    )


def plan(settings: Settings, found: Traces, wanted: Wanted) -> Deed:
    """What would go and what would stay. Raises NotSettled if one may still be sent or looked for."""
    refuse_unsettled(found.entries, found.key)
    count = f"{len(found.entries)} {'entry' if len(found.entries) == 1 else 'entries'}"
    goes = [f"payloads, cells, answers and comments of {count}, and values in what is said of them"]
    goes += ["the key itself: the same record, dropped again, is sent as a new one"] if wanted.with_key else []
    stays = [] if wanted.with_key else ["the key itself, by which the same record is not sent twice (--with-key)"]
    stays.append("states, hashes, times, the exchange's numbers, and the weights and values that totals add up")
    for one in found.originals:
        if one.shared and not wanted.originals:
            stays.append(f"{one.kept_as}: rows of others stand in it too (--originals removes it whole)")
        else:
            goes.append(f"{one.kept_as}: the original {one.name}")
    for folder in found.reports:
        if not wanted.reports:
            stays.append(
                f"{shown(folder)}: reports (--reports; `loadsheet report --run` writes them again without the values)"
            )
        elif strange := strange_files(folder):
            stays.append(
                f"{shown(folder)}: reports, as {strange[0]} in it is not ours: look at it, and remove the folder yourself"
            )
        else:
            goes.append(f"{shown(folder)}: reports")
    for paths, chosen, what, option in (
        (found.capsules, wanted.reports, "a capsule, which may hold it", "--reports"),
        (found.copies, wanted.backups, "a copy of the ledger", "--backups"),
    ):
        goes += [f"{path}: {what}" for path in paths if chosen]
        stays += [f"{path}: {what} ({option})" for path in paths if not chosen]
    stays += [
        f"{path}: a copy of the ledger, made with `ledger backup --to`: remove it yourself"
        for path in found.copies_elsewhere
    ]
    for name in found.names:
        said, is_gone = _told_of(settings, name, found, wanted)
        (goes if is_gone else stays).append(said)
    stays.append(_elsewhere(settings))
    if settings.is_shared:
        stays.append(
            "what the server keeps of changed rows: its pages until they are used again, its log and its backups"
        )
    return Deed(tuple(goes), tuple(stays))


def forget(
    settings: Settings, ledger: Ledger, run: Run, found: Traces, wanted: Wanted, *, who: str, because: str
) -> None:
    """Do it. Raises NotSettled, with everything as it was, if an entry may still be sent or looked for, FolderError if a file cannot be
    removed, and LedgerUnwritable if the database cannot be written anew: `loadsheet ledger vacuum` does that later.
    """
    refuse_unsettled(found.entries, found.key)
    originals = [one for one in found.originals if wanted.originals or not one.shared]
    going = _going(found, wanted)
    names = [one for one in found.names if _goes(one, wanted) and not in_the_way(settings, one, going)]
    for one in originals:
        remove_original(settings, one.kept_as)
        inbox.move_archive_mark(settings, one.sha256, one.kept_as, "")
    inbox.remove_fetched(settings)
    ledger.maintenance.let_go([Path(one.kept_as) for one in originals])
    rename_originals(settings, ledger, names)
    if wanted.reports:
        _remove(found.capsules)
        remove_folders(settings, ledger, [folder.name for folder in found.reports])
    if wanted.backups:
        _remove(found.copies)
    rename_in_texts(settings, ledger, names)
    ledger.maintenance.forget(run, found.key, who=who, because=because, with_key=wanted.with_key, names=names)
    renew_index(settings, ledger)
    for look in ledger.maintenance.old_looks(_EVER):
        ledger.maintenance.abridge(look, abridge)
    try:
        if ledger.maintenance.is_file:
            ledger.maintenance.vacuum()
    except LedgerError as error:
        told = f"{found.key} was forgotten, but its bytes may still stand in the file: {error}"
        raise LedgerUnwritable(f"{told}; then `loadsheet ledger vacuum` does the rest") from error


def _told_of(settings: Settings, one: FileName, found: Traces, wanted: Wanted) -> tuple[str, bool]:
    """What becomes of a file name, and whether it goes."""
    told = f"{one.name}: the name of this file"
    if not _goes(one, wanted):
        return f"{told}, in the ledger, the archive and reports: records of others came under it (--names)", False
    if place := in_the_way(settings, one, _going(found, wanted)):
        return f"{told}, as {place} is not in the archive: remove it, or have `loadsheet run` put it there", False
    because = one.because or "--names"
    left = "" if wanted.reports and wanted.backups else "; reports, capsules and copies that stay hold it still"
    return f"{told} becomes {one.pseudonym} in the ledger, the archive, logs and notices ({because}){left}", True


def _goes(one: FileName, wanted: Wanted) -> bool:
    return bool(one.because) or wanted.names


def _going(found: Traces, wanted: Wanted) -> list[str]:
    return [one.kept_as for one in found.originals if wanted.originals or not one.shared]


def _is_there(folder: Path) -> bool:
    address = address_of(folder)
    return bool(object_storage.names_in(address)) if address else folder.is_dir()


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if address := address_of(path):
            object_storage.remove([address])
            continue
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise FolderError(
                f"{path} cannot be removed ({error.strerror}); nothing was forgotten in the ledger yet: try again"
            ) from error


def _elsewhere(settings: Settings) -> str:
    other = f"{settings.state / 'exchange.db'}" if settings.exchange == EMBEDDED else settings.exchange
    return (
        "copies of the ledger that were moved or copied on; "
        f"what others hold: the exchange ({other}), files set aside unread, log files in {settings.state / 'logs'} (they name keys; those of other machines name files), "
        "mails and copies that left this machine"
    )
