"""The registry of forms: ours, and those of other packages, through the entry-point group
`mamba_migration_harness.forms`.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.export.byte_script import BYTE_SCRIPT
from harness.export.form import Form, NotExportable, Request
from harness.export.pytest_function import PYTEST_FUNCTION
from harness.registry import Registry

OURS = (BYTE_SCRIPT, PYTEST_FUNCTION)

REGISTRY: Registry[Form] = Registry(Form, "form", "mamba_migration_harness.forms", OURS, NotExportable)


def forms() -> Mapping[str, Form]:
    """All forms by name."""
    return REGISTRY.table


def export(name: str, request: Request) -> str:
    """The finding of a request in a form. Raises NotExportable, with one line."""
    form = REGISTRY.named(name)
    if request.kind not in form.kinds:
        takes = " and ".join(WORDS.get(kind, kind) for kind in form.kinds)
        raise NotExportable(f"{request.file}: {name} is for {takes}, and this file holds a {_one(request.kind)}")
    return form.text(request)


WORDS = {"case": "kernel cases", "sequence": "step sequences"}


def _one(kind: str) -> str:
    return WORDS.get(kind, kind).removesuffix("s")
