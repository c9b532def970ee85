"""The rooms beside `harness` are never packages under their bare names: `kernels` is somebody else's import name."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("generators", "oracles", "kernels", "reports")

WHO_WINS = """
import importlib.util
spec = importlib.util.find_spec("kernels")
print(spec.origin if spec is not None else None)
"""


@pytest.mark.parametrize("room", ROOMS)
def test_no_folder_of_a_room_is_a_regular_package(room: str) -> None:
    assert (ROOT / room).is_dir()
    assert not list((ROOT / room).rglob("__init__.py"))
    link = ROOT / "harness" / room
    assert link.is_symlink()
    assert link.resolve() == ROOT / room


@pytest.mark.parametrize("room", ROOMS)
def test_a_bare_room_is_at_most_a_folder_without_code(room: str) -> None:
    code = f"import importlib.util as u; s = u.find_spec({room!r}); print(s is None or s.origin is None)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "True\n"


def test_an_installed_package_called_kernels_wins_in_our_own_root(tmp_path: Path) -> None:
    """Also where Python starts in the repository: a regular package further back on the path beats a bare folder."""
    package = tmp_path / "site" / "kernels"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    code = f"import sys; sys.path.append({str(package.parent)!r})\n" + WHO_WINS
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(package / "__init__.py")


def test_rooms_are_importable_from_elsewhere(tmp_path: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import harness.generators.cases, harness.oracles.memory, harness.kernels.targets.registry, harness.reports.registry
assert not {{"generators", "oracles", "kernels", "reports"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, check=True)


@pytest.mark.slow
def test_a_wheel_holds_the_rooms_inside_harness_only(tmp_path: Path) -> None:
    """Built from the files under version control, and nothing that lies around."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("needs a checkout")
    listed = subprocess.run([git, "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [name for name in listed.splitlines() if (ROOT / name).exists()]
    source = tmp_path / "source"
    for name in files:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*command, str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = next(archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    assert {name.split("/")[0] for name in names} == {"harness", wheel.name.rsplit("-", 3)[0] + ".dist-info"}
    assert "harness = harness.cli.main:main" in entry_points
    wanted = {
        name if name.startswith("harness/") else f"harness/{name}"
        for name in files
        if name.endswith(".py") and name.split("/")[0] in ("harness", *ROOMS)
    }
    assert wanted <= set(names)
    assert not [name for name in names if name.startswith("harness/tests")]
