"""pgcli in a terminal: it completes its metadata queries, runs queries, describes tables."""

import os
import pathlib
import pty
import queue
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from pgcli.completion_refresher import CompletionRefresher
from pgcli.pgexecute import PGExecute
from pgspecial.main import PGSpecial
from prompt_toolkit.document import Document

from drivers import address

SETTINGS = """[main]
multi_line = False
wider_completion_menu = False
smart_completion = True
table_format = psql
syntax_style = default
keyword_casing = auto
enable_pager = False
less_chatty = True
log_file = {log}
log_level = INFO
"""


def pgcli(server, directory, *arguments):
    """Command and environment of pgcli with isolated settings."""
    settings = directory / "config"
    settings.write_text(SETTINGS.format(log=directory / "log"))
    program = pathlib.Path(sys.executable).with_name("pgcli")
    where = "-h {host} -p {port} -U {user} -d {database}".format(**address(server)).split()
    environment = {"TERM": "xterm", "COLUMNS": "300", "HOME": str(directory), "XDG_CONFIG_HOME": str(directory), "PAGER": "cat"}
    return [program, *where, "--pgclirc", settings, *arguments], {**os.environ, **environment, "PROMPT_TOOLKIT_NO_CPR": "1"}


class Terminal:
    """pgcli with its own screen."""

    def __init__(self, server, directory):
        self.screen, theirs = pty.openpty()
        self.seen = ""
        command, environment = pgcli(server, directory, "--less-chatty", "--warn", "off", "--prompt", "ready> ")
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)

    def expect(self, pattern, seconds=30):
        """Waits for a pattern on the screen; discards the earlier output."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < deadline and self.process.poll() is None, (pattern, self.seen[-3000:])
            if select.select([self.screen], [], [], 0.2)[0]:
                raw = os.read(self.screen, 65536).decode(errors="replace")
                self.seen += re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|[()][A-Z0-9]|[=>78]|\][^\x07]*\x07)", "", raw)
        self.seen = self.seen[found.end() :]
        return found

    def send(self, text):
        os.write(self.screen, (text + "\r").encode())

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.screen)


@pytest.fixture
def filled(connection, table):
    connection.execute(
        f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v DOUBLE PRECISION DEFAULT 1.5, "
        "PRIMARY KEY (host, time))"
    )
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01 00:00:00+00', 'somebody', 42.25)")
    return table


@pytest.fixture
def terminal(server, filled, tmp_path):
    terminal = Terminal(server, tmp_path)
    yield terminal
    terminal.close()


def test_a_session(terminal, filled):
    terminal.expect("ready>")
    terminal.send(f"SELECT host, v FROM {filled};")
    terminal.expect(r"\| somebody +\| 42\.25")
    terminal.send("SELECT * FROM nothing_of_the_kind;")
    terminal.expect(r'relation "nothing_of_the_kind" does not exist')
    terminal.send(f"\\d {filled}")
    terminal.expect(r"\| host +\| text +\| +not null")
    terminal.expect(rf'"{filled}_pkey" PRIMARY KEY')
    terminal.send("\\dt")
    terminal.expect(rf"\| public +\| {filled} +\| table")
    terminal.send("BEGIN;")
    terminal.send(f"INSERT INTO {filled} VALUES ('2024-01-02', 'other', 7);")
    terminal.expect("INSERT 0 1")
    terminal.send("ROLLBACK;")
    terminal.send(f"SELECT 'rows: ' || count(*) FROM {filled};")
    terminal.expect(r"\| rows: 1 +\|")
    terminal.send("\\q")
    assert terminal.process.wait(20) == 0


def test_what_completion_asks_for(server, filled):
    """The completion queries of pgcli, and the resulting suggestions."""
    words = address(server)
    executor = PGExecute(words["database"], words["user"], "", words["host"], str(words["port"]), None)
    assert filled in [name for _, name in executor.tables()]
    assert list(executor.search_path())[-1] == "public"
    assert words["database"] in executor.databases()
    assert "date_trunc" in {function.func_name for function in executor.functions()}
    assert list(executor.foreignkeys()) == [] and "public" in executor.schemata()
    assert ("public", filled, "host", "text", False, None) in [tuple(column) for column in executor.table_columns()]
    completers, refresher = queue.Queue(), CompletionRefresher()
    refresher.refresh(executor, PGSpecial(), completers.put)
    completer = completers.get(timeout=30)

    def proposed(text, position=None):
        document = Document(text, len(text) if position is None else position)
        return {completion.text.strip('"') for completion in completer.get_completions(document, None)}

    assert filled in proposed(f"SELECT * FROM {filled[:1]}")
    assert {"host", "time", "v"} <= proposed(f"SELECT  FROM {filled}", len("SELECT "))
    assert "date_trunc" in {text.partition("(")[0].lower() for text in proposed("SELECT date_tr")}
    executor.conn.close()


@pytest.mark.parametrize(
    "arguments, shown",
    [
        (["--list"], "Name"),
        (["--ping"], "PONG"),
        (["-c", "SELECT 40 + 2 AS answer"], "42"),
        (["-c", "\\dt"], "{table}"),
        (["-c", "\\l"], "Name"),
        (["-c", "\\du"], "{user}"),
        (["-c", "\\dn"], "public"),
        (["-c", "\\df version"], "version"),
        (["-c", "\\d {table}"], "timestamp with time zone"),
        (["-c", "\\d+ {table}"], "double precision"),
        (["-c", "\\dT jsonb"], "jsonb"),
        (["-c", "\\di"], "{table}_pkey"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_once_and_out(server, filled, tmp_path, arguments, shown):
    names = {"table": filled, "user": address(server)["user"]}
    command, environment = pgcli(server, tmp_path, *(argument.format(**names) for argument in arguments))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0 and shown.format(**names) in done.stdout, done.stdout + done.stderr
