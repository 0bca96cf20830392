"""The logs that `tsbs/log` measures side by side: ours, and those that Maven has."""

from .bookkeeper import BookKeeper
from .kafka import Kafka
from .ours import Stratalog

PEERS = {"kafka": Kafka, "bookkeeper": BookKeeper}

__all__ = ["PEERS", "Stratalog"]
