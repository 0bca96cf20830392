"""Starts the servers for tests and benchmarks: Stratalog, PostgreSQL as oracle, an object store."""

import atexit
import itertools
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Running servers.
running = []


def stop_all(besides=()):
    """Stops all running servers except `besides`: cleanup after a failed test."""
    for server in [server for server in running if server not in besides]:
        server.kill()


atexit.register(stop_all)
# Handle SIGTERM like Ctrl-C, with a complete cleanup.
signal.signal(signal.SIGTERM, signal.default_int_handler)


def dying_with_us(how):
    """The command prefix that ends a command together with this process, for any cause of the end."""
    return ["setpriv", "--pdeathsig", how] if shutil.which("setpriv") else []


# The kernel gives ports of outgoing connections from 32768 on (ip_local_port_range): a port below cannot be taken by
# a client between `free_port` and the start of its server.
candidate_ports = itertools.cycle(random.sample(range(12_000, 32_000), 20_000))


def free_port():
    """A free TCP port; within one process, a different port at each call."""
    for port in itertools.islice(candidate_ports, 1_000):
        with socket.socket() as probe:
            # Like the servers: connections that have ended do not occupy the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port between 12000 and 32000")


def wait_for_port(port, process, seconds):
    """Waits until a process accepts connections on `port`; raises an error if `process` ends or the timeout
    expires."""
    deadline = time.monotonic() + seconds
    while True:
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def stratalog_binary():
    """The binary under test: $STRATALOG_BIN, or cargo's last build."""
    if "STRATALOG_BIN" in os.environ:
        return pathlib.Path(os.environ["STRATALOG_BIN"])
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "stratalog" for profile in ("release", "debug")]
    built = [path for path in built if path.exists()]
    if not built:
        raise RuntimeError("no stratalog binary: set STRATALOG_BIN or run `cargo build -p stratalog`")
    return max(built, key=lambda path: path.stat().st_mtime)


