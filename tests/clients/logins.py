"""Servers with users, tokens and certificates, made by the command line; requests of HTTP with credentials."""

import base64
import contextlib
import http.server
import json
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

from servers import Stratalog, stratalog_binary

CA_OPTIONS = ("--host", "server.example")


def run(*arguments, stdin=None):
    """Runs a command of `stratalog`; returns the completed process."""
    return subprocess.run([str(stratalog_binary()), *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          timeout=120)


def command(*arguments, stdin=None):
    """Runs a command that must succeed; returns its standard output without the last newline."""
    done = run(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def user(data, name, *flags):
    """Creates a user offline; returns the generated password."""
    return command("user", "create", name, "--generate-password", "--data-dir", data, *flags)


def token(data, name, role, *flags):
    """Creates a token offline; returns its text."""
    return command("token", "create", name, "--role", role, "--data-dir", data, *flags)


def certificate(data):
    command("certificate", "create", *CA_OPTIONS, "--data-dir", data)
    return data / "tls" / "ca.crt"


def basic(name, password):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


class Http:
    """Requests of HTTP or HTTPS to a server."""

    def __init__(self, server, ca=None, certificate=None):
        self.context = ssl.create_default_context(cafile=str(ca)) if ca else None
        if certificate:
            self.context.load_cert_chain(*map(str, certificate))
        self.base = f"{'https' if ca else 'http'}://127.0.0.1:{server.http_port}"

    def ask(self, path, body=None, authorization=None, **headers):
        """The status, the text and the headers of an answer."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if authorization:
            headers["Authorization"] = authorization
        body = body.encode() if isinstance(body, str) else body
        request = urllib.request.Request(self.base + path, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.context) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def sql(self, statement, authorization=None):
        """The status and the JSON of a statement."""
        status, text, _ = self.ask("/api/sql", json.dumps({"sql": statement}), authorization,
                                   Content_Type="application/json")
        return status, json.loads(text)


def encoded(data):
    if isinstance(data, dict):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """An issuer of JSON web tokens (RS256) with its keys on a local HTTP server."""

    def __init__(self, directory):
        self.directory = directory
        self.requests = 0
        self.number = 0
        self.rotate()
        issuer = self

        class Keys(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.requests += 1
                body = json.dumps({"keys": [issuer.public]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keys)
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks.json"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def rotate(self):
        """Makes a new key."""
        self.number += 1
        self.key = self.directory / f"issuer-{self.number}.pem"
        subprocess.run(["openssl", "genrsa", "-out", self.key, "2048"], check=True, capture_output=True)
        modulus = subprocess.run(["openssl", "rsa", "-in", self.key, "-noout", "-modulus"], check=True, capture_output=True,
                                 text=True).stdout.strip().removeprefix("Modulus=")
        self.public = {"kty": "RSA", "kid": f"key-{self.number}", "use": "sig", "alg": "RS256",
                       "n": encoded(bytes.fromhex(modulus)), "e": "AQAB"}

    def token(self, role, seconds=3600, header=None, **claims):
        head = {"alg": "RS256", "typ": "JWT", "kid": self.public["kid"], **(header or {})}
        claims = {"iss": "https://issuer.example", "aud": "stratalog", "sub": role, "exp": int(time.time()) + seconds, **claims}
        signed = f"{encoded(head)}.{encoded(claims)}"
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=signed.encode(), check=True,
                                   capture_output=True).stdout
        return f"{signed}.{encoded(signature)}"

    def flags(self):
        return ("--jwt-keys", self.url, "--jwt-issuer", "https://issuer.example", "--jwt-audience", "stratalog")

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def issuer(directory):
    made = Issuer(directory)
    try:
        yield made
    finally:
        made.close()


def secured(data, *flags):
    """A server on a data directory with certificates and users."""
    return Stratalog(data, *flags)
