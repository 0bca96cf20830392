"""The logs that `tsbs/log` measures side by side: Stratalog, and the logs from Maven."""

from .bookkeeper import BookKeeper
from .kafka import Kafka
from .ours import Stratalog

PEERS = {"kafka": Kafka, "bookkeeper": BookKeeper}

__all__ = ["PEERS", "Stratalog"]
