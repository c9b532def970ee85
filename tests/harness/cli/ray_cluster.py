"""Runs a `harness` command on a cluster of three nodes on this machine, of which one is lost meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster

SHARDS = 6


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    lost, _ = (cluster.add_node(num_cpus=1) for _ in range(2))
    out = Path("many")
    more = ["--ray", cluster.address, "--shards", str(SHARDS), "--out", str(out), "--json", "--no-shrink"]
    running = subprocess.Popen([sys.executable, *sys.argv[1:], *more], stdin=subprocess.DEVNULL)
    while running.poll() is None and not list(out.glob("shards/*")):
        time.sleep(0.1)
    if running.poll() is None:  # others are being judged
        cluster.remove_node(lost, allow_graceful=False)
        print("lost a node", file=sys.stderr, flush=True)
    status = running.wait()
    cluster.shutdown()
    sys.exit(status)


main()
