#!/usr/bin/env python3
"""Tests of scripts/api-drift and of the reader of TypeScript declarations, without network."""

import ast
import datetime
import importlib.machinery
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))
from api_drift import catalog, comparison, declarations, prices, sdks, transcripts  # noqa: E402
from api_drift.typescript import Types  # noqa: E402

LOADER = importlib.machinery.SourceFileLoader("program", str(SCRIPTS / "api-drift"))
program = importlib.util.module_from_spec(importlib.util.spec_from_loader("program", LOADER))
LOADER.exec_module(program)

DECLARATIONS = """
import * as Shared from '../shared';
export declare class Client extends Resource<{ a: string }> {
    create(body: Params, options?: { x: number }): Promise<Answer>;
}
export type Item = Message | Call | Item.Reference | null;
export interface Message { role: 'user' | 'system'; type?: 'message'; }
export interface Call extends Base {
    /** A brace } and a quote ' in a comment. */
    type: 'call';
    arguments: Record<string, unknown>;
}
export interface Base { readonly id: string; [key: string]: unknown; }
export declare namespace Item {
    interface Reference { type: 'reference' | null; }
}
export interface Params {
    /** Body param: text */
    input: string | Array<Item>;
    options?: Params.Options | null;
    'quoted-name'?: Shared.Level;
    inline?: { one: string; two?: Map<string, number>, three: 'x' };
    listed?: (Message | Call)[] | null;
    /** Header param: a list */
    betas?: Array<string>;
    run(input: string): void;
}
export declare namespace Params {
    interface Options { ttl?: '5m' | '1h'; deep?: { deeper: string }; }
}
export type Level = 'low' | Higher;
export type Higher = 'high' | (string & {});
export { type Item as Item, type Params as Params };
"""


class TypeScript(unittest.TestCase):
    def setUp(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "types.d.ts")
            path.write_text(DECLARATIONS)
            self.types = Types(path)

    def test_members_and_those_of_their_types(self):
        members = self.types.members("Params")
        self.assertEqual(set(members), {"input", "options", "quoted-name", "inline", "listed", "betas"})
        self.assertEqual([name for name in members if members[name].is_header], ["betas"])
        nested = {name: set(self.types.nested(member)) for name, member in members.items()}
        self.assertEqual(nested["input"], {"role", "type", "arguments", "id"})
        self.assertEqual(nested["options"], {"ttl", "deep"})
        self.assertEqual(nested["inline"], {"one", "two", "three"})
        self.assertEqual(nested["listed"], {"role", "type", "arguments", "id"})
        self.assertEqual(nested["betas"], set())
        found = comparison.paths(self.types, members, {"input", "listed"})
        self.assertEqual(found, {"input", "options", "options.ttl", "options.deep", "quoted-name", "inline",
                                 "inline.one", "inline.two", "inline.three", "listed"})

    def test_unions(self):
        self.assertEqual(self.types.kinds("Item"), {"message", "call", "reference"})
        self.assertEqual(self.types.kinds("Item", "role"), {"user", "system"})
        self.assertEqual(self.types.kinds_in(self.types.members("Params")["input"]), {"message", "call", "reference"})
        self.assertEqual(self.types.alias_texts("Level"), {"low", "high"})
        self.assertIn("Item.Reference", self.types.reachable("Params"))

    def test_a_missing_type_and_brackets_are_errors(self):
        with self.assertRaises(LookupError):
            self.types.kinds("Absent")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "types.d.ts")
            path.write_text("export interface A { b: {")
            with self.assertRaises(ValueError):
                Types(path)


class Tables(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "members.yaml")
            path.write_text(text)
            return declarations.read_yaml(path)

    def test_mappings_and_flow_collections(self):
        table = self.read(
            "# comment\nrequest:\n  a: {does: nothing, since: in no SDK (x 1)}\n  # comment\n"
            "  b:\n    does: answer\n    members:\n      c: {usual: []}\n"
            'tools:\n  "": {run_by: client}\n  "bash_*": {run_by: client}\nlist: [\n  one, two.three,\n  ":four"\n]\n'
        )
        self.assertEqual(table, {
            "request": {"a": {"does": "nothing", "since": "in no SDK (x 1)"},
                        "b": {"does": "answer", "members": {"c": {"usual": []}}}},
            "tools": {"": {"run_by": "client"}, "bash_*": {"run_by": "client"}},
            "list": ["one", "two.three", ":four"],
        })

    def test_other_forms_are_errors(self):
        for text in ("list:\n  - one\n", "a: |\n  text\n", "a: &anchor b\n", "a: 1\na: 2\n", "a: {b}\n"):
            with self.assertRaises(declarations.Failure, msg=text):
                self.read(text)

    def test_rows_of_the_catalog(self):
        row = declarations.flow("{input: 1.5, above: {tokens: 200000, input: 3}, efforts: [low, high], thinking: none}")
        self.assertEqual(catalog.catalog_prices(row), {"input": Decimal("1.5"), "above.200k.input": Decimal(3)})
        row["changes"] = [{"from": "2026-12-01", "input": "2"}, {"from": "2027-01-01", "input": "4"}]
        current, later = catalog.periods_of(row, datetime.date(2026, 12, 24))
        self.assertEqual((current, later), ({"input": 2}, [("2027-01-01", {"input": 4})]))
        self.assertTrue(catalog.catalog())


