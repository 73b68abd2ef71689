#!/usr/bin/env python3
"""Runs the suite's scenarios for servers against its reference server: directly, and through the proxy.

usage: scripts/mcp-conformance server [--through-proxy] [--server FILE] [--keep FOLDER]

--through-proxy  also through `cachalot mcp`, on the four pairs of transports. The suite speaks HTTP, so the pairs with
                 stdio are chains of proxies:
                   http-http    suite > proxy > server
                   http-stdio   suite > proxy, whose server is a program that speaks stdio: the proxy of the next pair
                   stdio-http   the inner proxy of that chain: a client at stdin and stdout, a server behind HTTP
                   stdio-stdio  one more proxy between these two, with programs on both sides
--server FILE    the reference server, `examples/servers/typescript/everything-server.ts` of the suite's repository, which
                 is not in its package; without it, it is fetched from the repository
--keep FOLDER    a folder that keeps the installed packages for the next time

CACHALOT         the program to test [default: target/release/cachalot]

Prints the scenarios that pass, of those that a revision requires. The exit code is 1 if the proxy loses one, or if the
reference server itself passes fewer than are known.
"""

import argparse
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = "node@22"
# The reference server belongs to this commit, and to these packages.
SOURCE = (
    "https://raw.githubusercontent.com/modelcontextprotocol/conformance/c321dd3/"
    "examples/servers/typescript/everything-server.ts"
)
PACKAGES = ["@modelcontextprotocol/sdk@1.29.0", "cors@2.8.5", "express@5.2.1", "zod@4.3.6", "tsx@4.7.0"]
# Scenarios that the reference server passes itself, by revision.
DIRECT = {"2025-11-25": 30, "2026-07-28": 30}
PAIRS = ["http-http", "http-stdio", "stdio-http", "stdio-stdio"]
START_TIMEOUT = 60
SUITE_TIMEOUT = 600


def main():
    options = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    options.add_argument("--through-proxy", action="store_true")
    options.add_argument("--server", type=pathlib.Path)
    options.add_argument("--keep", type=pathlib.Path)
    given = options.parse_args()
    proxy = os.environ.get("CACHALOT", ROOT / "target/release/cachalot")
    if given.through_proxy and not pathlib.Path(proxy).exists():
        sys.exit(f"there is no {proxy}; build it, or set CACHALOT")
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(folder, given.server, str(proxy))
        try:
            return run(bench, given.through_proxy)
        finally:
            bench.stop()


def run(bench, through_proxy):
    url = bench.reference_server()
    columns = {"direct": {revision: bench.suite(url, revision) for revision in DIRECT}}
    if through_proxy:
        for pair in PAIRS:
            through = bench.proxies(pair, url)
            columns[pair] = {revision: bench.suite(through, revision) for revision in DIRECT}
    print("| revision | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for revision in DIRECT:
        counts = [f"{len(passed(c[revision]))}/{len(c[revision])}" for c in columns.values()]
        print(f"| {revision} | " + " | ".join(counts) + " |")
    is_good = True
    for revision, known in DIRECT.items():
        direct = passed(columns["direct"][revision])
        if len(direct) < known:
            print(f"{revision}: the reference server passes {len(direct)}, {known} are known", file=sys.stderr)
            is_good = False
        for pair, column in columns.items():
            if lost := sorted(direct - passed(column[revision])):
                print(f"{revision}, {pair}: lost {', '.join(lost)}", file=sys.stderr)
                is_good = False
    return 0 if is_good else 1


def passed(scenarios):
    return {name for name, is_passed in scenarios.items() if is_passed}


class Bench:
    """The installed packages, and the running programs."""

    def __init__(self, folder, server, proxy):
        self.folder = folder
        self.proxy = proxy
        self.running = []
        if not (folder / "node_modules").exists():
            (folder / "package.json").write_text('{"private": true, "type": "module"}\n')
            install = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run([*install, NODE, SUITE, *PACKAGES], cwd=folder, check=True, stdout=sys.stderr)
        self.modules = folder / "node_modules"
        self.node = self.modules / "node/bin/node"
        self.source = folder / "everything-server.ts"
        if server:
            self.source.write_text(server.read_text())
        elif not self.source.exists():
            try:
                with urllib.request.urlopen(SOURCE, timeout=30) as answer:
                    self.source.write_bytes(answer.read())
            except OSError as error:
                sys.exit(f"the reference server cannot be fetched ({error}); name its file with --server")

    def start(self, command, log, **environment):
        with open(self.folder / f"{log}.log", "w") as output:
            started = subprocess.Popen(
                [str(part) for part in command],
                cwd=self.folder,
                env={**os.environ, "PATH": f"{self.node.parent}:{os.environ['PATH']}", **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.running.append(started)

    def stop(self):
        for started in reversed(self.running):
            started.send_signal(signal.SIGTERM)
        for started in self.running:
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)

    def reference_server(self):
        port = free_port()
        self.start([self.node, self.modules / "tsx/dist/cli.mjs", self.source], "server", PORT=str(port))
        wait_for(port)
        return f"http://localhost:{port}/mcp"

    def proxies(self, pair, url):
        port = free_port()
        front = [self.proxy, "mcp", "--quiet", "--listen", f"127.0.0.1:{port}"]
        inner = [self.proxy, "mcp", "--quiet", "--url", url]
        chain = {
            "http-http": [*front, "--url", url],
            "http-stdio": [*front, "--", *inner],
            "stdio-http": [*front, "--", *inner],
            "stdio-stdio": [*front, "--", self.proxy, "mcp", "--quiet", "--", *inner],
        }
        self.start(chain[pair], pair)
        wait_for(port)
        return f"http://127.0.0.1:{port}/mcp"

    def suite(self, url, revision):
        """Returns the scenarios that the revision requires, and whether each passes."""
        command = [self.node, self.modules / "@modelcontextprotocol/conformance/dist/index.js", "server"]
        with tempfile.TemporaryDirectory() as results:
            ran = subprocess.run(
                [*command, "--url", url, "--requirements", revision, "-o", results],
                capture_output=True,
                text=True,
                timeout=SUITE_TIMEOUT,
            )
        summary = ran.stdout.partition("=== SUMMARY ===")[2]
        summary, _, unscored = summary.partition("Not scored")
        marks = re.findall(r"^([✓✗]) (\S+):", summary, re.MULTILINE)
        scenarios = {name: mark == "✓" for mark, name in marks}
        for name in re.findall(r"^  [✓✗] (\S+)", unscored, re.MULTILINE):
            scenarios.pop(name, None)
        if not scenarios:
            sys.exit(f"the suite printed no summary:\n{ran.stdout}\n{ran.stderr}")
        return scenarios


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        for address in ("127.0.0.1", "::1"):
            try:
                socket.create_connection((address, port), 1).close()
                return
            except OSError:
                pass
        time.sleep(0.1)
    sys.exit(f"nothing listens on port {port}")


if __name__ == "__main__":
    sys.exit(main())