class Stratalog:
    """`stratalog serve` on a loopback port."""

    def __init__(self, data_dir, *flags, port=None, environment=None, wrapper=()):
        self.data_dir = pathlib.Path(data_dir)
        self.port = port or free_port()
        self.flight_port = free_port()
        self.http_port = free_port()
        self.ilp_port = free_port()
        self.log_path = self.data_dir.with_name(self.data_dir.name + ".log")
        self.flags = flags
        self.environment = environment or {}
        self.wrapper = list(wrapper)
        self.process = None

    def command(self):
        return [
            *dying_with_us("KILL"),
            *self.wrapper,
            str(stratalog_binary()),
            "serve",
            "--data-dir",
            str(self.data_dir),
            "--pg-listen",
            f"127.0.0.1:{self.port}",
            "--flight-listen",
            f"127.0.0.1:{self.flight_port}",
            "--http-listen",
            f"127.0.0.1:{self.http_port}",
            "--ilp-listen",
            f"127.0.0.1:{self.ilp_port}",
            *self.flags,
        ]

    def start(self, seconds=60):
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **self.environment},
        )
        running.append(self)
        # The server listens before its recovery is complete; the line "ready" follows later.
        deadline = time.monotonic() + seconds
        while not self._ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with status {self.process.returncode}: {self.output()[-2000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server is not ready: {self.output()[-2000:]}")
            time.sleep(0.005)
        return self

    def _ready(self):
        return f"process {self.process.pid}\n" in self.output()

    def start_failing(self, seconds=60):
        """Starts a server that must fail; returns its exit status and its output."""
        done = subprocess.run(
            self.command(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
            env={**os.environ, **self.environment},
        )
        return done.returncode, done.stdout + done.stderr

    def stop(self, how=signal.SIGTERM, seconds=60):
        """Stops the server and returns its exit status."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.ended()
        return status

    def ended(self):
        """Removes an ended process from the list."""
        self.log.close()
        self.process = None
        if self in running:
            running.remove(self)

    def kill(self):
        """kill -9."""
        return self.stop(signal.SIGKILL)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def output(self):
        return self.log_path.read_text(errors="replace")

    def dsn(self, **more):
        words = {"host": "127.0.0.1", "port": self.port, "user": "stratalog", "dbname": "stratalog", **more}
        return " ".join(f"{key}={value}" for key, value in words.items())

    def flight_uri(self):
        return f"grpc://127.0.0.1:{self.flight_port}"

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Postgres:
    """A new PostgreSQL cluster on a loopback port."""

    def __init__(self, directory=None, settings=None):
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="stratalog-postgres-"))
        self.owned = directory is None
        self.port = free_port()
        self.settings = settings or {}
        self.process = None

    @staticmethod
    def programs():
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
        fifteen = [path for path in found if path.parts[-3] == "15"]
        if fifteen or found:
            return (fifteen or found)[0].parent
        on_path = shutil.which("postgres")
        if on_path is None:
            raise RuntimeError("PostgreSQL is missing: apt-get install -y postgresql postgresql-client")
        return pathlib.Path(on_path).parent

    @staticmethod
    def _user():
        """The user that runs PostgreSQL: PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return {}
        return {"user": "postgres", "group": "postgres", "extra_groups": []}

    def start(self):
        self.directory.mkdir(exist_ok=True)
        running.append(self)
        user, programs, data = self._user(), self.programs(), self.directory / "data"
        if user:
            owner = pwd.getpwnam(user["user"])
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
        if not data.exists():
            subprocess.run(
                [programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres",
                 "--locale=C.UTF-8", "-E", "UTF8", "-k"],
                check=True, stdout=subprocess.DEVNULL, cwd="/", **user,
            )
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.directory,
            "timezone": "UTC",
            "max_connections": 200,
            **self.settings,
        }
        arguments = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        self.log = open(self.directory / "log", "ab")
        self.process = subprocess.Popen(
            [*dying_with_us("INT"), programs / "postgres", "-D", data, *arguments],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, cwd="/", **user,
        )
        wait_for_port(self.port, self.process, 60)
        self._wait_ready(programs)
        return self

    def _wait_ready(self, programs):
        deadline = time.monotonic() + 60
        command = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(command).returncode != 0:
            if time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL does not become ready")
            time.sleep(0.05)

    def stop(self, how=signal.SIGINT):
        """Stops the server; deletes its directory unless the caller gave it."""
        if self not in running:
            return
        running.remove(self)
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.log.close()
            self.process = None
        if self.owned:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self):
        """Kills the server and all its processes immediately: SIGQUIT leaves no process behind."""
        self.stop(signal.SIGQUIT)

    def dsn(self, **more):
        words = {"host": "127.0.0.1", "port": self.port, "user": "postgres", "dbname": "postgres", **more}
        return " ".join(f"{key}={value}" for key, value in words.items())

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class ObjectStore:
    """An S3 server (versitygw) on a loopback port; buckets are folders below `directory`."""

    def __init__(self, directory, *buckets):
        self.directory = pathlib.Path(directory)
        self.program = self._program()
        self.port = free_port()
        self.process = None
        for bucket in buckets:
            (self.directory / bucket).mkdir(parents=True)

    @staticmethod
    def _program():
        """The path of the server program; installs the program at first use. Raises RuntimeError with the reason
        if that fails."""
        # `environment` finds the Go installation of `scripts/setup`.
        script = "source scripts/environment; exec storage/story/tests/s3-server"
        done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(f"versitygw cannot be installed (scripts/setup test brings Go): {done.stderr[-500:]}")
        return done.stdout.strip()

    def environment(self):
        """The environment variables for a client."""
        return {
            "AWS_ACCESS_KEY_ID": "story",
            "AWS_SECRET_ACCESS_KEY": "teller",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
        }

    def start(self):
        self.process = subprocess.Popen(
            [*dying_with_us("KILL"), self.program, "--access", "story", "--secret", "teller",
             "--port", f"127.0.0.1:{self.port}", "--quiet", "posix", self.directory],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        running.append(self)
        wait_for_port(self.port, self.process, 20)
        return self

    def kill(self):
        """Kills the server immediately; `start` restarts it on the same port with all its data."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        if self in running:
            running.remove(self)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
