"""The registry of forms: ours, and those of other packages, through the entry-point group
`mamba_migration_harness.forms`.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.export.byte_script import BYTE_SCRIPT
from harness.export.form import Form, NotExportable, Request
from harness.export.issue import ISSUE
from harness.export.pytest_function import PYTEST_FUNCTION
from harness.export.unit_test import UNIT_TEST
from harness.registry import Registry

OURS = (BYTE_SCRIPT, PYTEST_FUNCTION, UNIT_TEST, ISSUE)

REGISTRY: Registry[Form] = Registry(Form, "form", "mamba_migration_harness.forms", OURS, NotExportable)


def forms() -> Mapping[str, Form]:
    """All forms by name."""
    return REGISTRY.table


def export(name: str, request: Request) -> str:
    """The finding of a request in a form. Raises NotExportable, with one line."""
    return form_for(name, request.kind, request.file).text(request)


def form_for(name: str, kind: str, file: str) -> Form:
    """The form of that name. Raises NotExportable if there is none, or if it does not take files of that kind."""
    form = REGISTRY.named(name)
    if kind not in form.kinds:
        takes = " and ".join(WORDS.get(one, one) for one in form.kinds)
        raise NotExportable(f"{file}: {name} is for {takes}, and this file holds a {_one(kind)}")
    return form


WORDS = {"case": "kernel cases", "sequence": "step sequences", "engine": "whole-engine runs"}


def _one(kind: str) -> str:
    return WORDS.get(kind, kind).removesuffix("s")
