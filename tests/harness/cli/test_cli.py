"""The command line: quick to start, one line and status 2 for any mistake that a user can fix, one object for
machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.case import Case
from harness.repro import read_repro, write_repro

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Command = Callable[..., tuple[int, str, str]]

SUMMARY_KEYS = {
    "seed",
    "target",
    "executor",
    "engine",
    "domain",
    "cases",
    "judged",
    "skipped",
    "launches",
    "seconds",
    "cases_per_second",
    "regimes",
    "findings",
    "exit_status",
}
FINDING_KEYS = {"signature", "summary", "domain", "first_case", "repro", "shrink"}
COMMANDS = (
    "run",
    "known",
    "diff",
    "corpus",
    "config",
    "replay",
    "shrink",
    "show",
    "targets",
    "doctor",
    "demo",
    "sweep",
    "cache",
    "bench",
    "names",
)

MODULES = """
import sys
from harness.cli.main import main
try:
    main()
except SystemExit as end:
    status = end.code or 0
heavy = [name for name in ("torch", "triton", "llvmlite", "vllm", "hypothesis") if name in sys.modules]
print("HEAVY", heavy, status, file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["replay", "--help"], ["show"], ["targets"]])
def test_quick_commands_import_nothing_heavy(arguments: list[str], frozen: Path) -> None:
    """Help, `show` and `targets` must not wait for torch or triton."""
    if arguments == ["show"]:
        arguments = ["show", str(frozen / "wrong-group-minimal.json")]
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-P", "-c", MODULES, *arguments],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr.splitlines()[-1] == "HEAVY [] 0"
    assert result.stdout


def test_the_help_names_every_command_and_status(command: Command) -> None:
    status, out, err = command("--help")
    assert (status, err) == (0, "")
    for name in COMMANDS:
        assert f"\n  {name} " in out
    for status_line in (
        "0 nothing found or FIXED; 1 findings or FAILED; 2 bad usage",
        "; 130 interrupted; 141 the output was not read; 143 ended by SIGTERM.",
    ):
        assert status_line in " ".join(out.split())
    assert "..." not in out.partition("Commands:")[2], "no command is described by half a sentence"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(command: Command, name: str) -> None:
    status, out, err = command(name, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"Usage: harness {name} ")


