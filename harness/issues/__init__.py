"""Known issues: faults of released code, a file each."""
