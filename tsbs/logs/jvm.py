"""Java programs: the load in `java/`, with the jars of a pom.xml, and servers from these jars."""

import pathlib
import shutil
import subprocess
import time
import zlib

from peers.contender import Missing

from servers import ROOT, dying_with_us, running  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
# Packages that Netty and other libraries access, as in BookKeeper's scripts.
OPEN = ["java.io", "java.nio", "java.util.zip", "jdk.internal.misc", "sun.nio.ch"]


class Java:
    """Sources compiled against the jars of a folder's pom.xml; the cache keeps both."""

    def __init__(self, name, sources):
        done = subprocess.run([ROOT / "tests" / "clients" / "install-jars", HERE / name], capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"Maven: {(done.stderr + done.stdout)[-500:]}")
        self.jars = pathlib.Path(done.stdout.strip())
        paths = [HERE / "java" / f"{source}.java" for source in sources]
        self.classes = self.jars / f"classes-{zlib.crc32(b''.join(path.read_bytes() for path in paths))}"
        if not self.classes.exists():
            building = self.classes.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            subprocess.run(["javac", "-d", building, "-cp", f"{self.jars}/*", *paths], check=True)
            building.rename(self.classes)

    def version(self, jar):
        return next(self.jars.glob(f"{jar}-[0-9]*.jar")).stem.removeprefix(f"{jar}-")

    def command(self, main, *arguments, flags=()):
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPEN]
        return ["java", "-Xmx1g", "-XX:MaxDirectMemorySize=2g", "-Dio.netty.tryReflectionSetAccessible=true", *opened, *flags,
                "-cp", f"{self.classes}:{self.jars}/*", main, *map(str, arguments)]


class Server:
    """A process that ends together with this process."""

    def __init__(self, command, log_path):
        self.log_path = log_path
        self.log = open(log_path, "ab")
        self.process = subprocess.Popen([*dying_with_us("KILL"), *command], stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT)
        running.append(self)

    def wait(self, ready, seconds=120):
        """Waits until `ready` returns true."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server is not there: {self.output()[-1000:]}")
            time.sleep(0.1)

    def output(self):
        return self.log_path.read_text(errors="replace")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        if self in running:
            running.remove(self)

    def kill(self):
        self.process.kill()
        self.stop()
