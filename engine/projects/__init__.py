"""Projects: a folder with trialog.yaml, and one folder a resource."""
