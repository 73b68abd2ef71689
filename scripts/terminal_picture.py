#!/usr/bin/env python3
"""Makes docs/terminal.svg from a real run: starts the simulator, runs the commands below in a
pseudo-terminal, and draws what they print. A test of the documentation (`picture`) makes it again and
compares them.

    scripts/terminal_picture.py target/release/cachalot docs/terminal.svg
"""

import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

COLUMNS = 100
LINE_HEIGHT = 18
CHARACTER_WIDTH = 8.4
COLORS = {31: "#f47067", 32: "#8ddb8c", 33: "#f2cc60", 34: "#6cb6ff", 35: "#dcbdfb", 36: "#76e3ea"}

COMMANDS = [
    "cachalot run examples/summarize.yaml > /dev/null",
    "cachalot run examples/summarize.yaml > /dev/null",
    "cachalot spend examples/data/two_days",
]


def run(command, environment, directory):
    """Returns the output of a command on a terminal."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    child = subprocess.Popen(
        ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
        env=environment, cwd=directory, close_fds=True,
    )
    os.close(terminal)
    output = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:
            break
        if not part:
            break
        output += part
    if child.wait() != 0:
        sys.exit(f"{command} failed:\n{output.decode()}")
    return output.decode()


def lines_of(output):
    """Returns the lines that stay on the screen, as lists of (text, style)."""
    lines = []
    for line in output.replace("\r\n", "\n").split("\n"):
        # Spinners rewrite their line: what follows the last return or erasure stays.
        line = re.split(r"\r|\x1b\[2K|\x1b\[[0-9]*[AG]", line)[-1]
        line = re.sub(r"\x1b\[[0-9;?]*[^0-9;?m]", "", line)
        pieces, style = [], {}
        for part in re.split(r"(\x1b\[[0-9;]*m)", line):
            code = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
            if not code:
                if part:
                    pieces.append((part, dict(style)))
                continue
            for number in map(int, filter(None, (code[1] or "0").split(";"))):
                if number == 0:
                    style = {}
                elif number in (1, 2):
                    style[("", "font-weight", "opacity")[number]] = ("", "bold", "0.6")[number]
                elif number in COLORS:
                    style["fill"] = COLORS[number]
        if pieces or (lines and lines[-1]):
            lines.append(pieces)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def cut(pieces):
    """Returns the pieces of a line that fit."""
    room, kept = COLUMNS, []
    for text, style in pieces:
        kept.append((text[:room], style))
        room -= len(text)
        if room <= 0:
            break
    return kept


def draw(lines):
    """Returns the picture."""
    width, height = COLUMNS * CHARACTER_WIDTH + 32, len(lines) * LINE_HEIGHT + 32
    rows = []
    for number, pieces in enumerate(lines):
        spans = "".join(
            "<tspan{}>{}</tspan>".format(
                "".join(f' {name}="{value}"' for name, value in style.items()), html.escape(text)
            )
            for text, style in cut(pieces)
        )
        rows.append(f'<text x="16" y="{number * LINE_HEIGHT + 30}" xml:space="preserve">{spans}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" role="img">'
        f'<rect width="100%" height="100%" rx="8" fill="#1c2128"/>'
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#d0d7de">'
        + "\n".join(rows) + "</g></svg>\n"
    )


def main():
    program, target = (os.path.abspath(path) for path in sys.argv[1:3])
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory() as home:
        for name in ("examples", "docs"):
            os.symlink(os.path.join(root, name), os.path.join(home, name))
        os.symlink(program, os.path.join(home, "cachalot"))
        environment = {
            "PATH": home + os.pathsep + os.environ["PATH"], "HOME": home, "TERM": "xterm-256color",
            "TZ": "UTC", "LANG": "C.UTF-8",
        }
        simulator = subprocess.Popen(
            [program, "simulate", "--port", "0", "--latency", "2s"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True,
        )
        try:
            address = re.search(r"http://\S+", simulator.stdout.readline())[0]
            environment["CACHALOT_EXAMPLE_PROVIDER"] = address + "/v1"
            lines = []
            for command in COMMANDS:
                prompt = [("$ ", {"fill": COLORS[32]}), (command, {"font-weight": "bold"})]
                lines += [[]] * bool(lines) + [prompt] + lines_of(run(command, environment, home))
        finally:
            simulator.terminate()
            simulator.wait()
    with open(target, "w", encoding="utf-8") as file:
        file.write(draw(lines))


if __name__ == "__main__":
    main()
