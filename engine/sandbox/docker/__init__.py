"""Sandboxes on a container engine: Docker, or Podman by its socket."""

from .backend import DockerBackend as DockerBackend
from .kept import exec_in as exec_in
