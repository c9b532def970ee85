"""A requirement is a range of versions of a package, from the metadata of an installed package: what this project works
with, and which triton a build of torch was made with.

pip checks both when it installs, but a later install of something else may move a package out of its range.
"""

from __future__ import annotations

import importlib.metadata

from packaging.requirements import InvalidRequirement, Requirement

PROJECT = "mamba-migration-harness"


def unmet(*packages: str) -> str | None:
    """Why the installed versions of `packages` do not let this project run, in one line that names those that would;
    None if they do. Reads only metadata: nothing is imported."""
    ours = _requirements_of(PROJECT)
    for package in packages:
        installed = _version(package)
        wanted = ours.get(package)
        if installed is None:
            return f"{package} is not installed" + (f": the harness needs {wanted}" if wanted is not None else "")
        if wanted is not None and not wanted.specifier.contains(installed, prereleases=True):
            return f"{package} {installed} does not fit: the harness needs {wanted}{_also_required(package)}"
    return None


def disagreements() -> tuple[str, ...]:
    """A line for each package of which another one requires a version other than the installed one: torch and triton.
    It is reported and not refused."""
    torch, triton = _version("torch"), _version("triton")
    wanted = _requirements_of("torch").get("triton")
    if torch is None or triton is None or wanted is None or wanted.specifier.contains(triton, prereleases=True):
        return ()
    return (f"triton {triton} does not go with torch {torch}, which requires {wanted}",)


def _also_required(package: str) -> str:
    """What else a triton that fits has to fit."""
    torch, wanted = _version("torch"), _requirements_of("torch").get("triton")
    return f" (torch {torch} requires {wanted})" if package == "triton" and torch and wanted else ""


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _requirements_of(package: str) -> dict[str, Requirement]:
    """The requirements of an installed package in this environment, by name, without extras and markers; empty if it is
    not installed, as when this project runs from a checkout that is only on the path."""
    try:
        lines = importlib.metadata.requires(package) or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = {}
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:  # invalid metadata of another package: its requirement is unknown
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            requirement.marker = None
            found[requirement.name] = requirement
    return found
