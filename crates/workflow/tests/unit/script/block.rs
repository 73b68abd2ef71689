//! Unit tests of `src/script/block.rs`.

use super::super::interpreter;
use super::super::programs::ProgramCache;
use super::super::wire::{Interpreter, ReceivedRequest};
use super::super::{ScriptFailure, ScriptResult};
use super::*;
use proptest::prelude::*;
use serde_json::{Map, json};

fn run(source: String, first_line: u32) -> Result<ScriptResult, ScriptFailure> {
    let block = ReceivedRequest {
        number: 1,
        interpreter: Interpreter::Python,
        source,
        first_line,
        state: Map::new(),
        variables: Map::new(),
        time_limit_ms: 10_000,
        most_printed: 1_000,
        now: 0,
        compile_only: false,
    };
    interpreter::run(block, 0, &mut ProgramCache::default())
}

#[test]
fn only_lines_outside_of_strings_are_indented() {
    let source = "if x:\n  y = '''a\n b\n'''\n\n  return f\"\"\"{\n1}\n\"\"\"";
    let program = prepare(source, false).unwrap();
    let expected = "def __block__(state, variables, json):\n if x:\n   y = '''a\n b\n\
                        '''\n\n   return f\"\"\"{\n1}\n\"\"\"\n\n__block__(state, variables, json)\n";
    assert_eq!(program.text.strip_prefix(PRELUDE), Some(expected));
    assert_eq!((program.lines, program.names), (8, false));
    let first = program.lines_before + 1;
    assert_eq!(program.text.lines().nth(first as usize - 1), Some(" if x:"));
    assert_eq!(program.line_of_block(first), Some(1));
    assert_eq!(program.line_of_block(first + 7), Some(8));
    assert_eq!(program.line_of_block(first - 1), None);
    assert_eq!(program.line_of_block(first + 8), None);
}

#[test]
fn assigned_names_of_a_block_are_listed() {
    let source = "a = b\n(c, d), *e = f\ng += 1\nfor h in i: pass\nwith j as k: pass\n(l := 1)\n\
                      [m for m in n]\n_o = p.q = 1\nimport r\nstate = 1\ndef s(t): u = 1\n";
    let parsed = parse(source).unwrap();
    assert_eq!(
        assigned_names(parsed.suite()),
        ["a", "c", "d", "e", "g", "h", "k", "l", "m", "u"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn text_in_triple_quotes_is_kept(
        text in r#"[a '"\n\t#(\\{}é]{0,40}"#,
        has_return in any::<bool>(),
    ) {
        let plain = text.replace('\\', r"\\").replace('\'', r"\'");
        let formatted = plain.replace('{', "{{").replace('}', "}}");
        let last = if has_return { "return {'x': x, 'y': y}" } else { "pass" };
        let source = format!("if 1:\n  x = '''{plain}'''\ny = f'''{formatted}{{1}}'''\n{last}");
        let ended = run(source, 1).unwrap();
        prop_assert_eq!(ended.returned, json!({"x": text, "y": format!("{text}1")}));
    }

    #[test]
    fn every_line_keeps_its_number_in_the_program(
        before in 0_u32..30,
        after in 0_u32..5,
        first_line in 1_u32..1_000,
        has_return in any::<bool>(),
    ) {
        let filler = ["x = 1\n", "\n", "# note\n", "y = '''\n\n'''\n", "z = (1,\n  2)\n"];
        let lines = |count_lines: u32| (0..count_lines).map(|n| filler[(n % 5) as usize]).collect::<String>();
        let (head, tail) = (lines(before), lines(after));
        let last = if has_return { "return 1" } else { "" };
        let source = format!("{head}raise ValueError()\n{tail}{last}");
        let expected = first_line + u32::try_from(head.lines().count()).unwrap();
        prop_assert_eq!(run(source, first_line).unwrap_err().line, Some(expected));
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in r#"[a-c=:()\[\]{}'"\n \\fr#.]{0,60}"#) {
        let _: Result<Program, BlockError> = prepare(&text, false);
        let _: Result<ScriptResult, ScriptFailure> = run(text, 1);
    }
}
