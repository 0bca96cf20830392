"""Apache Kafka: a broker in combined mode with its controller, which syncs each batch before the acknowledgement."""

import base64
import socket
import subprocess
import uuid

from servers import free_port  # noqa: E402

from .jvm import Java, Server
from .load import told, words

MIB = 1 << 20


class Kafka:
    name, way = "Kafka", "acks=all, log.flush.interval.messages=1"

    def __init__(self, directory, partitions):
        self.directory, self.partitions = directory, partitions
        self.java = Java("kafka", ["Load", "Log", "KafkaLog"])

    def version(self):
        return self.java.version("kafka-clients")

    def start(self):
        self.directory.mkdir(parents=True)
        self.port, controller = free_port(), free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.directory / "data",
            # The unit is a batch: the records of a request for a partition are synced once.
            "log.flush.interval.messages": 1,
            "log.segment.delete.delay.ms": 1000,
            "offsets.topic.replication.factor": 1,
            "message.max.bytes": 4 * MIB,
            "replica.fetch.max.bytes": 8 * MIB,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        done = subprocess.run(self.java.command("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", path),
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"Kafka's storage: {done.stdout[-500:]}{done.stderr[-500:]}")
        self.server = Server(self.java.command("kafka.Kafka", path), self.directory / "log")
        self.server.wait(self.listens)

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def load(self, load):
        # Linger only if other records can fill the batch.
        own = {"parts": 1, "linger-ms": 0} if load.alone else {"parts": self.partitions, "linger-ms": 5}
        given = {"log": "kafka", "server": f"127.0.0.1:{self.port}", **own}
        return told(self.java.command("Load", *words(given), *load.flags()))

    def stop(self):
        self.server.stop()
