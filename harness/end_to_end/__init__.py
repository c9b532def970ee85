"""End to end: a release's whole engine on the CPU, with a tiny model whose tokens show whether its states are right."""
