"""Sandboxes by bubblewrap: Linux namespaces, no engine, a start in milliseconds.

The host's system folders are seen read-only; workspace, /tmp, /logs and HOME are folders below the
sandbox's scratch folder, so they stay between phases. Each phase has namespaces of its own (user,
process, mount, IPC, host name, control group, and network unless it is allowed); when its first
process ends, the kernel ends all that is left in them. Inside, there is one user: the engine's,
without any privilege.
"""

from .backend import BubblewrapBackend as BubblewrapBackend
from .backend import usable as usable
from .interactive import exec_in as exec_in
