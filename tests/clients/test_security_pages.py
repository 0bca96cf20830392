"""The commands of docs/security.md and docs/sql/roles.md, run as the pages show them."""

import pathlib
import re
import subprocess

import psycopg
import pytest

from servers import ROOT, Stratalog, free_port, stratalog_binary, wait_for_port

pytestmark = pytest.mark.ours


def blocks(page, kind):
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def shell(script, directory, **more):
    programs = pathlib.Path(directory) / "programs"
    programs.mkdir(exist_ok=True)
    if not (programs / "stratalog").exists():
        (programs / "stratalog").symlink_to(stratalog_binary())
    prologue = f"PATH={programs}:$PATH; cd {directory}; "
    return subprocess.run(["bash", "-euc", prologue + script], capture_output=True, text=True, timeout=60, **more)


def test_the_first_five_minutes(tmp_path):
    prepare, serve = blocks("security.md", "")
    data = tmp_path / "data"
    done = shell(prepare.replace("DIR", str(data)), tmp_path)
    assert done.returncode == 0, done.stderr
    password = done.stdout.strip().splitlines()[-1]
    port = free_port()
    start, connect = serve.replace("DIR", str(data)).replace("5433", str(port)).strip().splitlines()
    others = " ".join(f"--{door}-listen 127.0.0.1:0" for door in ("flight", "http", "ilp"))
    process = subprocess.Popen(["bash", "-c", f"exec {start.replace('stratalog', str(stratalog_binary()), 1)} {others}"], cwd=tmp_path)
    try:
        wait_for_port(port, process, 60)
        (tmp_path / "ca.crt").write_bytes((data / "tls" / "ca.crt").read_bytes())
        # The name of the page is not this machine's name.
        connect = connect.replace("host=db.example.com", "host=db.example.com hostaddr=127.0.0.1")
        done = shell(f"{connect} -Atc 'SELECT current_user'", tmp_path, env={"PGPASSWORD": password, "PATH": "/usr/bin:/bin"})
        assert done.stdout == "admin\n", done.stderr
        with psycopg.connect(f"host=localhost port={port} user=admin dbname=stratalog", password=password, autocommit=True) as admin:
            for sql in blocks("security.md", "sql"):
                records = admin.execute(sql).fetchall()
                assert [record for record in records if record[2] == "admin"], records
            for sql in re.findall(r"`((?:REVOKE|ALTER ROLE)[^`…]*)`", (ROOT / "docs" / "security.md").read_text()):
                admin.execute(sql)
    finally:
        process.kill()
        process.wait()


def test_without_tls_and_users_the_page_is_right(tmp_path):
    for flags in ([], ["--tls-cert-file", "x"]):
        done = shell(f"stratalog serve --data-dir {tmp_path}/data --pg-listen 0.0.0.0:0 {' '.join(flags)}", tmp_path)
        assert done.returncode != 0
    done = shell(f"stratalog serve --data-dir {tmp_path}/data --pg-listen 0.0.0.0:0", tmp_path)
    for words in ("stratalog certificate create", "stratalog user create"):
        assert words in done.stderr, done.stderr


def test_the_page_of_roles(tmp_path):
    with Stratalog(tmp_path / "data") as server:
        with psycopg.connect(server.dsn(), autocommit=True) as first:
            first.execute("CREATE TABLE cpu (time timestamptz NOT NULL, tenant text, v float)")
            first.execute("INSERT INTO cpu VALUES (now(), 'grafana', 1), (now(), 'other', 2)")
            for block in blocks("sql/roles.md", "sql"):
                for statement in block.split(";\n"):
                    if statement.strip():
                        first.execute(statement)
        with psycopg.connect(server.dsn(user="grafana", password="'a long secret'"), autocommit=True) as reader:
            assert reader.execute("SELECT tenant FROM cpu").fetchall() == [("grafana",)]
            assert reader.execute("SELECT rows FROM stratalog.chronicles WHERE name = 'cpu'").fetchall() == [(None,)]
