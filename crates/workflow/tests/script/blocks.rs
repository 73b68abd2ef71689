//! Semantics of a block: names in, result and printed text out.

use cachalot_workflow::script::{Script, ScriptRunner};
use serde_json::{Map, Value, json};

use crate::harness::{self, alone, block, object, python, tests, wait, with_state};

tests!(
    story_report_of_a_hit_runs,
    story_report_of_a_miss_runs,
    story_report_of_an_invalidation_runs,
    block_without_return_gives_its_assigned_names,
    imported_and_private_names_are_not_results,
    nested_return_does_not_make_the_block_return,
    block_with_return_falls_through_to_null,
    last_expression_is_not_a_result,
    state_changes_do_not_affect_the_maps_of_the_caller,
    blocks_do_not_share_names,
    variables_are_available_in_blocks,
    multi_line_strings_are_kept,
    error_lines_are_those_of_the_file,
    printed_text_is_ordered_and_bounded,
    printed_text_before_a_failure_is_kept,
);

const CHECK_RESULT: &str = r#"result = state.get("extraction_result", {})
cache_hit = result.get("_cache_hit", False)

if cache_hit:
  print(f"Cache hit! Created at: {result.get('_cache_created_at')}")
else:
  print("Cache miss - fresh extraction performed")

return {"data": result.get("result", {}).get("data")}
"#;

const REPORT: &str = r#"result = state.get("invalidation_result", {})
return {"deleted": result.get("deleted_count", 0)}
"#;

fn story_report_of_a_hit_runs() {
    wait(async {
        let state = json!({"extraction_result": {
            "_cache_hit": true, "_cache_created_at": "2024-12-24T10:00:00Z",
            "result": {"data": {"total": 12.5, "items": ["a"]}},
        }});
        let ended = with_state(&python(), CHECK_RESULT, state).await.unwrap();
        assert_eq!(
            ended.returned,
            json!({"data": {"total": 12.5, "items": ["a"]}})
        );
        assert_eq!(
            ended.printed,
            "Cache hit! Created at: 2024-12-24T10:00:00Z\n"
        );
    });
}

fn story_report_of_a_miss_runs() {
    wait(async {
        let runner = python();
        let state = json!({"extraction_result": {"_cache_hit": false, "result": {"data": null}}});
        let ended = with_state(&runner, CHECK_RESULT, state).await.unwrap();
        assert_eq!(ended.returned, json!({"data": null}));
        assert_eq!(ended.printed, "Cache miss - fresh extraction performed\n");
        let ended = with_state(&runner, CHECK_RESULT, json!({})).await.unwrap();
        assert_eq!(ended.returned, json!({"data": null}));
    });
}

fn story_report_of_an_invalidation_runs() {
    wait(async {
        let runner = python();
        let state = json!({"invalidation_result": {"success": true, "deleted_count": 3}});
        let ended = with_state(&runner, REPORT, state).await.unwrap();
        assert_eq!(ended.returned, json!({"deleted": 3}));
        let ended = with_state(&runner, REPORT, json!({})).await.unwrap();
        assert_eq!(ended.returned, json!({"deleted": 0}));
    });
}

fn block_without_return_gives_its_assigned_names() {
    wait(async {
        let source = "total = 0\nfor price in state['prices']:\n    total += price\n\
                      if total > 100:\n    never = 1\nfirst, *rest = state['prices']\n";
        let ended = with_state(&python(), source, json!({"prices": [1, 2, 3]}))
            .await
            .unwrap();
        assert_eq!(
            ended.returned,
            json!({"total": 6, "price": 3, "first": 1, "rest": [2, 3]})
        );
    });
}

fn imported_and_private_names_are_not_results() {
    wait(async {
        let source = "import math\n_inside = 1\nsize = len\n\
                      def double(x):\n    y = x * 2\n    return y\n\
                      name = lambda: 1\nstate = {}\nvariables = 5\nshown = double(2)\n\
                      squares = [n * n for n in range(3)]\n";
        let ended = alone(&python(), source).await.unwrap();
        let expected = json!({"shown": 4, "squares": [0, 1, 4]});
        assert_eq!(ended.returned, expected);
    });
}

