#!/usr/bin/env python3
"""Tests of scripts/packages with a small program in C, without a registry."""

import base64
import csv
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
ROOT = SCRIPTS.parent
LOADER = importlib.machinery.SourceFileLoader("packages", str(SCRIPTS / "packages"))
packages = importlib.util.module_from_spec(importlib.util.spec_from_loader("packages", LOADER))
# Data classes look their module up.
sys.modules["packages"] = packages
LOADER.exec_module(packages)

VERSION = packages.workspace()["version"]
# Does what `check` asks of the program, and ends as its arguments say.
PROGRAM = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void end(int signal) { (void)signal; _exit(43); }
int main(int count, char **words) {
    const char *first = count > 1 ? words[1] : "";
    if (!strcmp(first, "--version")) { puts("cachalot VERSION"); return 0; }
    if (!strcmp(first, "exit")) return atoi(words[2]);
    if (!strcmp(first, "raise")) { raise(atoi(words[2])); return 0; }
    if (!strcmp(first, "catch")) signal(atoi(words[2]), end);
    if (!strcmp(first, "catch") || !strcmp(first, "simulate")) { puts("ready"); fflush(stdout); for (;;) pause(); }
    fputs("no such command\n", stderr);
    return 2;
}
""".replace("VERSION", VERSION)
HEADERS = """
Dynamic Section:
  NEEDED               libgcc_s.so.1
  NEEDED               libc.so.6
  NEEDED               ld-linux-x86-64.so.2

Version References:
  required from libc.so.6:
    0x06969189 0x00 25 GLIBC_2.29
    0x09691a75 0x00 05 GLIBC_2.2.5
  required from libgcc_s.so.1:
    0x0b792650 0x00 03 GCC_3.0
