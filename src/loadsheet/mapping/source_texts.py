"""The files that a mapping is made of, as texts that can be kept, and files again: so that a file can be read by a mapping as it was.

Owns: how they lie to each other. Paths are counted from the folder that holds them all, so a mapping that extends
`../base/parcels.yaml` finds that again. Compiles nothing.
"""

import os
from collections.abc import Mapping
from pathlib import Path, PurePath


def source_of(used: Mapping[Path, bytes]) -> dict[str, str]:
    """The texts of a mapping's files (UTF-8, byte for byte), the mapping first, by their paths with slashes from the folder that holds
    them all; empty if no folder does, as when they lie on two drives.
    """
    paths = [os.path.abspath(path) for path in used]  # noqa: PTH100 (Path.resolve would follow links, and lead elsewhere)
    try:
        root = os.path.commonpath([os.path.dirname(path) for path in paths])  # noqa: PTH120 (as above)
    except ValueError:
        return {}
    return {
        PurePath(os.path.relpath(path, root)).as_posix(): content.decode()
        for path, content in zip(paths, used.values(), strict=True)
    }


def put_down(source: Mapping[str, str], folder: Path) -> Path:
    """Writes the files that `source_of` told of into an empty folder; returns the path of the mapping. Raises OSError, and ValueError
    for paths that lead out of the folder, or if there is nothing to write.
    """
    if not source:
        raise ValueError("nothing of the mapping was kept")
    root = folder.resolve()
    for name, text in source.items():
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise ValueError(f"{name} leads out of the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root / next(iter(source))
