//! Conversion of values between JSON and Python.

use serde_json::{Value, json};

use crate::harness::{self, alone, python, tests, wait, with_state};

tests!(
    numbers_convert_exactly,
    values_without_json_form_are_refused_by_name,
    tuples_and_int_keys_are_converted_to_json,
    text_of_every_kind_is_passed,
    lone_surrogate_is_refused_by_name,
    several_megabytes_of_state_are_passed,
    deep_values_are_passed_up_to_the_limit,
);

fn numbers_convert_exactly() {
    wait(async {
        let runner = python();
        let numbers = json!([
            0,
            -1,
            i64::MIN,
            i64::MAX,
            u64::MAX,
            9_007_199_254_740_993_u64,
            1.0,
            -0.0,
            0.1,
            0.300_000_000_000_000_04,
            1e300,
            5e-324,
            2.225_073_858_507_201_4e-308,
            1.797_693_134_862_315_7e308,
            123_456_789.123_456_79,
            4.35,
            8.41e21,
        ]);
        let ended = with_state(&runner, "return state['n']", json!({"n": numbers}))
            .await
            .unwrap();
        assert_eq!(ended.returned, numbers);
        assert_eq!(ended.returned.to_string(), numbers.to_string());
        let ended = alone(&runner, "return [0.1 + 0.2, 1 / 3, 2 ** 64 - 1, -2 ** 63]")
            .await
            .unwrap();
        assert_eq!(
            ended.returned,
            json!([0.1 + 0.2, 1.0 / 3.0, u64::MAX, i64::MIN])
        );
    });
}

fn values_without_json_form_are_refused_by_name() {
    wait(async {
        let runner = python();
        for (source, part) in [
            ("return {1, 2}", "the returned value is a value of type set"),
            (
                "return {'a': [0, frozenset()]}",
                "the returned value['a'][1] is a value of type frozenset",
            ),
            (
                "return b'x'",
                "type bytes, which JSON does not have; return value.decode()",
            ),
            (
                "import datetime\nreturn [datetime.date(2020, 1, 1)]",
                "[0] is a value of type date",
            ),
            (
                "import datetime\nreturn datetime.datetime(2020, 1, 1)",
                "type datetime, which JSON does not have; return value.isoformat()",
            ),
            ("return 2 ** 64", "an integer beyond 64 bits"),
            ("return -2 ** 63 - 1", "an integer beyond 64 bits"),
            ("return float('nan')", "the float nan"),
            ("return [float('-inf')]", "the float -inf"),
            (
                "return {(1, 2): 3}",
                "a dict with the key (1, 2) (tuple); keys must be text",
            ),
            ("return {True: 3}", "a dict with the key True (bool)"),
            ("return {None: 3}", "a dict with the key None (NoneType)"),
            ("return {1: 2, '1': 3}", "the same key in JSON"),
            ("x = []\nx.append(x)\nreturn x", "contains itself"),
            (
                "x = []\nfor _ in range(101): x = [x]\nreturn x",
                "nested more than 100 levels deep",
            ),
            (
                "class P:\n  pass\nreturn P()",
                "type P, which JSON does not have; return a dict of its fields",
            ),
            ("return len", "type function"),
            (
                "return range(3)",
                "type range, which JSON does not have; return list(value)",
            ),
            ("import re\nreturn re.match('a', 'a')", "type Match"),
            (
                "return ValueError('x')",
                "type ValueError, which JSON does not have; return str(value)",
            ),
            (
                "seen = set()",
                "seen is a value of type set, which JSON does not have; return sorted(value) or list(value); a name that begins with `_` stays inside",
            ),
        ] {
            let failure = harness::failing(&runner, source).await;
            assert_eq!(failure.kind, "script_error", "{source}");
            assert!(failure.message.contains(part), "{source}: {failure}");
        }
    });
}

