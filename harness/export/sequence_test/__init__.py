"""Parts of the tests that show a finding of step sequences with a release's own scheduler, and without the harness.

As those of `harness.export.kernel_script`: ordinary modules, of which `composing.py` makes one file. They import
nothing but Python, pytest and the vLLM under test.
"""
