"""Apache BookKeeper: a bookie with a synced journal, with the storage settings of Pulsar."""

from servers import free_port  # noqa: E402

from .jvm import Java, Server
from .load import told, words


class BookKeeper:
    name, way = "BookKeeper", "ensemble of 1, journalSyncData=true"

    def __init__(self, directory, _partitions):
        self.directory = directory
        self.java = Java("bookkeeper", ["Load", "Log", "BookKeeperLog", "BookKeeperServer"])

    def version(self):
        return self.java.version("bookkeeper-server")

    def start(self):
        self.directory.mkdir(parents=True)
        self.port = free_port()
        settings = {
            "allowLoopback": "true",
            "listeningInterface": "lo",
            "advertisedAddress": "127.0.0.1",
            "journalDirectory": self.directory / "journal",
            "ledgerDirectories": self.directory / "ledgers",
            "journalSyncData": "true",
            # Without this setting a single entry waits two milliseconds for further entries; many
            # entries are faster with it, too.
            "journalFlushWhenQueueEmpty": "true",
            "journalMaxBackups": 0,
            "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
        }
        path = self.directory / "bookie.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = self.java.command("BookKeeperServer", self.port, self.directory / "zookeeper", path)
        self.server = Server(command, self.directory / "log")
        self.server.wait(lambda: "\nready\n" in self.server.output())

    def load(self, load):
        given = {"log": "bookkeeper", "server": f"127.0.0.1:{self.port}"}
        return told(self.java.command("Load", *words(given), *load.flags()))

    def stop(self):
        self.server.stop()
