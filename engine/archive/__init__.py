"""Trees of files as archives: the same tree gives the same bytes, and a hostile one does no harm.

An archive is a tar (pax format) compressed with zstd. All functions block; call them in a worker
thread. They notice when the task that waits for the thread was cancelled, and stop.
"""

from .copying import copy_out as copy_out
from .members import Member as Member
from .members import members as members
from .members import read_member as read_member
from .pack import pack_folder as pack_folder
from .placing import place_file as place_file
from .placing import tar_at as tar_at
from .placing import tar_of as tar_of
from .removal import remove_tree as remove_tree
from .repack import pack_tar as pack_tar
from .secret_search import find_secrets_in_archive as find_secrets_in_archive
from .unpack import unpack as unpack
