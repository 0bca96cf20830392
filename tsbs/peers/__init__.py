"""The contenders of `make tsbs`: Stratalog, and databases from the registries."""

from .chdb import ChDb
from .duckdb import DuckDb
from .influxdb import InfluxDb
from .postgres import Postgres
from .questdb import QuestDb
from .stratalog import Stratalog
from .victoriametrics import VictoriaMetrics

PEERS = {"questdb": QuestDb, "duckdb": DuckDb, "chdb": ChDb, "postgresql": Postgres, "influxdb": InfluxDb,
         "victoriametrics": VictoriaMetrics}

__all__ = ["PEERS", "Stratalog"]
