"""Worker processes: judging happens in a child, so that a crash or a hang costs only one case, not the campaign."""