fn tuples_and_int_keys_are_converted_to_json() {
    wait(async {
        let source = "from collections import namedtuple, defaultdict\nP = namedtuple('P', 'a b')\n\
                      d = defaultdict(int)\nd['x'] += 1\n\
                      return {'t': (1, (2,)), 'p': P(1, 2), 'd': d, 'k': {1: 'a', -2: 'b'}}";
        let ended = alone(&python(), source).await.unwrap();
        let expected =
            json!({"t": [1, [2]], "p": [1, 2], "d": {"x": 1}, "k": {"1": "a", "-2": "b"}});
        assert_eq!(ended.returned, expected);
    });
}

fn text_of_every_kind_is_passed() {
    wait(async {
        let texts = json!({
            "plain": "a", "lines": "a\nb\r\n\u{2028}", "quotes": "\"'\\", "wide": "é漢🙂",
            "controls": "\0\u{1}\u{7f}", "\0float": "0.5", "\0\0float": {"\0float": "x"}, "": "",
        });
        let ended = with_state(&python(), "return state", texts.clone())
            .await
            .unwrap();
        assert_eq!(ended.returned, texts);
    });
}

fn several_megabytes_of_state_are_passed() {
    wait(async {
        let rows: Vec<Value> = (0..40_000)
            .map(|n| json!({"n": n, "half": n as f64 / 2.0, "text": "x".repeat(100)}))
            .collect();
        let source =
            "return {'rows': state['rows'], 'sum': sum(row['half'] for row in state['rows'])}";
        let ended = with_state(&python(), source, json!({"rows": rows}))
            .await
            .unwrap();
        assert_eq!(ended.returned["rows"], Value::Array(rows));
        assert_eq!(ended.returned["sum"], json!(399_990_000.0));
    });
}

fn deep_values_are_passed_up_to_the_limit() {
    wait(async {
        let runner = python();
        let nested = |levels: usize| (1..levels).fold(json!([0.5]), |inner, _| json!([inner]));
        let ended = with_state(&runner, "return state['x']", json!({"x": nested(99)}))
            .await
            .unwrap();
        assert_eq!(ended.returned, nested(99));
        let ended = alone(&runner, "x = [0.5]\nfor _ in range(99): x = [x]\nreturn x")
            .await
            .unwrap();
        assert_eq!(ended.returned, nested(100));
        let failure = with_state(&runner, "pass", json!({"x": nested(100)}))
            .await
            .unwrap_err();
        assert!(
            failure
                .message
                .contains("`state` is nested more than 100 levels"),
            "{failure}"
        );
    });
}

fn lone_surrogate_is_refused_by_name() {
    wait(async {
        let runner = python();
        for (source, line, escape) in [
            ("x = 1\nreturn '\\ud800'", 2, r"\ud800"),
            ("return {'a': ['''\n\\uDFFF''']}", 2, r"\uDFFF"),
            ("x = '\\U0000dc00'", 1, r"\U0000dc00"),
            ("return f'{1}\\ud83d\\ude00'", 1, r"\ud83d"),
            ("return u'a' '\\ud800'", 1, r"\ud800"),
        ] {
            let failure = harness::failing(&runner, source).await;
            assert_eq!(
                (failure.kind, failure.line),
                ("script_unsupported", Some(line)),
                "{source}"
            );
            assert!(failure.message.contains(escape), "{failure}");
            assert!(failure.message.contains("surrogate"), "{failure}");
        }
        for (source, expected) in [
            ("return '\\U0001F600'", "\u{1f600}"),
            ("return r'\\ud800'", r"\ud800"),
            ("return '\\\\ud800'", r"\ud800"),
            ("return rf'{1}\\ud800'", r"1\ud800"),
            (r#"return json.loads('"\\ud83d\\ude00"')"#, "\u{1f600}"),
            ("return '\u{fffd}'", "\u{fffd}"),
            // A note is no text.
            ("return 'a' # '\\ud800'", "a"),
        ] {
            let ended = alone(&runner, source).await.unwrap();
            assert_eq!(ended.returned, json!(expected), "{source}");
        }
        for source in [r#"return json.loads('"\\ud800"')"#, "return chr(0xd800)"] {
            harness::failing(&runner, source).await;
        }
    });
}
