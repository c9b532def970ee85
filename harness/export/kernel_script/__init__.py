"""Parts of the scripts that show a finding of kernels without the harness.

They are ordinary modules, so that they are checked and tested like all others; `composing.py` puts those that a case
needs into one file. So they import nothing but Python, torch, triton and the vLLM under test, and nothing from each
other but by `from harness.export.kernel_script.NAME import ...`, which composing leaves out.
"""
