"""The cache directory is where the harness keeps files that it can create again: module sources, compiled
objects.

There is one directory for all, so that a user can move it (environment variable HARNESS_CACHE_DIR) or delete it.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import platformdirs

ENVIRONMENT_VARIABLE = "HARNESS_CACHE_DIR"


def cache_directory() -> Path:
    """The user's cache directory of the harness, made if it is missing.

    If the usual one cannot be written: a temporary directory of this process and its workers, removed at its end.
    """
    chosen = os.environ.get(ENVIRONMENT_VARIABLE) or platformdirs.user_cache_dir("mamba-migration-harness")
    return _writable(Path(chosen))


@functools.cache
def _writable(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError:
        private = Path(tempfile.mkdtemp(prefix="mamba-migration-harness-"))
        atexit.register(shutil.rmtree, private, ignore_errors=True)
        warnings.warn(f"{directory} cannot be written: nothing is kept in the cache this time", stacklevel=3)
        return private