fn nested_return_does_not_make_the_block_return() {
    wait(async {
        let source = "# return nothing\ncount = []\ndef add():\n    count.append(1)\n    \
                      return count\nadd()\nadd()\n";
        assert_eq!(
            alone(&python(), source).await.unwrap().returned,
            json!({"count": [1, 1]})
        );
    });
}

fn block_with_return_falls_through_to_null() {
    wait(async {
        let runner = python();
        let source = "if state.get('x'):\n    return 1\nstate.get('y')\n";
        assert_eq!(alone(&runner, source).await.unwrap().returned, Value::Null);
        assert_eq!(
            with_state(&runner, source, json!({"x": 1}))
                .await
                .unwrap()
                .returned,
            json!(1)
        );
        assert_eq!(
            alone(&runner, "return").await.unwrap().returned,
            Value::Null
        );
    });
}

fn last_expression_is_not_a_result() {
    wait(async {
        let runner = python();
        for source in [
            "",
            "\n\n",
            "# nothing",
            "1 + 1",
            "print('x')",
            "state.get('x')",
            "pass",
        ] {
            assert_eq!(
                alone(&runner, source).await.unwrap().returned,
                json!({}),
                "{source:?}"
            );
        }
    });
}

fn state_changes_do_not_affect_the_maps_of_the_caller() {
    wait(async {
        let runner = python();
        let (state, variables) = (object(json!({"list": [1]})), object(json!({"n": 1})));
        let script =
            block("state['list'].append(2)\nstate['new'] = 1\nvariables['n'] = 2\nreturn state");
        let ended = runner.run(&script, &state, &variables).await.unwrap();
        assert_eq!(ended.returned, json!({"list": [1, 2], "new": 1}));
        assert_eq!(
            (state, variables),
            (object(json!({"list": [1]})), object(json!({"n": 1})))
        );
    });
}

fn blocks_do_not_share_names() {
    wait(async {
        let runner = harness::python_with(|options| options.workers = 1);
        alone(&runner, "leak = 5\nimport math").await.unwrap();
        let failure = harness::failing(&runner, "return leak").await;
        assert_eq!(failure.message, "NameError: name 'leak' is not defined");
        assert_eq!(
            harness::failing(&runner, "math.floor(1.5)").await.kind,
            "script_error"
        );
        // A program that is compiled once begins anew each time, at its own line.
        let defaults =
            "def add(x, xs=[]):\n    xs.append(x)\n    return xs\nreturn add(state['n'])";
        for n in 1..4 {
            let state = object(json!({ "n": n }));
            let mut script = block(defaults);
            script.first_line = n * 100;
            let ended = runner.run(&script, &state, &Map::new()).await.unwrap();
            assert_eq!(ended.returned, json!([n]));
            let failure = runner
                .run(&script, &Map::new(), &Map::new())
                .await
                .unwrap_err();
            assert_eq!(failure.line, Some(n * 100 + 3));
        }
    });
}

fn variables_are_available_in_blocks() {
    wait(async {
        let variables = object(json!({"limit": 3, "nested": {"a": [true, null]}}));
        let script =
            block("return [variables['limit'], variables['nested'], json.dumps(variables)]");
        let ended = python()
            .run(&script, &Map::new(), &variables)
            .await
            .unwrap();
        let text = r#"{"limit": 3, "nested": {"a": [true, null]}}"#;
        assert_eq!(ended.returned, json!([3, {"a": [true, null]}, text]));
    });
}

