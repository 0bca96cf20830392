"""A real browser, Debian's Chromium, and web pages that report the requests that succeeded."""

import contextlib
import http.server
import json
import pathlib
import queue
import shutil
import subprocess
import tempfile
import threading

from servers import dying_with_us

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-popup-blocking", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-default-apps", "--no-default-browser-check"]


def program():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise RuntimeError("Chromium is missing: apt-get install -y chromium")
    return found


class Site:
    """A web site on a loopback port, with a page whose script ends with `report(…)`."""

    def __init__(self):
        self.reports = queue.Queue()
        self.script = ""
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                page = f"<!doctype html><meta charset=utf-8><body><script>{REPORT}\n(async () => {{ {site.script} }})()" \
                       ".catch((error) => report({failed: String(error)}))</script>"
                self.reply(page.encode(), "text/html")

            def do_POST(self):
                site.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.reply(b"", "text/plain")

            def reply(self, body, kind):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


REPORT = """
const report = (what) => fetch("/report", {method: "POST", body: JSON.stringify(what)});
const attempt = async (what) => {
  try {
    const answer = await what();
    return {type: answer.type, status: answer.status, text: answer.type === "opaque" ? "" : await answer.text()};
  } catch (error) { return {error: String(error)}; }
};
const image = (url) => new Promise((done) => {
  const it = new Image();
  it.onload = () => done("loaded");
  it.onerror = () => done("error");
  it.src = url;
});
const form = (url, fields, type) => new Promise((done) => {
  const frame = document.createElement("iframe");
  frame.name = "frame" + Math.random();
  const it = document.createElement("form");
  Object.assign(it, {method: "POST", action: url, target: frame.name, enctype: type || "application/x-www-form-urlencoded"});
  for (const [name, value] of Object.entries(fields)) {
    const input = document.createElement("input");
    Object.assign(input, {type: "hidden", name, value});
    it.append(input);
  }
  document.body.append(frame, it);
  it.submit();
  setTimeout(() => done("sent"), 1000);
});
"""


@contextlib.contextmanager
def browsing(url, *flags):
    """Chromium on a page, with a new profile, until the end of the block."""
    profile = pathlib.Path(tempfile.mkdtemp(prefix="stratalog-chromium-"))
    log = open(profile / "log", "wb")
    command = [*dying_with_us("KILL"), program(), *FLAGS, *flags, f"--user-data-dir={profile}", url]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield profile
    finally:
        process.kill()
        process.wait()
        log.close()
        shutil.rmtree(profile, ignore_errors=True)


def reported(site, script, host="127.0.0.1", seconds=60):
    """The report of a page of the site; `host` is a name that the browser resolves to this machine."""
    site.script = script
    rules = "--host-resolver-rules=MAP *.example 127.0.0.1"
    with browsing(f"http://{host}:{site.port}/", rules):
        return site.reports.get(timeout=seconds)


def shown(url, *flags):
    """The page of a URL, as rendered by the browser."""
    profile = tempfile.mkdtemp(prefix="stratalog-chromium-")
    rules = "--host-resolver-rules=MAP *.example 127.0.0.1"
    try:
        done = subprocess.run([program(), *FLAGS, rules, *flags, f"--user-data-dir={profile}", "--dump-dom", url],
                              capture_output=True, text=True, timeout=60)
        return done.stdout
    finally:
        shutil.rmtree(profile, ignore_errors=True)
