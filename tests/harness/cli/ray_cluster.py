"""Runs a `harness` command on a cluster of three nodes on this machine, of which one is lost meanwhile.

The arguments are the number of shards, the folder of the campaign, and the words after `python` of the command line."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster


def main() -> None:
    shards, out, *words = sys.argv[1:]
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    lost, _ = (cluster.add_node(num_cpus=1) for _ in range(2))
    more = ["--ray", cluster.address, "--shards", shards, "--out", out]
    running = subprocess.Popen([sys.executable, *words, *more], stdin=subprocess.DEVNULL)
    while running.poll() is None and not list(Path(out).glob("shards/*")):
        time.sleep(0.1)
    if running.poll() is None:  # others are being judged
        cluster.remove_node(lost, allow_graceful=False)
        print("lost a node", file=sys.stderr, flush=True)
    status = running.wait()
    cluster.shutdown()
    sys.exit(status)


main()
