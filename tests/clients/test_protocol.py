"""Malformed start-up packets and messages: the sender gets an error or is disconnected, and other clients are
unaffected."""

import random
import socket
import struct
import time

import psycopg
import pytest

from conftest import AGAINST_POSTGRES
from wire import Wire, packet, query, sqlstates

NAMES = {"user": "postgres", "database": "postgres"} if AGAINST_POSTGRES else {}


@pytest.fixture(autouse=True)
def others_notice_nothing(server):
    """An older connection and a new connection both work."""
    with psycopg.connect(server.dsn(), autocommit=True) as before:
        yield
        assert before.execute("SELECT 1").fetchone() == (1,)
    with psycopg.connect(server.dsn(), autocommit=True) as after:
        assert after.execute("SELECT 1").fetchone() == (1,)


STARTUPS = {
    "nothing": b"",
    "a few bytes": b"\0\0",
    "length 0": struct.pack("!II", 0, 196608),
    "length 4": struct.pack("!I", 4),
    "length 7": struct.pack("!I", 7) + b"\0\3\0",
    "negative length": struct.pack("!iI", -1, 196608) + b"user\0x\0\0",
    "huge length": struct.pack("!II", 0x7FFFFFFF, 196608) + b"user\0x\0\0",
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls hello": bytes.fromhex("16030100a5010000a10303") + b"x" * 160,
    "protocol 2": struct.pack("!II", 8 + 8, 131072) + b"user\0x\0\0",
    "protocol 99": struct.pack("!II", 8 + 8, 99 << 16) + b"user\0x\0\0",
    "no end of a value": struct.pack("!II", 8 + 6, 196608) + b"user\0x",
    "key without value": struct.pack("!II", 8 + 6, 196608) + b"user\0\0",
    "no user": struct.pack("!II", 8 + 1, 196608) + b"\0",
    "bad utf-8": struct.pack("!II", 8 + 9, 196608) + b"user\0\xff\xfe\0\0",
    "cancel too short": struct.pack("!III", 12, 80877102, 1),
    "cancel of nobody": struct.pack("!IIII", 16, 80877102, 0x7FFFFFFF, 1),
    "ssl twice, then nothing": struct.pack("!IIII", 8, 80877103, 8, 80877103),
}


@pytest.mark.parametrize("name", STARTUPS)
def test_startup(server, name):
    with Wire(server.port, seconds=15) as wire:
        wire.send(STARTUPS[name])
        try:
            wire.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the server has closed already
        try:
            while wire.socket.recv(4096):
                pass
        except ConnectionError:
            pass


def test_ssl_and_gss_requests_are_declined(server):
    with Wire(server.port) as wire:
        wire.send(struct.pack("!II", 8, 80877103))
        assert wire.socket.recv(1) == b"N"
        wire.send(struct.pack("!II", 8, 80877104))
        assert wire.socket.recv(1) == b"N" or AGAINST_POSTGRES
        if AGAINST_POSTGRES:
            return
        wire.startup(**NAMES).ready()
        wire.send(query("SELECT 1"))
        assert (b"C", b"SELECT 1\0") in wire.ready()


def test_random_startups(server):
    source = random.Random(7)
    for _ in range(200):
        with Wire(server.port) as wire:
            wire.send(source.randbytes(source.randrange(1, 64)))