class Packages(unittest.TestCase):
    def test_wire_members_of_google(self):
        source = (
            "function generateContentConfigToMldev$1(client, fromObject, parentObject) {\n"
            "    setValueByPath(toObject, ['topP'], fromTopP);\n"
            "    setValueByPath(parentObject, [\n        'serviceTier',\n    ], x);\n}\n"
            "function other(toObject) {\n    setValueByPath(toObject, ['unrelated'], x);\n}\n"
        )
        self.assertEqual(sdks.google_wire(source), {"contents", "model", "generationConfig.topP", "serviceTier"})

    def test_kinds_of_lines_of_claude_code(self):
        with tempfile.TemporaryDirectory() as folder:
            names = [*"abcdefghijklmnopqrs", '"queue-operation"', '"new-kind"']
            table = ",".join(f'{name}:"x"' for name in names)
            rows = 'x.push({type:"row-kind",mode:a,...b&&{c:1},sessionId:d});{type:"no-line",other:1};'
            Path(folder, "claude").write_text("\0{" + table + "}\0" + rows)
            findings = comparison.Findings("package 1")
            transcripts.claude_code(Path(folder), findings)
            self.assertIn("new transcript.claude-code new-kind", findings.entries)
            self.assertIn("new transcript.claude-code row-kind", findings.entries)
            self.assertNotIn("new transcript.claude-code no-line", findings.entries)
            self.assertNotIn("new transcript.claude-code queue-operation", findings.entries)
            Path(folder, "claude").write_text("nothing")
            findings = comparison.Findings("package 1")
            transcripts.claude_code(Path(folder), findings)
            self.assertEqual(findings.entries, ["gone transcript.claude-code readable-names"])

    def test_prices_by_date_and_length(self):
        value = ast.parse(
            "[ConditionalPrice(prices=ModelPrice(input_mtok=TieredPrices(base=Decimal('1'), tiers=[Tier(start=200000,"
            " price=Decimal('2'))]))), ConditionalPrice(constraint=StartDateConstraint(start_date=datetime.date("
            "2026, 12, 1)), prices=ModelPrice(input_mtok=Decimal('4')))]", mode="eval").body
        current, later = prices.genai_periods(value, datetime.date(2026, 11, 30))
        self.assertEqual(current, {"input": 1, "above.200k.input": 2})
        self.assertEqual(later, [("2026-12-01", {"input": 4})])
        self.assertEqual(prices.genai_periods(value, datetime.date(2026, 12, 1)), ({"input": 4}, []))
        clause = "ClauseOr(or_=[ClauseEquals(equals='a'), ClauseRegex(regex='^b-\\\\d$')])"
        clause = ast.parse(clause, mode="eval").body
        self.assertEqual([prices.matches(clause, name) for name in ("a", "b-1", "b")], [True, True, False])

    def test_a_set_that_is_too_small_is_an_error(self):
        findings = comparison.Findings("package 1")
        findings.compare("s", {"a", "b"}, {"b", "c"}, 2)
        self.assertEqual(findings.entries, ["new s a", "gone s c"])
        with self.assertRaises(declarations.Failure):
            findings.compare("s", {"a"}, set(), 2)


class Program(unittest.TestCase):
    def run_on(self, folder, *options):
        command = [sys.executable, str(SCRIPTS / "api-drift"), *options, "--offline", str(folder)]
        return subprocess.run(command, capture_output=True, text=True)

    def test_unjudged_entries_fail_the_check(self):
        with tempfile.TemporaryDirectory() as folder:
            package, judged = Path(folder, "package"), Path(folder, "judged")
            binary = package / "vendor/linux/bin/codex"
            binary.parent.mkdir(parents=True)
            names = ["SessionMeta", "InventedKind", "ResponseItem", "TurnContext", "Compacted", "EventMsg"]
            binary.write_text("".join(f"struct variant RolloutItemWire::{name} with 1 element" for name in names))
            (package / "package.json").write_text(json.dumps({"name": "@openai/codex", "version": "9.9.9"}))
            judged.write_text("# nothing\n")
            done = self.run_on(package, "--check", "--judged", str(judged))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stdout, "@openai/codex 9.9.9: 1 differences, 1 not judged\n"
                                          "  new transcript.codex invented_kind\n")
            judged.write_text("new transcript.codex invented_kind no usage\n")
            done = self.run_on(package, "--check", "--judged", str(judged))
            self.assertEqual((done.returncode, done.stdout), (0, "@openai/codex 9.9.9: 1 differences, 0 not judged\n"))
            for text in ("new transcript.codex invented_kind\n", "other s n why\n", "new s n why\nnew s n why\n"):
                judged.write_text(text)
                done = self.run_on(package, "--judged", str(judged))
                self.assertEqual(done.returncode, 2, text)
            binary.write_bytes(b"nothing")
            judged.write_text("")
            done = self.run_on(package, "--check", "--judged", str(judged))
            self.assertEqual(done.returncode, 1)
            self.assertIn("gone transcript.codex readable-names", done.stdout)
            binary.unlink()
            done = self.run_on(package, "--judged", str(judged))
            self.assertEqual(done.returncode, 2)
            self.assertIn("@openai/codex 9.9.9 cannot be read", done.stderr)

    def test_the_judged_entries_have_reasons(self):
        self.assertTrue(program.judgments(SCRIPTS / "api-drift.judged"))

    def test_the_report_names_reasons(self):
        findings, out = comparison.Findings("p 1"), io.StringIO()
        findings.add("new", "s", "a")
        self.assertEqual(program.report([findings], {"new s a": "a reason"}, True, out), 0)
        self.assertEqual(out.getvalue(), "p 1: 1 differences, 0 not judged\n  new s a  (a reason)\n")


if __name__ == "__main__":
    unittest.main()
