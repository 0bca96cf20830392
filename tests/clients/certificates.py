"""Makes certificates with openssl: an authority, certificates of servers and of clients."""

import os
import pathlib
import subprocess

# Options of `openssl req` and `openssl x509` for each kind of key.
KINDS = {
    "rsa": ["-newkey", "rsa:2048"],
    "ecdsa": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "ed25519": ["-newkey", "ed25519"],
}


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder, kind="ecdsa", name="Test authority"):
        self.folder, self.kind = pathlib.Path(folder), kind
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cert, self.key = self.folder / "ca.crt", self.folder / "ca.key"
        openssl("req", "-x509", *KINDS[kind], "-nodes", "-keyout", self.key, "-out", self.cert, "-days", 30,
                "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE",
                "-addext", "keyUsage=critical,keyCertSign")

    def issue(self, name, common_name, kind="ecdsa", names="DNS:localhost,IP:127.0.0.1", usage="serverAuth"):
        """The paths of a new certificate and its key."""
        cert, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage={usage}\nbasicConstraints=CA:FALSE\n")
        openssl("req", *KINDS[kind], "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={common_name}")
        openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-out", cert,
                "-days", 30, "-extfile", extensions)
        os.chmod(key, 0o600)
        return cert, key


def install(pair, folder):
    """Copies a certificate and its key to the names that the server's settings give; returns the names."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cert, key = folder / "server.crt", folder / "server.key"
    for source, target in zip(pair, (cert, key)):
        fresh = target.with_suffix(".new")
        fresh.write_bytes(pathlib.Path(source).read_bytes())
        os.chmod(fresh, 0o600)
        fresh.rename(target)
    return cert, key
