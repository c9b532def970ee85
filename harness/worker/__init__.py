"""Worker processes: judging happens in a child, so that a crash or a hang costs one case and not the campaign."""
