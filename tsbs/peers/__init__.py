"""What `make tsbs` compares: us, and the databases that the registries have."""

from .chdb import ChDb
from .duckdb import DuckDb
from .postgres import Postgres
from .questdb import QuestDb
from .stratalog import Stratalog

PEERS = {"questdb": QuestDb, "duckdb": DuckDb, "chdb": ChDb, "postgresql": Postgres}

__all__ = ["PEERS", "Stratalog"]
