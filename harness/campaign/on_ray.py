"""A cluster of Ray judges the shards of a campaign: each is a task, which one of its nodes runs.

Ray does what a cluster needs: it starts tasks where processors are free, and runs those of a lost node again. A task
gives its campaign folder back, which is kept as soon as it is here. So an interrupted campaign continues with the
shards that are missing. What a shard finds follows from the seed alone, not from nodes or from how often it began.
"""

from __future__ import annotations

import errno
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from harness.campaign.folder import CampaignFolder, NoConfiguration, Options
from harness.campaign.shard import Shard
from harness.exit_status import FINDINGS, NOT_REACHED, NOTHING_FOUND
from harness.files import NotSaved
from harness.refusal import Refusal

FOLDERS = "shards"
"""Where shards are kept in the folder of their campaign."""

ATTEMPTS = 8
"""How often a task is run again whose node was lost."""

HERE = "local"
"""The address that asks for a cluster on this machine, which ends with the command."""

_COMMAND = "from harness.cli.main import main; main()"


class NoCluster(Refusal):
    """There is no Ray, or no cluster at the address; the message is one line that says why."""


class ShardFailed(Refusal):
    """A shard could not be judged; the message is one line that says why."""


class Cluster(msgspec.Struct, frozen=True):
    """Where tasks run: the address, how many processors and GPUs each asks for, and the folder that relative paths of
    the options are meant in, on nodes that have it."""

    address: str
    processors: int
    gpus: int
    folder: str


class Ended(msgspec.Struct, frozen=True):
    """A shard that has ended: its folder here, and the node that judged it (None: it was here before)."""

    shard: Shard
    folder: Path
    node: str | None


def shards_on_ray(options: Options, of: int, home: Path, cluster: Cluster) -> Iterator[Ended]:
    """Judge a campaign with these options in `of` shards, and yield each once its folder is in `home`/shards. Stops
    what runs if the caller does.

    Raises NoCluster, ShardFailed, and OSError for a folder that cannot be written."""
    waiting = []
    for shard in (Shard(number, of) for number in range(1, of + 1)):
        folder = home / FOLDERS / f"{shard.number}-of-{of}"
        if is_of(folder, {**options, "shard": str(shard)}):
            yield Ended(shard, folder, None)
        else:
            shutil.rmtree(folder, ignore_errors=True)  # of another campaign, or not whole
            waiting.append((shard, folder))
    if waiting:
        yield from _judged(options, waiting, cluster)


def is_of(folder: Path, options: Options) -> bool:
    """Whether a folder holds the campaign with these options."""
    try:
        return dict(CampaignFolder(folder).read().options) == dict(options)
    except NoConfiguration:
        return False


def _judged(options: Options, waiting: Sequence[tuple[Shard, Path]], cluster: Cluster) -> Iterator[Ended]:
    ray = _started(cluster.address)
    try:
        wanted = {"num_cpus": cluster.processors, "num_gpus": cluster.gpus, "max_retries": ATTEMPTS}
        task = ray.remote(judge_shard).options(**wanted)
        running = {
            task.remote({**options, "shard": str(shard)}, cluster.folder): (shard, folder) for shard, folder in waiting
        }
        try:
            while running:
                ready, _ = ray.wait(list(running), num_returns=1)
                shard, folder = running.pop(ready[0])
                try:
                    packed, node, refused = ray.get(ready[0])
                except ray.exceptions.RayError as error:
                    raise ShardFailed(f"shard {shard}: {' '.join(str(error).split())[:200]}") from error
                if refused:
                    raise ShardFailed(f"shard {shard}, on {node}: {refused}")
                unpack(packed, folder)
                yield Ended(shard, folder, node)
        finally:
            for one in running:
                ray.cancel(one, force=True)
    finally:
        ray.shutdown()


def _started(address: str) -> Any:
    """Ray, connected. Raises NoCluster."""
    try:
        import ray
    except ImportError as error:
        raise NoCluster("--ray needs the package ray: pip install 'mamba-migration-harness[ray]'") from error
    try:
        ray.init(
            address=None if address == HERE else address,
            include_dashboard=False if address == HERE else None,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (ConnectionError, ValueError, RuntimeError, TimeoutError, OSError) as error:
        raise NoCluster(f"--ray {address}: no cluster there: {' '.join(str(error).split())[:200]}") from error
    return ray


def judge_shard(options: dict[str, Any], here: str) -> tuple[bytes, str, str]:
    """The task: judge the shard that the options name, in a folder of the node. Relative paths are meant in `here`.
    Returns the folder, packed, the name of the node, and why there is none."""
    try:
        return _judge_shard(options, here if os.path.isdir(here) else None)
    except NotSaved as not_saved:
        return b"", platform.node(), str(not_saved.error)
    except OSError as error:
        return b"", platform.node(), str(error)


def _judge_shard(options: dict[str, Any], here: str | None) -> tuple[bytes, str, str]:
    with tempfile.TemporaryDirectory(prefix="harness-shard-") as place:
        folder = Path(place) / "campaign"
        CampaignFolder(folder).write(options)
        done = subprocess.run(
            [sys.executable, "-P", "-c", _COMMAND, "run", "--resume", str(folder), "--no-shrink"],
            cwd=here,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode not in (NOTHING_FOUND, FINDINGS, NOT_REACHED):
            last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-1:]
            return b"", platform.node(), f"status {done.returncode}: {' '.join(last)}"
        CampaignFolder(folder).write(options)  # those of this command are no part of the campaign
        return pack(folder), platform.node(), ""


def pack(folder: Path) -> bytes:
    """A folder's files as an archive."""
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.add(path, path.relative_to(folder))
    return into.getvalue()


def unpack(packed: bytes, folder: Path) -> None:
    """Write the folder of an archive, whole or not at all. Raises OSError, also for anything but files inside it.

    Early versions of Python 3.11 cannot be asked to refuse such members (`extractall(filter="data")`)."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or path.is_absolute() or ".." in path.parts:
                raise OSError(errno.EINVAL, "this is no file of a campaign", member.name)
            place = partial / path
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                shutil.copyfileobj(content, file)
    os.replace(partial, folder)
