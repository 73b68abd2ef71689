#!/usr/bin/env python3
"""Tests of scripts/docker_agent_examples, without network and without docker-agent."""

import importlib.machinery
import importlib.util
import stat
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parent.parent
LOADER = importlib.machinery.SourceFileLoader("docker_agent_examples", str(SCRIPTS / "docker_agent_examples"))
examples = importlib.util.module_from_spec(importlib.util.spec_from_loader("docker_agent_examples", LOADER))
LOADER.exec_module(examples)


class Faults(unittest.TestCase):
    def test_problems_without_a_replacement_are_faults(self):
        def problem(code, message, remedy):
            return {"code": code, "message": message, "help": remedy}

        document = {"problems": [
            problem("unknown-toolset", "there is no toolset of type `a2a`", "define the agent in this file"),
            problem("unknown-key", "unknown key `x`", "expected one of: a, b"),
            problem("unknown-model", "there is no provider `x`: expected one of: a, b", None),
            problem("bad-value", "it is wrong", None),
        ]}
        self.assertEqual([fault["code"] for fault in examples.faults(document)], ["unknown-key", "bad-value"])

    def test_newest_version_is_the_largest(self):
        listed = "a\trefs/tags/v1.9.0\nb\trefs/tags/v1.125.1\nc\trefs/tags/v.1.5.9\nd\trefs/tags/v2.0.0-rc1\n"
        self.assertEqual(examples.newest(listed), "v1.125.1")


class Examples(unittest.TestCase):
    def check(self, document):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            program = folder / "program"
            program.write_text(f"#!/bin/sh\necho '{document}'\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            (folder / "agent.yaml").write_text("agents: {}\n")
            (folder / "other.yaml").write_text("openapi: 3.1.0\n")
            return examples.check(str(program), folder)

    def test_valid_file_has_no_faults(self):
        self.assertEqual(self.check('{"valid": true, "problems": []}'), 0)

    def test_refused_file_is_a_fault_without_a_replacement(self):
        problem = '{"code": "bad-value", "message": "x", "line": 1, "help": %s}'
        self.assertEqual(self.check('{"valid": false, "problems": [%s]}' % (problem % "null")), 1)
        self.assertEqual(self.check('{"valid": false, "problems": [%s]}' % (problem % '"y"')), 0)


if __name__ == "__main__":
    unittest.main()