fn multi_line_strings_are_kept() {
    wait(async {
        let source = "text = '''a\n  b\n\n    c'''\nname = 'x'\nmore = f\"\"\"one {name}\n two {\n\
                      name!r\n} {'''in\n ner'''}\nend\"\"\"\nglued = 'a\\\n  b'\nthree = 1 + \\\n  2\n\
                      items = [\n1,\n  2,\n]\nraw = r'''\\\n '''\n";
        let expected = json!({
            "text": "a\n  b\n\n    c", "name": "x", "more": "one x\n two 'x' in\n ner\nend",
            "glued": "a  b", "three": 3, "items": [1, 2], "raw": "\\\n ",
        });
        let runner = python();
        assert_eq!(alone(&runner, source).await.unwrap().returned, expected);
        let names = "return dict(text=text, name=name, more=more, glued=glued, three=three, items=items, raw=raw)";
        let ended = alone(&runner, &format!("{source}{names}")).await.unwrap();
        assert_eq!(ended.returned, expected);
        let tabs = "if True:\n\tx = '''\n\ty'''\n\tif x:\n\t\treturn x\n";
        assert_eq!(alone(&runner, tabs).await.unwrap().returned, json!("\n\ty"));
        let windows = "x = 1\r\nif x:\r\n  return '''a\r\nb'''\r\n";
        assert_eq!(
            alone(&runner, windows).await.unwrap().returned,
            json!("a\nb")
        );
    });
}

fn error_lines_are_those_of_the_file() {
    wait(async {
        let runner = python();
        for (source, line, message) in [
            ("x = 1\nraise ValueError('no')", 41, "ValueError: no"),
            (
                "x = 1\nif x:\n\n  return 1 / 0",
                43,
                "ZeroDivisionError: division by zero",
            ),
            ("def f():\n  return {}['k']\nf()", 41, "KeyError: 'k'"),
            (
                "def f():\n  return {}['k']\nreturn f()",
                41,
                "KeyError: 'k'",
            ),
            (
                "x = '''\n\n'''\nreturn y",
                43,
                "NameError: name 'y' is not defined",
            ),
            (
                "x = (1 +\n\n  None)\nreturn x",
                40,
                "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'",
            ),
            ("assert state, 'empty'", 40, "AssertionError: empty"),
            ("assert state", 40, "AssertionError"),
            ("x = 1\ny = (2\n", 41, "SyntaxError: "),
            ("x = 1\n  y = 2\n", 41, "SyntaxError: "),
            ("x = 1\n\nprint('open\n", 42, "SyntaxError: "),
            ("for x in []:\n  pass\nbreak\n", 42, "SyntaxError: "),
            (
                "int('x')\nreturn 1",
                40,
                "ValueError: invalid literal for int() with base 10: 'x'",
            ),
            (
                "raise NotImplementedError('mine')",
                40,
                "NotImplementedError: mine",
            ),
        ] {
            let script = Script {
                source: source.to_owned(),
                first_line: 40,
            };
            let failure = runner
                .run(&script, &Map::new(), &Map::new())
                .await
                .unwrap_err();
            assert_eq!(failure.kind, "script_error", "{source}: {failure}");
            assert_eq!(failure.line, Some(line), "{source}: {failure}");
            assert!(failure.message.starts_with(message), "{source}: {failure}");
            assert!(
                message.ends_with(": ") || failure.message == message,
                "{source}: {failure}"
            );
        }
    });
}

fn printed_text_is_ordered_and_bounded() {
    wait(async {
        let runner = python();
        let source = "print('a', 1, None, sep='-', end='|')\nfor n in range(3):\n    print(n)\nprint()\n\
                      print({'k': 'é'}, [1.0])";
        let ended = alone(&runner, source).await.unwrap();
        assert_eq!(ended.printed, "a-1-None|0\n1\n2\n\n{'k': 'é'} [1.0]\n");
        let ended = alone(&runner, "for _ in range(3000): print('é' * 500)\nreturn 7")
            .await
            .unwrap();
        assert_eq!(ended.returned, json!(7));
        let (kept, notice) = ended.printed.split_at(1024 * 1024 - 1);
        assert!(kept.chars().all(|c| c == 'é' || c == '\n'));
        // 3000 lines of 1001 bytes, less what was kept.
        assert_eq!(
            notice,
            format!(
                "\n[{} more bytes were printed and not kept]\n",
                3_003_000 - 1_048_575
            )
        );
    });
}

fn printed_text_before_a_failure_is_kept() {
    wait(async {
        let failure = harness::failing(&python(), "print('before')\nraise ValueError('x')").await;
        assert_eq!(failure.printed, "before\n");
    });
}