MESSAGES = {
    "unknown type": packet(b"~", b"hello"),
    "length 0": b"Q\0\0\0\0",
    "length 3": b"Q\0\0\0\3",
    "negative length": b"Q\xff\xff\xff\xff",
    "query without its end": packet(b"Q", b"SELECT 1"),
    "query of bad utf-8": packet(b"Q", b"SELECT '\xff'\0"),
    "parse without anything": packet(b"P", b""),
    "parse with too many types": packet(b"P", b"\0SELECT 1\0" + struct.pack("!h", 30000)) + packet(b"S"),
    "parse with a negative count": packet(b"P", b"\0SELECT 1\0" + struct.pack("!h", -5)) + packet(b"S"),
    "bind cut short": packet(b"B", b"\0\0\0") + packet(b"S"),
    "bind with lengths beyond": packet(b"P", b"\0SELECT $1::text\0\0\0") +
        packet(b"B", b"\0\0\0\0\0\1" + struct.pack("!i", 1 << 30) + b"x\0\0") + packet(b"S"),
    "bind of a negative length": packet(b"P", b"\0SELECT $1::text\0\0\0") +
        packet(b"B", b"\0\0\0\0\0\1" + struct.pack("!i", -7) + b"\0\0") + packet(b"S"),
    "describe of neither": packet(b"D", b"X\0") + packet(b"S"),
    "execute cut short": packet(b"E", b"") + packet(b"S"),
    "copy data outside of copy": packet(b"d", b"1\t2\n") + packet(b"S"),
    "copy done outside of copy": packet(b"c") + packet(b"S"),
    "password without being asked": packet(b"p", b"secret\0") + packet(b"S"),
    "function call": packet(b"F", b"\0\0\0\1\0\0\0\0\0\0") + packet(b"S"),
    "a start-up again": struct.pack("!II", 8, 196608),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_message(server, name):
    with Wire(server.port, seconds=15) as wire:
        wire.startup(**NAMES).ready()
        wire.send(MESSAGES[name])
        # Either an error and the connection stays open, or an error and the connection ends.
        wire.send(packet(b"X"))
        wire.until_closed()


@pytest.mark.parametrize("name, messages, sqlstate", [
    ("bind of an unknown statement", packet(b"B", b"\0nothing\0\0\0\0\0\0\0"), "26000"),
    ("describe of an unknown statement", packet(b"D", b"Snothing\0"), "26000"),
    ("describe of an unknown portal", packet(b"D", b"Pnothing\0"), "34000"),
    ("execute of an unknown portal", packet(b"E", b"nothing\0\0\0\0\0"), "34000"),
    ("too few parameters", packet(b"P", b"\0SELECT $1::int + $2::int\0\0\0") + packet(b"B", b"\0\0\0\0\0\1\0\0\0\0011\0\0"), "08P01"),
    ("statement twice", packet(b"P", b"same\0SELECT 1\0\0\0") * 2, "42P05"),
    ("two statements in parse", packet(b"P", b"\0SELECT 1; SELECT 2\0\0\0"), "42601"),
    ("bad utf-8", packet(b"P", b"\0SELECT '\xff'\0\0\0"), "22021"),
])
def test_errors_of_the_extended_protocol(server, name, messages, sqlstate):
    with Wire(server.port) as wire:
        wire.startup(**NAMES).ready()
        # After the error, messages are skipped until Sync.
        wire.send(messages, packet(b"P", b"\0SELECT 1\0\0\0"), packet(b"B", b"\0\0\0\0\0\0\0\0"),
                  packet(b"E", b"\0\0\0\0\0"), packet(b"S"))
        answer = wire.ready()
        assert sqlstates(answer) == [sqlstate]
        assert not any(kind == b"D" for kind, _ in answer)
        wire.send(query("SELECT 7"))
        assert (b"C", b"SELECT 1\0") in wire.ready()


def test_oversized_message(server):
    with Wire(server.port) as wire:
        wire.startup(**NAMES).ready()
        wire.send(b"Q", struct.pack("!I", 0x7FFFFFF0), b"SELECT '" + b"x" * 100_000)
        messages = wire.until_closed()
        assert AGAINST_POSTGRES or set(sqlstates(messages)) <= {"08P01", "54000"}
        assert AGAINST_POSTGRES or sqlstates(messages)


def test_portals_suspend(server):
    with Wire(server.port) as wire:
        wire.startup(**NAMES).ready()
        wire.send(packet(b"P", b"\0SELECT n FROM generate_series(1, 10) AS g(n) ORDER BY n\0\0\0"),
                  packet(b"B", b"\0\0\0\0\0\0\0\0"),
                  packet(b"E", b"\0" + struct.pack("!I", 4)), packet(b"E", b"\0" + struct.pack("!I", 4)),
                  packet(b"E", b"\0" + struct.pack("!I", 4)), packet(b"S"))
        kinds = b"".join(kind for kind, _ in wire.ready())
        assert kinds == b"12DDDDsDDDDsDDCZ"


def test_several_statements_in_one_query(server):
    with Wire(server.port) as wire:
        wire.startup(**NAMES).ready()
        wire.send(query("SELECT 1; SELECT 1/0; SELECT 3"))
        messages = wire.ready()
        assert sqlstates(messages) == ["22012"]
        assert sum(kind == b"D" for kind, _ in messages) == 1
        wire.send(query(""))
        assert [kind for kind, _ in wire.ready()] == [b"I", b"Z"]


def test_byte_by_byte(server):
    with Wire(server.port) as wire:
        wire.startup(**NAMES).ready()
        for byte in query("SELECT 42"):
            wire.send(bytes([byte]))
            time.sleep(0.002)
        assert any(b"42" in body for kind, body in wire.ready() if kind == b"D")


def test_half_messages_hold_nobody_up(server):
    stuck = []
    for _ in range(20):
        wire = Wire(server.port)
        wire.startup(**NAMES).ready()
        wire.send(b"Q", struct.pack("!I", 1000), b"SELECT ")
        stuck.append(wire)
    began = time.monotonic()
    with psycopg.connect(server.dsn(), autocommit=True) as free:
        assert free.execute("SELECT 1").fetchone() == (1,)
    assert time.monotonic() - began < 5
    for wire in stuck:
        wire.close()


def test_random_messages(server):
    source = random.Random(11)
    for _ in range(200):
        with Wire(server.port) as wire:
            wire.startup(**NAMES).ready()
            kind = bytes([source.choice(b"QPBDESHCFdcfpX~")])
            wire.send(packet(kind, source.randbytes(source.randrange(0, 64))), packet(b"X"))
            wire.until_closed()
