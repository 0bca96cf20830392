"""The Postgres protocol by hand, for messages that no client sends."""

import socket
import struct


class Wire:
    """A socket, with helpers for both directions."""

    def __init__(self, port, seconds=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)

    def send(self, *parts):
        self.socket.sendall(b"".join(parts))
        return self

    def startup(self, user="stratalog", database="stratalog", protocol=196608):
        body = struct.pack("!I", protocol)
        body += b"user\0" + user.encode() + b"\0database\0" + database.encode() + b"\0\0"
        self.send(struct.pack("!I", len(body) + 4), body)
        return self

    def ready(self):
        """Reads until ReadyForQuery; returns the messages before it."""
        messages = []
        while True:
            kind, body = self.message()
            messages.append((kind, body))
            if kind == b"Z":
                return messages

    def message(self):
        """A message: (type, body); (None, b'') at the end of the stream."""
        head = self._exactly(5)
        if head is None:
            return None, b""
        length = struct.unpack("!I", head[1:])[0]
        return head[:1], self._exactly(length - 4) or b""

    def until_closed(self):
        """The messages until the server closes the connection."""
        messages = []
        while True:
            try:
                kind, body = self.message()
            except ConnectionError:
                return messages
            if kind is None:
                return messages
            messages.append((kind, body))

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                return None
            data += chunk
        return data

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def packet(kind, body=b""):
    """A message with the correct length."""
    return kind + struct.pack("!I", len(body) + 4) + body


def query(sql):
    return packet(b"Q", sql.encode() + b"\0")


def sqlstates(messages):
    """The codes of the ErrorResponses among messages."""
    found = []
    for kind, body in messages:
        if kind == b"E":
            fields = dict((part[:1], part[1:]) for part in body.split(b"\0") if part)
            found.append(fields[b"C"].decode())
    return found
