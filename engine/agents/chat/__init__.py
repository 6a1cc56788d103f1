"""The `chat` agent: a model that calls tools, in a loop that runs in the engine."""

from .agent import CHAT as CHAT
from .agent import ChatAgent as ChatAgent
from .policy import ChatPolicy as ChatPolicy
