#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use serde_json::json;

fn evaluated(data: &Value, expression: &str) -> Value {
    search(data, expression).unwrap_or_else(|fault| match fault {
        QueryError::Expression(what) | QueryError::Evaluation(what) => {
            panic!("{expression}: {what}")
        }
    })
}

/// Two consecutive whole numbers that share one float.
const ONE: i64 = 9_007_199_254_740_993;
const OTHER: i64 = 9_007_199_254_740_992;

#[test]
fn long_integers_are_kept_and_compared_exactly() {
    let data = json!({"ids": [ONE, OTHER, u64::MAX], "a": ONE, "b": OTHER, "f": 1.5, "one": 1.0});
    assert_eq!(evaluated(&data, "ids"), json!([ONE, OTHER, u64::MAX]));
    assert_eq!(
        evaluated(&data, "{x: a, y: [f, one]}"),
        json!({"x": ONE, "y": [1.5, 1.0]})
    );
    assert_eq!(evaluated(&data, "a == b"), json!(false));
    assert_eq!(evaluated(&data, "a > b"), json!(true));
    assert_eq!(evaluated(&data, "a <= b"), json!(false));
    assert_eq!(
        evaluated(&data, "ids[?@ == `9007199254740993`]"),
        json!([ONE])
    );
    assert_eq!(
        evaluated(&data, "contains(ids, `9007199254740994`)"),
        json!(false)
    );
    assert_eq!(evaluated(&data, "max(ids[:2])"), json!(ONE));
    assert_eq!(evaluated(&data, "min(ids)"), json!(OTHER));
    assert_eq!(evaluated(&data, "sort(ids)"), json!([OTHER, ONE, u64::MAX]));
    assert_eq!(evaluated(&data, "one == `1`"), json!(true));
}

#[test]
fn integer_arithmetic_is_exact_or_an_error() {
    let data =
        json!({"n": [1, 2, ONE], "f": [1, 0.5], "negative": i64::MIN, "large": [u64::MAX, 1]});
    assert_eq!(evaluated(&data, "sum(n)"), json!(ONE + 3));
    assert_eq!(evaluated(&data, "sum(f)"), json!(1.5));
    assert_eq!(evaluated(&data, "sum(`[]`)"), json!(0));
    assert_eq!(
        evaluated(&data, "abs(negative)"),
        json!(9_223_372_036_854_775_808_u64)
    );
    assert_eq!(evaluated(&data, "ceil(n[2])"), json!(ONE));
    assert_eq!(evaluated(&data, "floor(f[1])"), json!(0));
    assert_eq!(
        evaluated(&data, "to_number('9007199254740993')"),
        json!(ONE)
    );
    assert_eq!(evaluated(&data, "to_number('[1]')"), json!(null));
    assert!(
        matches!(search(&data, "sum(large)"), Err(QueryError::Evaluation(what)) if what.contains("beyond 64 bits"))
    );
}

#[test]
fn ordering_functions_are_exact_stable_and_typed() {
    let data = json!([{"k": ONE, "n": "a"}, {"k": OTHER, "n": "b"}, {"k": OTHER, "n": "c"}]);
    assert_eq!(
        evaluated(&data, "sort_by(@, &k)[].n"),
        json!(["b", "c", "a"])
    );
    assert_eq!(evaluated(&data, "max_by(@, &k).n"), json!("a"));
    assert_eq!(evaluated(&data, "min_by(@, &k).n"), json!("b"));
    assert_eq!(evaluated(&json!([]), "max_by(@, &k)"), json!(null));
    assert!(matches!(
        search(&json!([{"k": 1}, {"k": "x"}]), "sort_by(@, &k)"),
        Err(QueryError::Evaluation(_))
    ));
}

#[test]
fn comparisons_inside_every_construct_are_exact() {
    let data = json!({"o": {"x": {"v": ONE}, "y": {"v": OTHER}}, "b": OTHER});
    for expression in [
        "values(o)[?v == `9007199254740992`] | length(@) == `1`",
        "!(o.x.v == b)",
        "o.x.v == b || o.y.v == b",
        "o.y.v == b && !(o.x.v == b)",
        "[o.x.v != b] == [`true`]",
        "{r: o.x.v == b} == {r: `false`}",
        "length(o.*.v | [?@ == `9007199254740993`]) == `1`",
        "map(&(v == `9007199254740993`), values(o)) == [`true`, `false`]",
        "o == {x: {v: `9007199254740993`}, y: {v: b}}",
        "[[o.x.v == b]][] == [`false`]",
    ] {
        assert_eq!(evaluated(&data, expression), json!(true), "{expression}");
    }
}

#[test]
fn errors_name_the_position() {
    assert!(
        matches!(search(&json!(1), "a["), Err(QueryError::Expression(what)) if what.contains("line 1"))
    );
    assert!(
        matches!(search(&json!(1), "nothing(@)"), Err(QueryError::Evaluation(what)) if what.contains("nothing"))
    );
    assert!(matches!(
        search(&json!("x"), "abs(@)"),
        Err(QueryError::Evaluation(_))
    ));
    assert!(matches!(
        search(&json!(1), "&a"),
        Err(QueryError::Evaluation(_))
    ));
}
