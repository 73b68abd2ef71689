//! Conversion of values between JSON and Python.

use serde_json::{Value, json};

use crate::harness::{self, alone, python, tests, wait, with_state};

tests!(
    numbers_convert_exactly,
    values_without_json_form_are_refused_by_name,
    tuples_and_int_keys_are_converted_to_json,
    text_of_every_kind_is_passed,
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
        let ended = alone(
            &runner,
            "return [0.1 + 0.2, 1 / 3, 9223372036854775807 * 2 + 1, -9223372036854775808]",
        )
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
            (
                "return {'a': [0, len]}",
                "the returned value['a'][1] is a value of type function",
            ),
            (
                "return [lambda: 1]",
                "[0] is a value of type function, which JSON does not have; return text",
            ),
            (
                "return 9223372036854775807 * 3",
                "an integer beyond 64 bits",
            ),
            (
                "return -9223372036854775808 - 1",
                "an integer beyond 64 bits",
            ),
            ("return [float('-inf')]", "the float -inf"),
            (
                "return {(1, 2): 3}",
                "a dict with the key (1, 2) (tuple); keys must be text",
            ),
            ("return {None: 3}", "a dict with the key None (NoneType)"),
            ("return {1: 2, '1': 3}", "the same key in JSON"),
            ("x = []\nx.append(x)\nreturn x", "contains itself"),
            (
                "x = []\nfor _ in range(101): x = [x]\nreturn x",
                "nested more than 100 levels deep",
            ),
            ("return len", "type function"),
            (
                "seen = [len]",
                "seen[0] is a value of type function, which JSON does not have; return text, numbers, lists and dicts; a name that begins with `_` stays inside",
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
        let source = "return {'t': (1, (2,)), 'k': {1: 'a', -2: 'b'}}";
        let ended = alone(&python(), source).await.unwrap();
        let expected = json!({"t": [1, [2]], "k": {"1": "a", "-2": "b"}});
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
        let source = "total = 0\nfor row in state['rows']: total += row['half']\nreturn {'rows': state['rows'], 'sum': total}";
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
