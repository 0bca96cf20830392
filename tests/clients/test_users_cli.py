"""The commands `user`, `token` and `certificate`: offline, and on a running server."""

import os
import pty
import re
import stat
import subprocess

import psycopg
import pytest

from logins import certificate, command, run, token, user
from servers import Stratalog, stratalog_binary

pytestmark = pytest.mark.ours


def test_a_user_is_created_offline_with_a_new_database(tmp_path):
    data = tmp_path / "data"
    done = run("user", "create", "ann", "--superuser", "--generate-password", "--data-dir", data)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[A-Za-z0-9_-]{24}\n", done.stdout), "the password is alone on standard output"
    assert "user ann created" in done.stderr and done.stdout.strip() not in done.stderr
    listed = command("user", "list", "--data-dir", data)
    assert re.search(r"^ann +superuser, login", listed, re.M), listed
    with Stratalog(data) as server:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.dsn(user="ann", password="wrong"))
        with psycopg.connect(server.dsn(user="ann", password=done.stdout.strip())) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("ann",)
        # No log has the password.
        assert done.stdout.strip() not in server.output()


def test_passwords_come_from_files_and_pipes_but_not_from_arguments(tmp_path):
    data, file = tmp_path / "data", tmp_path / "password"
    file.write_text("from a file\nand not this line\n")
    command("user", "create", "ann", "--password-file", file, "--data-dir", data)
    command("user", "create", "ben", "--password-file", "-", "--data-dir", data, stdin="from a pipe\n")
    command("user", "alter", "ben", "--rename", "bob", "--member-of", "pg_monitor", "--data-dir", data)
    failed = run("user", "create", "carl", "--data-dir", data, stdin="")
    assert failed.returncode == 1 and "--generate-password" in failed.stderr
    assert run("user", "create", "carl", "--password", "x", "--data-dir", data).returncode == 2
    assert run("user", "create", "ann", "--generate-password", "--data-dir", data).returncode == 1
    assert run("user", "alter", "ann", "--data-dir", data).returncode == 1
    assert run("user", "drop", "nobody", "--data-dir", data).returncode == 1
    with Stratalog(data) as server:
        for name, password in (("ann", "from a file"), ("bob", "from a pipe")):
            with psycopg.connect(server.dsn(user=name, password=f"'{password}'")) as connection:
                assert connection.execute("SELECT current_user").fetchone() == (name,)
    command("user", "drop", "bob", "--data-dir", data)
    assert "bob" not in command("user", "list", "--data-dir", data)


def test_the_shell_asks_for_a_password_on_a_terminal(tmp_path):
    data = tmp_path / "data"
    password = user(data, "ann")
    with Stratalog(data) as server:
        ask = ("sql", "--port", server.port, "--user", "ann", "-c", "SELECT current_user")
        failed = run(*ask, stdin="")
        assert failed.returncode == 1 and "PGPASSWORD" in failed.stderr, failed.stderr
        for given, status in ((password, 0), ("wrong", 1)):
            process, terminal = pty.fork()
            if process == 0:
                os.execv(stratalog_binary(), ["stratalog", *map(str, ask)])
            text = ""
            while True:
                try:
                    text += os.read(terminal, 4096).decode()
                except OSError:
                    break
                if text.endswith("Password for ann: "):
                    os.write(terminal, f"{given}\n".encode())
            assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == status, text
            assert given not in text, "the terminal shows the password"
            assert ("\n ann\r\n" in text) == (status == 0), text


def test_the_way_back_in(tmp_path):
    data = tmp_path / "data"
    user(data, "stratalog2", "--superuser")
    password = command("user", "alter", "stratalog", "--generate-password", "--data-dir", data)
    with Stratalog(data) as server:
        with psycopg.connect(server.dsn(password=password)) as connection:
            assert connection.execute("SHOW is_superuser").fetchone() == ("on",)
        # While the server runs, the directory is locked.
        failed = run("user", "list", "--data-dir", data)
        assert failed.returncode == 1 and "in use by process" in failed.stderr


def test_tokens_are_shown_once_and_listed_without_their_texts(tmp_path):
    data = tmp_path / "data"
    user(data, "ann")
    text = token(data, "grafana", "ann", "--scope", "read", "--expires", "90d")
    assert re.fullmatch(r"slt_[A-Za-z0-9_-]{43}", text)
    listed = command("token", "list", "--data-dir", data)
    assert re.search(r"^grafana +ann +read +20", listed, re.M) and text not in listed
    assert run("token", "create", "grafana", "--role", "ann", "--data-dir", data).returncode == 1
    assert run("token", "create", "x", "--role", "nobody", "--data-dir", data).returncode == 1
    assert run("token", "create", "x", "--role", "ann", "--expires", "soon", "--data-dir", data).returncode == 1
    command("token", "revoke", "grafana", "--role", "ann", "--data-dir", data)
    assert "grafana" not in command("token", "list", "--data-dir", data)
    found = subprocess.run(["grep", "-rl", text, data], capture_output=True, text=True).stdout
    assert found == "", "the text of a token is on the disk"


def test_certificates_are_private_and_never_overwritten(tmp_path):
    data = tmp_path / "data"
    authority = certificate(data)
    for name, mode in (("ca.crt", 0o644), ("server.crt", 0o644), ("server.key", 0o600)):
        assert stat.S_IMODE((data / "tls" / name).stat().st_mode) == mode, name
    shown = subprocess.run(["openssl", "x509", "-in", data / "tls" / "server.crt", "-noout", "-text"], check=True,
                           capture_output=True, text=True).stdout
    assert "DNS:server.example" in shown and "DNS:localhost" in shown and "IP Address:127.0.0.1" in shown
    subprocess.run(["openssl", "verify", "-CAfile", authority, data / "tls" / "server.crt"], check=True, capture_output=True)
    again = run("certificate", "create", "--host", "other.example", "--data-dir", data)
    assert again.returncode == 1 and "exists already" in again.stderr
    # A data directory with certificates still becomes a database.
    user(data, "ann")
    with Stratalog(data) as server:
        assert server.alive()