def test_the_version(command: Command) -> None:
    from harness import __version__

    assert command("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "-t", "nonsense"], "unknown target 'nonsense'"),
        (["run", "-t", "builtin+nonsense"], "unknown fault 'nonsense'"),
        (["run", "-t", "builtin+wrong-group+wrong-group"], "named twice"),
        (["run", "-t", "path:/nonexistent/folder"], "/nonexistent/folder"),
        (["run", "-t", "vllm==0.1.0"], "0.1.0"),
        (["run", "-t", "builtin", "-e", "nonsense"], "unknown executor 'nonsense'"),
        (["run", "--nonsense"], "--nonsense"),
        (["run", "surplus"], "surplus"),
        (["run", "--budget", "5x"], "'5x' is not a duration"),
        (["run", "--budget", "0s"], "--budget 0 judges nothing"),
        (["run", "--budget", "9" * 400], "is not a duration"),
        (["run", "--budget", "-3"], "is not a duration"),
        *(
            (["run", "--memory-limit", size], f"{size!r} is not a size: write 2GB")
            for size in ("lots", "5", "5X", "-1GB", "0MB", "9" * 13 + "GB")
        ),
        (["run", "--cases", "0"], "--cases"),
        (["run", "--cases", "x"], "--cases"),
        (["run", "--cases", "3", "--budget", "3s"], "exclude each other"),
        (["run", "--seed", "-1"], "--seed"),
        (["run", "--seed", str(2**63)], "--seed"),
        (["run", "--workers", "0"], "--workers"),
        (["run", "--ops", "nonsense"], "unknown operation"),
        (["run", "--ops", "postproces"], "unknown operation 'postproces'; did you mean 'postprocess'?; known: "),
        (["run", "--require", "padded-pages"], "did you mean 'padded-page'?"),
        (["run", "--relations", "repetitions"], "did you mean 'repetition'?"),
        (["run", "--relations", "smaple"], "did you mean 'sample'?"),
        (["run", "--ops", "sequences", "--fixes", "padded-fresh-rows"], "did you mean 'padded-fresh-row'?"),
        (["run", "--ops", "sequences", "--fixes", "all,padded-fresh-row"], "'all' must be alone"),
        (["run", "--ops", "sequences", "--fixes", "none", "--include-known"], "--include-known and --fixes exclude"),
        (["run", "--fixes", "none"], "only with --ops sequences"),
        (["run", "-t", "builtin+wrong-groups"], "did you mean 'wrong-group'?"),
        (["run", "-t", "biultin"], "did you mean 'builtin'?"),
        (["run", "-t", "../somewhere"], "for a checkout write 'path:../somewhere'"),
        (["run", "-t", "0.33.0"], "for a release write 'vllm==0.33.0'"),
        (["run", "-e", "nativ"], "did you mean 'native'?"),
        (["run", "--checks", "race"], "did you mean 'races'?"),
        (["run", "--domain", "reachabel"], "did you mean 'reachable'?"),
        (["run", "--include-known"], "--include-known: only with --ops sequences"),
        (["run", "--resume", "--out", "empty"], "there is no empty/cases.journal to resume from"),
        (["run", "--resume", "--engine", "hypothesis"], "the hypothesis engine cannot resume"),
        (["run", "--pins", "runner=V1"], "--pins: only with --ops sequences"),
        (["run", "--ops", "sequences", "--pins", "block_size=5"], "unknown block_size '5'; known: 4, 6, 8,"),
        (
            ["run", "--ops", "sequences", "--pins", "runner=V3"],
            "unknown runner 'V3'; known: V1, V2",
        ),
        (["run", "--ops", "sequences", "--pins", "tight=yes"], "unknown tight 'yes'; known: true, false"),
        (["run", "--ops", "sequences", "--pins", f"block_size={10**30}"], "'--pins'"),
        (["run", "--ops", "sequences", "--pins", "runner=V1,runner=V2"], "runner is pinned twice"),
        (["run", "--bytes", "--cases-out", "x"], "--bytes and --cases-out: only with --ops sequences"),
        (["run", "--ops", "sequences", "--domain", "total"], "--domain: not with step sequences alone"),
        (["run", "--ops", "sequences", "--scale", "small", "--order", "natural"], "--scale and --order: not with"),
        (["run", "--ops", "sequences", "--require", "decode"], "--require: not with step sequences"),
        (["run", "--ops", "sequences", "-e", "native"], "only with --bytes"),
        (["run", "--ops", ""], "unknown operation"),
        (["run", "--domain", "nonsense"], "unknown domain 'nonsense'"),
        (["run", "--require", "nonsense"], "unknown regime 'nonsense'"),
        (["run", "--scale", "nonsense"], "unknown scale 'nonsense'"),
        (["replay"], "file"),
        (["replay", "/nonexistent.json"], "/nonexistent.json: no such file"),
        (["shrink", "/nonexistent.json"], "/nonexistent.json: no such file"),
        (["show", "/nonexistent.json"], "/nonexistent.json: no such file"),
        (["names", "nonsense"], "unknown kind of names 'nonsense'"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_user_can_fix_is_one_line(
    command: Command, arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("harness: ")
    assert err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.glob("findings*"))


def test_an_executor_that_cannot_run_here(harness: Run, tmp_path: Path) -> None:
    result = harness("run", "-t", "builtin", "-e", "cuda", "--cases", 1, CUDA_VISIBLE_DEVICES="")
    assert (result.returncode, result.stdout.count("found"), result.stderr.count("\n")) == (2, 0, 1)
    assert result.stderr.startswith("harness: executor cuda is not available: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["builtin", "builtin+wrong-group"])
def test_an_output_folder_that_cannot_be_written(
    command: Command, tmp_path: Path, executor_name: str, target: str
) -> None:
    """Reported at once, whether or not there will be something to write."""
    (tmp_path / "file").write_text("mine")
    status, out, err = command("run", "-t", target, "-e", executor_name, "--out", tmp_path / "file" / "findings")
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith(f"harness: {tmp_path / 'file'}: ")
    assert "found" not in out
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "-t", "builtin", "--out", "/proc/x"],
        ["run", "--ops", "sequences", "--out", "/proc/x/y"],
        ["run", "--ops", "sequences", "--bytes", "--cases-out", "/proc/x"],
        ["run", "--targets", "builtin,vllm>=0.33", "--out", "/proc/x"],
        ["shrink", "FILE", "--out", "/proc/x.json"],
        ["demo", "--out", "/proc/x"],
    ],
    ids=" ".join,
)
def test_where_not_even_a_superuser_can_write(
    command: Command, frozen: Path, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reported before any case: checking permissions is not enough."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    file = str(frozen / "wrong-group-minimal.json")
    status, out, err = command(*(file if argument == "FILE" else argument for argument in arguments))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("harness: /proc: no file can be written here: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_no_probe_is_left_where_nothing_is_found(
    command: Command, executor_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "-t", "builtin", "-e", executor_name, "--cases", 1, "--scale", "small", "--ops", "all"]
    assert command(*arguments)[0] in (0, 3)
    left = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    names = ("case.ending.json", "case.remembered", "configuration.json", "lock", "stats.json")
    own = ["findings/campaign", *(f"findings/campaign/{name}" for name in names)]
    assert sorted(left) == ["findings", *own, "findings/cases.journal"]


@pytest.mark.parametrize("name", ["show", "replay", "shrink", "sweep"])
def test_a_byte_order_mark_is_ignored(command: Command, frozen: Path, tmp_path: Path, name: str) -> None:
    """Some editors put one at the start of a file: the file is read, and here its case is refused."""
    text = (frozen / "wrong-group-minimal.json").read_bytes().replace(b'"version": 1', b'"version": 99')
    (tmp_path / "bug.json").write_bytes(b"\xef\xbb\xbf" + text)
    status, out, err = command(name, tmp_path / "bug.json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "`$.case.version`" in err


@pytest.mark.long
@pytest.mark.parametrize("name", ["show", "replay", "shrink"])
def test_what_is_outside_the_preconditions_is_refused_as_a_whole(
    command: Command, frozen: Path, executor_name: str, tmp_path: Path, name: str, make_case: Callable[..., Case]
) -> None:
    repro = read_repro(frozen / "wrong-group-minimal.json")
    outside = make_case(tables=(((1, 2),), ((2, 1),)))
    write_repro(tmp_path / "bug.json", msgspec.structs.replace(repro, case=outside))
    choice = () if name == "show" else ("-t", "builtin", "-e", executor_name)
    status, out, err = command(name, tmp_path / "bug.json", *choice)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"harness: {tmp_path / 'bug.json'}: ")


@pytest.mark.long
def test_a_run_for_machines(harness: Run, executor_name: str, tmp_path: Path) -> None:
    result = harness(
        "run", "-t", "builtin+wrong-group", "-e", executor_name, "--cases", 32, "--scale", "small", "--json"
    )
    assert result.returncode == 1
    assert result.stdout.count("\n") == 1
    summary = json.loads(result.stdout)
    assert set(summary) >= SUMMARY_KEYS
    assert summary["exit_status"] == 1
    assert (summary["seed"], summary["target"], summary["executor"]) == (0, "builtin+wrong-group", executor_name)
    assert (summary["engine"], summary["domain"], summary["cases"]) == ("random", "both", 32)
    assert summary["launches"] > 0
    assert summary["cases_per_second"] > 0
    assert isinstance(summary["regimes"], dict)
    assert summary["findings"]
    for finding in summary["findings"]:
        assert set(finding) >= FINDING_KEYS
        repro = read_repro(tmp_path / finding["repro"])
        assert str(repro.signature) == finding["signature"]
        assert repro.evidence.summary == finding["summary"]
        if finding["shrink"] is not None:
            assert set(finding["shrink"]) >= {"executions", "seconds"}
            assert repro.shrink is not None
            assert repro.shrink.executions == finding["shrink"]["executions"]
    assert any(finding["shrink"] is not None for finding in summary["findings"])


@pytest.mark.long
def test_piped_output_is_plain(harness: Run, executor_name: str, tmp_path: Path) -> None:
    result = harness("run", "-t", "builtin+wrong-group", "-e", executor_name, "--cases", 16, "--scale", "small")
    assert result.returncode == 1
    assert "\x1b" not in result.stdout + result.stderr
    assert "\r" not in result.stdout
    lines = result.stdout.splitlines()
    assert any(line.startswith("found ") for line in lines)
    assert any(line.startswith("finding ") for line in lines)
    assert any(line.startswith("16 cases in ") for line in lines)


@pytest.mark.long
def test_shrinking_what_was_drawn(harness: Run, executor_name: str, frozen: Path, tmp_path: Path) -> None:
    drawn = frozen / "wrong-group-as-drawn.json"
    text = drawn.read_bytes()
    result = harness("shrink", drawn, "-e", executor_name, "--out", tmp_path / "small.json")
    assert (result.returncode, result.stderr) == (1, "")
    smaller = read_repro(tmp_path / "small.json")
    assert smaller.signature == read_repro(drawn).signature
    assert smaller.case.layout.num_states == 2
    assert smaller.shrink is not None
    assert smaller.shrink.complete
    assert (smaller.origin.seed, smaller.origin.index) == (
        read_repro(drawn).origin.seed,
        read_repro(drawn).origin.index,
    )
    assert drawn.read_bytes() == text
    assert [path.name for path in tmp_path.iterdir()] == ["small.json"]
    again = harness("shrink", tmp_path / "small.json", "-e", executor_name, "--json")
    assert again.returncode == 1
    answer = json.loads(again.stdout)
    assert answer["repro"] == str(tmp_path / "small.json")
    assert [path.name for path in tmp_path.iterdir()] == ["small.json"], "it was minimal already"


@pytest.mark.long
def test_shrinking_what_is_fixed_writes_nothing(harness: Run, executor_name: str, frozen: Path, tmp_path: Path) -> None:
    result = harness(
        "shrink", frozen / "wrong-group-minimal.json", "-t", "builtin", "-e", executor_name, "--out", "small.json"
    )
    assert result.returncode == 0
    assert "FIXED" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("folder", "folder: Is a directory"),
        ("file/small.json", "file: Not a directory"),
        ("pipe", "pipe: not a regular file, and would be replaced by one"),
    ],
)
def test_shrinking_refuses_a_place_for_the_result_before_it_works(
    command: Command, frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, message: str
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("harness.worker.process.WorkerProcess.__init__", work)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    status, printed, err = command("shrink", frozen / "wrong-group-as-drawn.json", "--out", tmp_path / out)
    assert (status, printed, err) == (2, "", f"harness: {tmp_path / message}\n")
    assert (tmp_path / "file").read_text() == "mine"
    assert list((tmp_path / "folder").iterdir()) == []
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("kind", ["operations", "regimes", "relations", "fixes", "issues", "faults", "pins"])
def test_names_are_listed(command: Command, kind: str) -> None:
    from harness.cli.case_options import OPERATIONS
    from harness.generators.sequences.configurations import Pins
    from harness.issues.registry import KNOWN_ISSUES, SEQUENCE_ISSUES
    from harness.oracles.relations.registry import relations
    from harness.regimes import REGIMES
    from harness.sequences.faults import FAULTS

    wanted = {
        "operations": {*OPERATIONS, "sequences"},
        "regimes": set(REGIMES),
        "relations": set(relations()),
        "fixes": {issue.name for issue in SEQUENCE_ISSUES},
        "issues": {issue.name for issue in KNOWN_ISSUES},
        "faults": set(FAULTS),
        "pins": set(Pins.__struct_fields__),
    }[kind]
    status, out, err = command("names", kind, "--json")
    assert (status, err) == (0, "")
    listed = json.loads(out)
    assert set(listed) == {kind}
    assert set(listed[kind]) == wanted
    assert all(listed[kind].values()), "each with a summary"
    status, out, err = command("names")
    assert (status, err) == (0, "")
    assert wanted <= {line.split()[0] for line in out.splitlines() if line}


@pytest.mark.parametrize("columns", [80, 30, None], ids=["80 columns", "too narrow", "in a pipe"])
@pytest.mark.parametrize("name", ["targets", "names"])
def test_listings_fit_the_terminal(
    command: Command, monkeypatch: pytest.MonkeyPatch, name: str, columns: int | None
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("os.get_terminal_size", lambda *_: os.terminal_size((columns or 0, 24)))
    status, out, err = command(name)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    entries = [line for line in lines if line.startswith("  ") and not line.startswith("   ")]
    if columns == 80:
        assert max(map(len, lines)) <= 80
        assert len(entries) < sum(line.startswith("  ") for line in lines)
    elif columns is None:
        assert len(entries) == sum(line.startswith("  ") for line in lines)
    if name == "targets":
        assert "Faults, planted as TARGET+NAME" in lines
        texts = [line for line in lines[1 : lines.index("")] if line.startswith("  ")]
        column = len("  path:DIRECTORY  ")
        assert {line[column - 1 : column] for line in texts} == {" "}
        assert " " not in {line[column : column + 1] for line in texts}


def test_a_demo_that_misses_its_planted_fault_is_a_failure_of_the_harness(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("harness.cli.demo.follow", lambda subject, settings, report: 0)
    status, _, err = command("demo", "-t", "builtin", "--out", tmp_path)
    assert status == 4
    assert err.startswith("the planted fault of builtin+wrong-group was not found\n")


def test_show_describes_a_case(command: Command, frozen: Path) -> None:
    file = frozen / "wrong-group-minimal.json"
    status, out, err = command("show", file)
    assert (status, err) == (0, "")
    repro = read_repro(file)
    assert str(repro.signature) in out
    assert f"{repro.evidence.differences[0].place}: " in out
    assert "from column 0 to column 1" in out
    assert "block 3 -> block 4" in out
    assert "\x1b" not in out


def test_targets(command: Command) -> None:
    status, out, err = command("targets")
    assert (status, err) == (0, "")
    assert "builtin" in out
    assert "wrong-group" in out
    status, out, err = command("targets", "--json")
    listed = json.loads(out)
    assert {target["name"] for target in listed["targets"]} >= {"builtin"}
    assert "temporal-size" in listed["mutations"]


@pytest.mark.long
def test_doctor(harness: Run, executor_name: str) -> None:
    result = harness("doctor")
    assert (result.returncode, result.stderr) == (0, "")
    assert f"executor {executor_name}" in result.stdout
    result = harness("doctor", "--json")
    report = json.loads(result.stdout)
    assert report["executors"][executor_name] is None
    assert report["packages"]["torch"]


CASES = """
import hashlib
from harness.case import encode_case
from harness.engines.random import Recipe, case_at
digest = hashlib.sha256()
for domain in ("reachable", "total"):
    for scale in ("small", "full"):
        recipe = Recipe(seed=11, domains=(domain,), operations=("postprocess", "precopy"), scale=scale)
        for index in (*range(40), 999, 10**9):
            digest.update(encode_case(case_at(recipe, index)))
print(digest.hexdigest())
"""


def test_processes_draw_the_same_cases_byte_for_byte() -> None:
    root = Path(__file__).parents[3]

    def digest(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-P", "-c", CASES],
            env={**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert digest("0") == digest("12345")


@pytest.mark.parametrize(
    ("option", "text", "word"),
    [
        ("--ops", "all,precopy", "all"),
        ("--checks", "none,memory", "none"),
        ("--relations", "poison-patterns,all", "all"),
    ],
)
def test_a_word_for_a_whole_list_must_be_alone(harness: Run, option: str, text: str, word: str) -> None:
    done = harness("run", "--target", "builtin", option, text, "--cases", 1)
    assert done.returncode == 2
    assert f"'{word}' must be alone" in done.stderr
    assert "unknown" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "-t", "builtin", "--cases", "1"],
        ["demo", "-t", "builtin"],
        ["merge", "shard-1"],
        ["shrink", "bug.json"],
        ["export", "bug.json", "--as", "issue"],
    ],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize("empty", [["--out", ""], ["--out="]])
def test_an_empty_path_is_not_the_current_folder(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], empty: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = command(*arguments, *empty)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "'--out': it is empty: name a file or folder" in err
    assert not list(tmp_path.iterdir())


def test_show_takes_several_files_and_folders(command: Command, frozen: Path, tmp_path: Path) -> None:
    names = ("wrong-group-minimal.json", "wrong-group-as-drawn.json")
    for name in names:
        (tmp_path / name).write_bytes((frozen / name).read_bytes())
    status, together, err = command("show", tmp_path, frozen / names[0])
    assert (status, err) == (0, "")
    alone = [command("show", file)[1] for file in (*sorted(tmp_path.glob("*.json")), frozen / names[0])]
    assert together == f"\n{'=' * 80}\n\n".join(alone)


@pytest.mark.parametrize("wrong", ["none.json", "empty"])
def test_show_reads_all_before_it_prints_one(command: Command, frozen: Path, tmp_path: Path, wrong: str) -> None:
    (tmp_path / "empty").mkdir()
    status, out, err = command("show", frozen / "wrong-group-minimal.json", tmp_path / wrong)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert wrong in err
