"""Python text is what a source file says as Python reads it: in the encoding that the file names, without a byte order
mark, its lines ended by `\\n`."""

from __future__ import annotations

import tokenize
from pathlib import Path


class NotPythonText(Exception):
    """A file that Python cannot read either; the message says why."""


def python_text(path: Path) -> str:
    """The text of a file. Raises OSError, or NotPythonText."""
    try:
        with tokenize.open(path) as stream:
            return stream.read()
    except UnicodeDecodeError as error:
        raise NotPythonText(f"not {error.encoding.upper()} text") from error
    except SyntaxError as error:  # of the line that names the encoding
        raise NotPythonText(str(error.msg)) from error
