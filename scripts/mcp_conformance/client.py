#!/usr/bin/env python3
"""Runs the client scenarios of the official MCP conformance suite with a built binary of Cachalot.

    client.py [--binary PATH] [--suite FOLDER] [--revision REVISION]... [--jobs N] [--keep FOLDER] [SCENARIO...]

Prints a table of the scored scenarios of both revisions, and exits with 1 if fewer pass than GOALS say. Installs
Node.js and the suite from the npm registry into FOLDER (a temporary one without --suite), unless they are there.

The suite starts this script as the client under test, with `--drive BINARY URL`: it then runs a chat whose model is
simulated here and calls the tools that a scenario wants.
"""

import argparse
import concurrent.futures
import http.server
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import threading
import time

PACKAGES = ["node@22", "@modelcontextprotocol/conformance@0.2.0-alpha.12"]

# Scored scenarios that must pass, by revision.
GOALS = {"2025-11-25": 18, "2026-07-28": 32}

TIMEOUT = 60


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--drive"]:
        sys.exit(drive(arguments[1], arguments[-1]))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    parser.add_argument("--binary", default=root / "target/debug/cachalot", type=pathlib.Path)
    parser.add_argument("--suite", type=pathlib.Path)
    parser.add_argument("--revision", action="append", choices=list(GOALS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path, help="keeps the output of the runs here")
    parser.add_argument("scenarios", nargs="*")
    options = parser.parse_args(arguments)
    binary = options.binary.resolve()
    if not binary.is_file():
        sys.exit(f"{binary} does not exist; build it with `cargo build`")
    with tempfile.TemporaryDirectory() as temporary:
        suite = Suite((options.suite or pathlib.Path(temporary) / "suite").resolve())
        keep = options.keep or pathlib.Path(temporary) / "out"
        sys.exit(run(suite, binary, options, keep.resolve()))


class Suite:
    """The installed suite."""

    def __init__(self, folder):
        modules = folder / "node_modules"
        self.package = modules / "@modelcontextprotocol/conformance"
        self.node = modules / "node/bin/node"
        if not self.package.is_dir() or not self.node.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            print(f"installing {' '.join(PACKAGES)} in {folder}", file=sys.stderr)
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
            subprocess.run(command + PACKAGES, check=True)

    def scored(self, revision):
        """The scored scenarios of clients: the list `client` of a file of requirements."""
        text = (self.package / f"requirements/{revision}.yaml").read_text()
        section = re.search(r"^client:\n((?:(?:  - .*|\s*#.*|)\n)+)", text, re.M)
        return re.findall(r"^  - (\S+)", section.group(1), re.M)

    def run(self, command, scenario, revision, output):
        """Runs a scenario; returns its exit code and output."""
        line = [self.node, self.package / "dist/index.js", "client"]
        line += ["--command", command, "--scenario", scenario, "--spec-version", revision]
        line += ["--timeout", str(TIMEOUT * 1000), "--output-dir", output, "--verbose"]
        environment = {**os.environ, "PATH": f"{self.node.parent}:{os.environ['PATH']}"}
        ran = subprocess.run(
            [str(word) for word in line], capture_output=True, text=True, env=environment, timeout=3 * TIMEOUT
        )
        return ran.returncode, ran.stdout + ran.stderr


def run(suite, binary, options, keep):
    command = f"{sys.executable} {pathlib.Path(__file__).resolve()} --drive {binary}"
    planned = []
    for revision in options.revision or list(GOALS):
        for scenario in suite.scored(revision):
            if not options.scenarios or scenario in options.scenarios:
                planned.append((revision, scenario))

    def attempt(plan):
        revision, scenario = plan
        output = keep / revision / scenario.replace("/", "-")
        output.mkdir(parents=True, exist_ok=True)
        try:
            code, text = suite.run(command, scenario, revision, output)
        except subprocess.TimeoutExpired:
            code, text = 1, "timed out"
        (output / "output.txt").write_text(text)
        return code == 0

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        passed = dict(zip(planned, pool.map(attempt, planned)))
    below = False
    for revision in dict.fromkeys(revision for revision, _ in planned):
        results = {name: ok for (of, name), ok in passed.items() if of == revision}
        count = sum(results.values())
        print(f"\n{revision}: {count} of {len(results)} scored client scenarios pass")
        for name, ok in results.items():
            print(f"  {'pass' if ok else 'FAIL'}  {name}")
        goal = len(results) if options.scenarios else GOALS[revision]
        below |= count < goal
        if count < goal:
            print(f"  below the goal of {goal}")
    return 1 if below else 0


def drive(binary, url):
    """Is the client of a scenario: a chat with a simulated model."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if scenario.startswith("auth/"):
        client = pathlib.Path(__file__).with_name("auth_client.sh")
        environment = {**os.environ, "CACHALOT": binary}
        return subprocess.run([client, url], env=environment, stdin=subprocess.DEVNULL).returncode
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = Model(scenario, context)
        (folder / "workspace").mkdir()
        agent = folder / "agent.yaml"
        server = {"url": url, "required": True, **server_settings(scenario, context)}
        agent.write_text(json.dumps({
            "mcps": {"s": server},
            "models": {"m": {"provider": "openai", "model": "gpt-4o", "format": "chat"}},
            "agents": {"root": {"model": "m", "toolsets": [{"type": "mcp", "ref": "s"}]}},
        }))
        environment = {
            **os.environ,
            "OPENAI_API_KEY": "key",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{model.port}/v1",
            "NO_COLOR": "1",
            "TERM": "dumb",
            **{name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")},
        }
        command = [binary, "chat", str(agent), "--yes", "-v", "--workspace", str(folder / "workspace")]
        if scenario.startswith("elicitation"):
            return in_terminal(command, environment, model)
        command += ["-p", "go"]
        ran = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, timeout=TIMEOUT)
        return ran.returncode


def server_settings(scenario, context):
    """Further settings of the server of a scenario."""
    return {}


class Model:
    """A simulated model, which calls the tools that a scenario wants, one after the other."""

    def __init__(self, scenario, context):
        self.scenario, self.context = scenario, context
        self.calls = None
        self.done = threading.Event()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
                kind, text = model.answer(body)
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def plan(self, tools):
        """The calls: those that the suite names, or one of each tool."""
        functions = {tool["function"]["name"]: tool["function"] for tool in tools}
        wanted = []
        for call in self.context.get("toolCalls", []):
            names = [name for name in functions if name.endswith("_" + call["name"])]
            wanted += [(name, call["arguments"]) for name in names[:1]]
        if wanted:
            return wanted
        if self.scenario == "json-schema-2020-12-preservation":
            echo = [name for name in functions if "echo" in name]
            shown = [function for name, function in functions.items() if "echo" not in name]
            return [(echo[0], {"schema": shown[0]["parameters"]})] if echo and shown else []
        return [(name, example(function.get("parameters") or {})) for name, function in functions.items()]

    def answer(self, request):
        if self.calls is None:
            self.calls = self.plan(request.get("tools", []))
        message, reason = {"role": "assistant", "content": "done"}, "stop"
        if self.calls:
            name, arguments = self.calls.pop(0)
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"call_{len(self.calls)}", "type": "function", "function": function}
            message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        else:
            self.done.set()
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        base = {"id": "c", "created": 1, "model": "gpt-4o"}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            text = json.dumps({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return "application/json", text.encode()
        chunk = {**base, "object": "chat.completion.chunk"}
        chunks = [
            {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {**chunk, "choices": [], "usage": usage},
        ]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        return "text/event-stream", text.encode()


def example(schema):
    """A value of a JSON Schema."""
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        return {name: example(value) for name, value in properties.items() if isinstance(value, dict)}
    return {"number": 2, "integer": 2, "boolean": True, "array": []}.get(kind, "x")


def in_terminal(command, environment, model):
    """Runs a chat in a terminal, whose user accepts the default of every field."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(command[0], command, environment)
    shown, answered, began = "", 0, False
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if ready:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data.decode(errors="replace")
            sys.stderr.write(data.decode(errors="replace"))
        elif not began:
            os.write(terminal, b"go\r")
            began = True
        elif shown.count("answer (") > answered:
            answered += 1
            os.write(terminal, b"\r")
        elif model.done.is_set():
            os.write(terminal, b"\x04")
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
