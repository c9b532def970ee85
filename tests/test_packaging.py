"""The rooms beside `harness` are never packages under their bare names: `kernels` is somebody else's import name."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("generators", "oracles", "kernels", "reports")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

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
import harness.generators.cases, harness.oracles.expected, harness.kernels.targets.registry, harness.reports.registry
assert not {{"generators", "oracles", "kernels", "reports"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, check=True)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The files under version control, and nothing else that lies around; their names."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("needs a checkout")
    listed = subprocess.run([git, "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [name for name in listed.splitlines() if (ROOT / name).exists()]
    folder = tmp_path_factory.mktemp("source")
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder, files


def build(source: Path, folder: Path, kind: str) -> Path:
    """A wheel or an sdist of some sources."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (built,) = folder.iterdir()
    return built


@pytest.mark.slow
def test_a_wheel_holds_the_rooms_inside_harness_only(source: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, files = source
    wheel = build(folder, tmp_path, "wheel")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = next(archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    assert {name.split("/")[0] for name in names} == {"harness", wheel.name.rsplit("-", 3)[0] + ".dist-info"}
    assert "harness = harness.cli.main:main" in entry_points
    wanted = {
        name if name.startswith("harness/") else f"harness/{name}"
        for name in files
        if name.endswith((".py", ".ll", ".html", ".txt")) and name.split("/")[0] in ("harness", *ROOMS)
    }
    assert wanted <= set(names)
    assert not [name for name in names if name.startswith("harness/tests")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_is_built_runs_without_the_clone(source: tuple[Path, list[str]], tmp_path: Path, kind: str) -> None:
    built, installed = build(source[0], tmp_path / "built", kind), tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([*pip, str(installed), str(built)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def run(*arguments: object) -> str:
        command = [sys.executable, "-P", "-c", "from harness.cli.main import main; main()", *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = [sys.executable, "-P", "-c", "import harness; print(harness.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(installed)
    assert "nothing found" in run("run", "-t", "builtin", "--cases", 40, "--out", "findings")
    assert "left-out-row" in run("names", "issues")
    run("replay", ROOT / "corpus" / "v2-accepted-race-temporal.json", "-t", "builtin")
    run("show", ROOT / "corpus" / "sequences" / "left-out-row.json")


@pytest.fixture
def resolving() -> ModuleType:
    """The script that resolves what the README installs."""
    spec = importlib.util.spec_from_file_location("resolving", ROOT / ".ci" / "resolve.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_constraints_are_within_the_bounds() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    asked = [*PROJECT["dependencies"], *(line for some in PROJECT["optional-dependencies"].values() for line in some)]
    requirements = {requirement.name: requirement for requirement in map(Requirement, asked)}
    assert {"torch", "triton", "llvmlite"} <= set(pinned) <= set(requirements)
    assert [name for name, version in pinned.items() if not requirements[name].specifier.contains(version)] == []


def test_what_is_resolved_is_what_the_readme_installs(resolving: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    whole, first = (f"'.[{extras}]'" for extras in resolving.EXTRAS)
    assert f"python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e {first} && " in readme
    assert f"`{whole}` instead of `{first}`" in " ".join(readme.split())
    supported = SpecifierSet(PROJECT["requires-python"])
    assert tuple(f"3.{minor}" for minor in range(30) if f"3.{minor}" in supported) == resolving.VERSIONS
    assert re.search(r"Python (3\.\d+) - (3\.\d+) on Linux", readme).groups() == (  # type: ignore[union-attr]
        resolving.VERSIONS[0],
        resolving.VERSIONS[-1],
    )


def test_resolving_takes_nothing_from_this_machine(
    resolving: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only how its index is reached."""
    configuration = tmp_path / "pip.conf"
    configuration.write_text(
        f"[global]\nindex-url = https://index.invalid/simple\nextra-index-url = file://{tmp_path}\n"
        f"proxy = http://proxy.invalid\nconstraint = {tmp_path}/pins.txt\nno-index = true\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    found = {name: value for name, value in resolving.fresh_environment().items() if name.startswith("PIP_")}
    for name in ("PIP_NO_COLOR", "PIP_DISABLE_PIP_VERSION_CHECK", "PIP_NO_INPUT"):
        assert found.pop(name) == "1"
    assert found.pop("PIP_CONFIG_FILE") == os.devnull
    assert found["PIP_INDEX_URL"] == "https://index.invalid/simple"
    assert found["PIP_PROXY"] == "http://proxy.invalid"
    assert {name for name in found if name not in reaching(resolving)} == set()
    configuration.write_text(f"[global]\nindex-url = file://{tmp_path}\n")
    monkeypatch.setenv("PIP_INDEX_URL", str(tmp_path))
    assert "PIP_INDEX_URL" not in resolving.fresh_environment()


def reaching(resolving: ModuleType) -> set[str]:
    return {f"PIP_{name.upper().replace('-', '_')}" for name in resolving.REACHING}


def test_resolving_tells_what_pip_says_of_a_conflict(resolving: ModuleType) -> None:
    said = (
        "Collecting triton==3.9.0\n\nThe conflict is caused by:\n    harness 0.1.0 depends on triton>=3.6\n"
        "    torch 2.13.0 depends on triton==3.7.1\n\nTo fix this you could try to:\n1. loosen the range\n"
    )
    done = subprocess.CompletedProcess([], 1, said, "ERROR: ResolutionImpossible\n")
    assert resolving.why(done).split("\n")[1:] == [
        "        harness 0.1.0 depends on triton>=3.6",
        "        torch 2.13.0 depends on triton==3.7.1",
    ]
    done = subprocess.CompletedProcess([], 1, "", "ERROR: no network\n")
    assert resolving.why(done) == "    ERROR: no network"


def test_resolving_notices_what_came_from_a_disk(resolving: ModuleType, tmp_path: Path) -> None:
    def entry(name: str, url: str) -> str:
        return f'{{"metadata": {{"name": "{name}"}}, "download_info": {{"url": "{url}"}}}}'

    report = tmp_path / "report.json"
    here, index = entry("harness", tmp_path.as_uri()), entry("numpy", "https://index.invalid/numpy.whl")
    report.write_text(f'{{"install": [{here}, {index}]}}')
    assert resolving.from_disk(report, tmp_path) is None
    report.write_text(f'{{"install": [{here}, {index}, {entry("torch", "file:///wheels/torch.whl")}]}}')
    assert resolving.from_disk(report, tmp_path) == "    from this machine's disk: torch"
