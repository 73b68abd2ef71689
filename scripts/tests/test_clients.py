#!/usr/bin/env python3
"""Tests of scripts/clients, without network and without the programs."""

import importlib.machinery
import importlib.util
import json
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parent.parent
LOADER = importlib.machinery.SourceFileLoader("clients", str(SCRIPTS / "clients"))
clients = importlib.util.module_from_spec(importlib.util.spec_from_loader("clients", LOADER))
# Data classes look their module up.
sys.modules["clients"] = clients
LOADER.exec_module(clients)

RECORDED = """hello from the program
cachalot: 3 requests, 0 answered from the recording `task`; paid $0.09, saved $0.00
model                    requests  hits   paid  saved
anthropic/claude-opus-5         2     0  $0.09  $0.00
asked for:
  2  not in the cache
refused:
  1  the upstream answered 404
"""
REPLAYED = """cachalot: 1,002 requests, 1,001 replayed from the recording `task`; paid $0.00, saved $0.09
model           requests  hits   paid  saved
openai/gpt-5.4         2     1  $0.00  $0.09
not in the recording `task`:
  1  the provider runs the tool `web_search`
"""


class Bills(unittest.TestCase):
    def bill(self, errors):
        return clients.Outcome(0, "", errors, "").bill()

    def test_asked_requests_are_counted(self):
        self.assertEqual(self.bill(RECORDED), (0, {"not in the cache": 2}))

    def test_replayed_requests_and_reasons_are_counted(self):
        self.assertEqual(self.bill(REPLAYED), (1001, {"the provider runs the tool `web_search`": 1}))

    def test_a_run_without_a_bill_is_a_miss(self):
        self.assertEqual(self.bill("killed\n"), (0, {"no bill was printed: killed": 1}))


class Differences(unittest.TestCase):
    def test_everything_that_a_user_notices_is_compared(self):
        recorded = clients.Outcome(0, "a", "x", "n")
        self.assertEqual(clients.differences_of(recorded, clients.Outcome(0, "a", "y", "n")), [])
        found = clients.differences_of(recorded, clients.Outcome(1, "b", "x", "m"))
        self.assertEqual(found, ["exit code 1", "another output", "another file"])


class Declarations(unittest.TestCase):
    def test_the_script_of_the_simulator_has_the_calls_of_all_programs(self):
        rules = json.loads(clients.simulator_script())["rules"]
        called = {call["name"] for rule in rules for step in rule["steps"] for call in step.get("tool_calls", [])}
        self.assertEqual(called, {name for _tools, name, _arguments in clients.READ_CALLS} | {"llm_version"})

    def test_the_document_has_the_declared_programs(self):
        text = (SCRIPTS.parent / "docs/clients.md").read_text()
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        for name, client in clients.CLIENTS.items():
            begins = clients.row_text([client.title, client.version, client.setup, client.by_hand])
            self.assertTrue(any(row.startswith(begins[:-1]) for row in rows), f"{name} is not in the document")


if __name__ == "__main__":
    unittest.main()