"""


class WheelTags(unittest.TestCase):
    def tags(self, headers):
        return packages.linux_tags("x86_64", headers)

    def test_newest_needed_version_of_the_c_library_is_the_tag(self):
        self.assertEqual(self.tags(HEADERS), ["manylinux_2_29_x86_64"])

    def test_feature_of_the_loader_without_a_symbol_counts(self):
        self.assertEqual(self.tags(HEADERS + "    0x00fd0e42 0x00 32 GLIBC_ABI_DT_RELR\n"), ["manylinux_2_36_x86_64"])
        with self.assertRaisesRegex(SystemExit, "DT_NEW is not known"):
            self.tags(HEADERS + "    0x00fd0e42 0x00 32 GLIBC_ABI_DT_NEW\n")

    def test_library_that_not_every_linux_has_is_refused(self):
        with self.assertRaisesRegex(SystemExit, r"not every Linux has: libssl\.so\.3"):
            self.tags(HEADERS + "  NEEDED               libssl.so.3\n")

    def test_program_without_libraries_runs_with_every_c_library(self):
        self.assertEqual(self.tags(""), ["manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"])


class Versions(unittest.TestCase):
    def test_pre_releases_are_spelled_as_python_does(self):
        for version, expected in [("1.2.3", "1.2.3"), ("1.0.0-rc.2", "1.0.0rc2"), ("1.0.0-beta1", "1.0.0b1")]:
            self.assertEqual(packages.python_version(version), expected)


class Release(unittest.TestCase):
    def test_every_platform_of_the_release_has_packages(self):
        workflow = (ROOT / ".github/workflows/release.yml").read_text()
        self.assertEqual(set(re.findall(r"\{target: ([\w-]+)", workflow)), set(packages.TARGETS))

    def test_archives_that_cargo_binstall_fetches_are_those_of_the_release(self):
        workflow = (ROOT / ".github/workflows/release.yml").read_text()
        manifest = (ROOT / "crates/cli/Cargo.toml").read_text()
        urls = re.findall(r'^pkg-url = "\{ repo \}/releases/download/v\{ version \}/(.*)"$', manifest, re.MULTILINE)
        self.assertEqual(urls, ["cachalot-{ target }.tar.gz", "cachalot-{ target }.zip"])
        self.assertIn('bin-dir = "cachalot-{ target }/{ bin }{ binary-ext }"', manifest)
        packed = [line.strip() for line in workflow.splitlines()]
        self.assertIn("name=cachalot-${{ matrix.target }}", packed)
        self.assertIn('*windows*) 7z a "$name.zip" "$name" ;;', packed)
        self.assertIn('*) tar -czf "$name.tar.gz" "$name" ;;', packed)


@unittest.skipUnless(packages.host() in packages.TARGETS, "there are no packages for this machine")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.home = pathlib.Path(cls.folder.name)
        cls.program, cls.out = cls.home / "program", cls.home / "dist"
        compile = ["cc", "-x", "c", "-o", cls.program, "-"]
        subprocess.run(compile, input=PROGRAM, text=True, check=True)
        cls.wheel, cls.platform, cls.launcher = packages.build(cls.program, packages.host(), cls.out)

    def test_packages_are_the_same_each_time(self):
        for path in packages.build(self.program, packages.host(), self.home / "again"):
            self.assertEqual(path.read_bytes(), (self.out / path.name).read_bytes(), path.name)

    def test_wheel_lists_its_files_and_has_the_licenses(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            record = next(name for name in wheel.namelist() if name.endswith("/RECORD"))
            rows = {path: digest for path, digest, _ in csv.reader(wheel.read(record).decode().splitlines())}
            self.assertEqual(sorted(rows), sorted(wheel.namelist()))
            for path, digest in rows.items():
                if path != record:
                    found = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(path)).digest()).rstrip(b"=")
                    self.assertEqual(digest, f"sha256={found.decode()}", path)
            for license in packages.LICENSES:
                self.assertEqual(wheel.read(record.replace("RECORD", f"licenses/{license}")), (ROOT / license).read_bytes())
            about = wheel.read(record.replace("RECORD", "METADATA")).decode()
        self.assertIn(f"/blob/v{VERSION}/docs/tutorial.md)", about)
        self.assertIn(f"/raw/v{VERSION}/docs/terminal.svg)", about)
        self.assertNotRegex(about, r"\]\((?!https?:|#)")

    def test_packages_of_npm_name_platforms_and_each_other(self):
        def read(path):
            with tarfile.open(path) as archive:
                return json.load(archive.extractfile("package/package.json")), archive.getnames()
        platform, files = read(self.platform)
        self.assertIn("package/bin/cachalot", files)
        self.assertEqual(platform["os"], [sys.platform])
        launcher, files = read(self.launcher)
        self.assertEqual(launcher["optionalDependencies"][platform["name"]], platform["version"])
        self.assertEqual(len(launcher["optionalDependencies"]), len(packages.TARGETS))
        self.assertLessEqual({f"package/{license}" for license in packages.LICENSES}, set(files))

    def test_installed_programs_run_and_a_different_one_is_found(self):
        installed = packages.install(self.out, self.home)
        packages.compare(installed, self.home)
        other = self.home / "other"
        for wrong, reported in [("return 2;", "no-such-command` ends differently"), (f"cachalot {VERSION}", "--version` ended")]:
            source = PROGRAM.replace(wrong, "return 3;" if wrong == "return 2;" else "cachalot 0.0.0")
            subprocess.run(["cc", "-x", "c", "-o", other, "-"], input=source, text=True, check=True)
            with self.assertRaisesRegex(SystemExit, reported):
                packages.compare({"first": self.program, **installed, "other": other}, self.home)


@unittest.skipUnless(shutil.which("node") and sys.platform == "linux", "Node.js is not there, or the packages are others")
class Launcher(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        (self.home / "package.json").write_text(json.dumps({"name": "cachalot-cli", "version": VERSION}))
        shutil.copy(SCRIPTS / "npm/cachalot.js", self.home)
        self.name = packages.TARGETS[packages.host()].package

    def install(self, name, interpreter=None):
        """Installs the program as the package `name`; with another loader, as that of another C library."""
        program = self.home / "node_modules" / name / "bin/cachalot"
        program.parent.mkdir(parents=True)
        loader = [f"-Wl,--dynamic-linker={interpreter}"] if interpreter else []
        subprocess.run(["cc", "-x", "c", *loader, "-o", program, "-"], input=PROGRAM, text=True, check=True)

    def start(self, *arguments):
        words = ["node", self.home / "cachalot.js", *arguments]
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        return child

    def ends(self, *arguments):
        child = self.start(*arguments)
        output, errors = child.communicate(timeout=60)
        return child.returncode, output, errors

    def test_code_signal_and_output_are_those_of_the_program(self):
        self.install(self.name)
        self.assertEqual(self.ends("--version"), (0, f"cachalot {VERSION}\n", ""))
        self.assertEqual(self.ends("exit", "7"), (7, "", ""))
        self.assertEqual(self.ends(), (2, "", "no such command\n"))
        for end in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
            self.assertEqual(self.ends("raise", str(int(end)))[0], -end)

    def test_signals_reach_the_program(self):
        self.install(self.name)
        for sent in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            child = self.start("catch", str(int(sent)))
            self.assertEqual(child.stdout.readline(), "ready\n")
            child.send_signal(sent)
            child.communicate(timeout=60)
            self.assertEqual(child.returncode, 43, sent)

    def test_interrupt_key_of_a_terminal_reaches_the_program(self):
        # Other systems have no such module.
        import pty
        self.install(self.name)
        child, terminal = pty.fork()
        if child == 0:
            os.execvp("node", ["node", str(self.home / "cachalot.js"), "catch", str(int(signal.SIGINT))])
        self.addCleanup(os.close, terminal)
        output = b""
        while b"ready" not in output:
            output += os.read(terminal, 100)
        os.write(terminal, b"\x03")
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 43)

    def test_package_of_the_other_c_library_is_used_where_the_first_one_cannot_start(self):
        self.install(self.name, interpreter="/nowhere/ld.so")
        self.install(f"{self.name}-musl")
        self.assertEqual(self.ends("exit", "7")[0], 7)

    def test_missing_package_is_named(self):
        code, _, errors = self.ends("--version")
        self.assertEqual(code, 1)
        self.assertIn(f"npm install cachalot-cli@{VERSION}", errors)


if __name__ == "__main__":
    unittest.main()
