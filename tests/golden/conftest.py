"""Fixtures are data: pytest would take a `test-stdout.txt` among them for a doctest."""

collect_ignore_glob = ["v1/*", "files/*"]
