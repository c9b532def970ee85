"""A copy of a release is a new folder with all of its Python files, for somebody who wants to edit them: the target
`path:FOLDER`. The cache is not edited: its files have checksums, and other targets share them.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

from harness.kernels.targets.downloading import Announce
from harness.kernels.targets.releases import check_version, release
from harness.kernels.targets.vllm.sources import VLLM_WHOLE


def copy_release(version: str, folder: Path, announce: Announce | None = None) -> None:
    """Copy the Python files of a release into `folder`, which must not exist or be empty: all of them or none. The
    release is downloaded first unless all of its files are in the cache. Raises UnknownTarget, and OSError that names
    the folder."""
    check_version(VLLM_WHOLE, version)
    _require_new(folder)
    source = release(VLLM_WHOLE, version, announce)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as work:
            tree = Path(work) / "tree"
            for file in source.manifest.files:
                to = tree / file
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source.directory / file, to)
            os.replace(tree, folder)  # takes the place of an empty folder
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(folder)) from error


def _require_new(folder: Path) -> None:
    """Raise OSError if something is there that a copy would be mixed with."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    if folder.is_dir() and any(folder.iterdir()):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(folder))
