"""Protected pytest: a pytest that this project brings, for tasks that ask for it.

A task asks by the text ``$TRIALOG_PYTEST`` (or ``$BENCHFLOW_PYTEST``) in its verifier's folder or
env. Then the variable names a program that runs the tests of the verifier's folder, by the image's
own root-owned python3, and nothing of the agent's steers it.
"""
