"""Tests of scripts/mcp_conformance/client.py that need no suite."""

import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).parent.parent / "mcp_conformance/client.py"
spec = importlib.util.spec_from_file_location("mcp_conformance_client", SCRIPT)
client = importlib.util.module_from_spec(spec)
spec.loader.exec_module(client)


class Scored(unittest.TestCase):
    def test_the_list_of_clients_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            suite = client.Suite.__new__(client.Suite)
            suite.package = pathlib.Path(folder)
            (suite.package / "requirements").mkdir()
            text = "server:\n  - ping\n\nclient:\n  - tools_call\n  # a remark\n  - auth/basic\n\nnot_scored:\n  - scenario: other\n"
            (suite.package / "requirements/2026-07-28.yaml").write_text(text)
            self.assertEqual(suite.scored("2026-07-28"), ["tools_call", "auth/basic"])


class Calls(unittest.TestCase):
    def tools(self):
        schema = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"enum": ["x"]}}}
        return [{"function": {"name": f"mcp_s_{name}", "parameters": schema}} for name in ("add", "echo")]

    def test_each_tool_is_called_once(self):
        model = client.Model("tools_call", {})
        names = []
        while True:
            _, text = model.answer({"tools": self.tools()})
            message = json.loads(text)["choices"][0]["message"]
            if not message.get("tool_calls"):
                break
            function = message["tool_calls"][0]["function"]
            names.append((function["name"], json.loads(function["arguments"])))
        arguments = {"a": 2, "b": "x"}
        self.assertEqual(names, [("mcp_s_add", arguments), ("mcp_s_echo", arguments)])
        self.assertTrue(model.done.is_set())

    def test_the_calls_of_the_suite_come_first(self):
        context = {"toolCalls": [{"name": "echo", "arguments": {"a": 5}}, {"name": "none", "arguments": {}}]}
        model = client.Model("http-custom-headers", context)
        self.assertEqual(model.plan(self.tools()), [("mcp_s_echo", {"a": 5})])


if __name__ == "__main__":
    unittest.main()
