//! Expressions of Lua, with the texts that the Lua of the reference implementation gives for them.

use serde_json::Value;

use crate::harness::{alone, lua, object, tests, wait};

tests!(lua_gives_what_the_reference_gives_or_is_documented);

fn lua_gives_what_the_reference_gives_or_is_documented() {
    let deviations = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/deviations.md");
    let deviations = std::fs::read_to_string(deviations).unwrap();
    let mut differences = Vec::new();
    wait(async {
        let runner = lua();
        let lines = include_str!("lua.yaml").lines();
        for line in lines.filter_map(|line| line.strip_prefix("- ")) {
            let case = object(serde_json::from_str(line).expect(line));
            let source = format!("return tostring(({}))", case["lua"].as_str().unwrap());
            let here = alone(&runner, &source).await.map(|ended| ended.returned);
            let is_expected = match (case.get("here").or(case.get("gives")), &here) {
                (Some(expected), Ok(given)) => given == expected,
                (expected, Err(_)) => expected.is_none_or(Value::is_null),
                _ => false,
            };
            let deviation = case.get("deviation").and_then(Value::as_str);
            if !is_expected || deviation.is_some() != case.contains_key("here") {
                differences.push(format!("{line}\n    here it is {here:?}"));
            } else if !deviation.is_none_or(|text| deviations.contains(text)) {
                differences.push(format!("{line}\n    docs/deviations.md does not say this"));
            }
        }
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
