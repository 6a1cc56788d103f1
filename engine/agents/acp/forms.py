"""The protocol's package: the forms of messages, and the bookkeeping of requests.

It is an extra, and slow to import, so nothing that runs before an agent does imports this.
"""

from acp import PROTOCOL_VERSION as PROTOCOL_VERSION
from acp import RequestError as RequestError
from acp import schema as schema
from acp.connection import Connection as Connection
from pydantic import ValidationError as ValidationError
