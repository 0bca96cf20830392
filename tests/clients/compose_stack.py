"""The services of docker-compose.yml as processes of this machine: the same commands, settings and files.

No test needs an image from a registry. Therefore a path of a container becomes a folder of the test, an address of a
service becomes a free port, and the program comes from a package. Grafana has no package: the tests send its queries
themselves. The script `containers` runs the same file in containers.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess

import servers
from servers import ROOT, Stratalog, dying_with_us, free_port, wait_for_port

COMPOSE = ROOT / "docker-compose.yml"
CLIENTS = pathlib.Path(__file__).parent


def run(*command, cwd=ROOT, **more):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=600, **more)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def install(script):
    """The path of a program that a script of the tests installs. `environment` finds the Go of `scripts/setup`."""
    return run("bash", "-c", f"source scripts/environment; exec {script}").strip()


@functools.cache
def checks():
    """The program of `compose/main.go`."""
    program = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "stratalog" / "compose-checks"
    run("bash", "-c", f"source scripts/environment; cd tests/clients/compose && exec go build -o '{program}' .")
    return program


@functools.cache
def project():
    """The file as the parser of Docker Compose reads it."""
    return json.loads(run(checks(), "compose", COMPOSE))


def as_yaml(path):
    return json.loads(run(checks(), "json", path))


def image_environment():
    """The variables that the Dockerfile sets."""
    return dict(re.findall(r"\b(STRATALOG_\w+)=([^\s\\]+)", (ROOT / "Dockerfile").read_text()))


class Server(Stratalog):
    """The service `stratalog`."""

    def __init__(self, data_dir, arguments):
        super().__init__(data_dir)
        self.arguments = arguments

    def command(self):
        return [*dying_with_us("KILL"), *self.arguments]

    def dsn(self, **more):
        return super().dsn(**{"host": "localhost", **more})


class Process:
    """Any other service."""

    def __init__(self, command, environment, log):
        self.log = log
        self.process = subprocess.Popen(
            [*dying_with_us("KILL"), *command], env={**os.environ, **environment},
            stdin=subprocess.DEVNULL, stdout=log.open("w"), stderr=subprocess.STDOUT,
        )
        servers.running.append(self)

    def kill(self):
        self.process.kill()
        self.process.wait()
        if self in servers.running:
            servers.running.remove(self)

    def output(self):
        return self.log.read_text(errors="replace")


class Stack:
    def __init__(self, directory):
        self.directory = directory
        self.services = project()["services"]
        # Programs under the names of the images, in front of all other programs.
        self.programs = directory / "programs"
        self.programs.mkdir(parents=True)
        self.program("stratalog", servers.stratalog_binary())
        self.program("versitygw", install("storage/story/tests/s3-server"))
        self.program("prometheus", shutil.which("prometheus"))
        self.program("telegraf", install("tests/clients/install-telegraf"))
        self.server = Server(directory / "volumes" / "data", [])
        self.ports = {
            "stratalog:5433": self.server.port, "stratalog:8086": self.server.http_port, "localhost:8086": self.server.http_port,
            "0.0.0.0:5433": self.server.port, "0.0.0.0:50051": self.server.flight_port,
            "0.0.0.0:8086": self.server.http_port, "0.0.0.0:9009": self.server.ilp_port,
            "store:7070": free_port(), "prometheus:9090": free_port(),
        }
        self.processes = {}
        for volume in project()["volumes"]:
            (directory / "volumes" / volume).mkdir(parents=True)

    def program(self, name, path):
        assert path, f"{name} is missing: run scripts/setup test, and have scripts/environment in the PATH"
        (self.programs / name).symlink_to(path)

    def place(self, service, mount):
        """The path of this machine for a mount of a service."""
        source = mount["source"]
        if mount["type"] == "volume":
            return str(self.directory / "volumes" / source)
        if pathlib.Path(source).is_file():
            copy = self.directory / service / pathlib.Path(source).name
            copy.parent.mkdir(exist_ok=True)
            return str(copy)
        return source.rstrip("/")

    def translated(self, service, text):
        """A text of a container with the paths and addresses of this machine."""
        mounts = self.services[service].get("volumes", [])
        for mount in sorted(mounts, key=lambda mount: -len(mount["target"])):
            path = self.place(service, mount)
            text = re.sub(rf"(?<![\w./-]){re.escape(mount['target'])}(?![\w-])", lambda _: path, text)
        for address, port in self.ports.items():
            text = re.sub(rf"(?<![\w.]){re.escape(address)}\b", f"{'127.0.0.1' if address.startswith('0.') else 'localhost'}:{port}", text)
        # The store listens at all addresses of its container.
        text = re.sub(r"(?<=port ):7070\b", f"127.0.0.1:{self.ports['store:7070']}", text)
        return text

    def files(self, service, edit=lambda text: text):
        """Writes the files that a service mounts."""
        for mount in self.services[service].get("volumes", []):
            source = pathlib.Path(mount["source"])
            if mount["type"] == "bind" and source.is_file():
                pathlib.Path(self.place(service, mount)).write_text(edit(self.translated(service, source.read_text())))

    def command(self, service, entrypoint=()):
        """The words of a service's command. `entrypoint`: the entrypoint of the image."""
        definition = self.services[service]
        words = [*(definition["entrypoint"] or entrypoint), *(definition["command"] or [])]
        # The parser keeps `$$` as in the file; Docker Compose passes `$` on.
        return [self.translated(service, word.replace("$$", "$")) for word in words]

    def environment(self, service):
        given = self.services[service].get("environment", {})
        if service in ("setup", "stratalog"):
            given = {**image_environment(), **given}
        translated = {name: self.translated(service, value) for name, value in given.items()}
        return {**translated, "PATH": f"{self.programs}:{os.environ['PATH']}"}

    def start(self, service, entrypoint=(), *further, edit=lambda text: text):
        self.files(service, edit)
        command = [*self.command(service, entrypoint), *further]
        self.processes[service] = Process(command, self.environment(service), self.directory / f"{service}.log")
        return self.processes[service]

    def secrets(self):
        """The folders that `setup` fills, at the places of its container."""
        secrets = self.directory / "secrets"
        secrets.mkdir()
        for client in ("grafana", "prometheus", "store", "telegraf"):
            (secrets / client).symlink_to(self.directory / "volumes" / f"secrets-{client}")
        return secrets

    def set_up(self):
        """Runs the service `setup`; returns its output."""
        secrets, stories = self.secrets(), self.directory / "volumes" / "stories"
        environment = {**os.environ, **self.environment("setup"), "SECRETS": str(secrets), "STORIES": str(stories)}
        said = run("sh", ROOT / "compose" / "setup", env=environment)
        # For the tests alone.
        (self.directory / "password").write_text("correct horse battery staple")
        run(self.programs / "stratalog", "user", "create", "tester", "--superuser", "--password-file", self.directory / "password",
            "--data-dir", self.server.data_dir)
        return said

    def up(self):
        self.said = self.set_up()
        self.start("store")
        wait_for_port(self.ports["store:7070"], self.processes["store"].process, 30)
        self.server.arguments = self.command("stratalog")
        self.server.environment = self.environment("stratalog")
        self.server.start()
        # The tests wait for the samples of several scrapes.
        self.start("prometheus", ["prometheus"], f"--web.listen-address=127.0.0.1:{self.ports['prometheus:9090']}",
                   edit=lambda text: text.replace("scrape_interval: 10s", "scrape_interval: 1s"))
        self.start("telegraf", edit=lambda text: text.replace('interval = "5s"', 'interval = "1s"'))
        return self

    def down(self):
        for process in self.processes.values():
            process.kill()
        self.server.stop()

    def dsn(self, user):
        """A connection string, with the password and the certificate that the stack made."""
        volumes = self.directory / "volumes"
        path = volumes / "secrets-grafana" / "password" if user == "grafana" else self.directory / "password"
        return self.server.dsn(user=user, password=f"'{path.read_text().strip()}'", sslmode="verify-full",
                               sslrootcert=volumes / "secrets-grafana" / "ca.crt")
