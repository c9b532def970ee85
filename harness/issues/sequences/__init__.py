"""Known issues of step sequences, each with its fix."""
