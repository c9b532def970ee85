"""What runs inside an engine's own environment: vLLM is imported here, and of the harness only what the table of
docs/design.md says."""
