//! Unit tests of `src/redis/append_file.rs`.

use super::*;

#[test]
fn all_settings_that_lose_writes_are_found() {
    let settings = |changed: &str, to: &str| {
        let pairs = NEEDED.iter().flat_map(|(name, needed)| {
            let value = if *name == changed { to } else { *needed };
            [*name, value]
        });
        let texts = pairs.map(|text| Value::BulkString(text.into()));
        AppendFile::read(Value::Array(texts.collect())).unwrap()
    };
    assert!(settings("", "").keeps_all());
    for (name, value) in [
        ("appendonly", "no"),
        ("appendfsync", "everysec"),
        ("no-appendfsync-on-rewrite", "yes"),
    ] {
        let error = settings(name, value).check("server").unwrap_err();
        let state = format!("{name} {value}");
        assert!(error.message.contains(&state), "{error}");
    }
    assert!(
        !AppendFile::read(Value::Array(Vec::new()))
            .unwrap()
            .keeps_all()
    );
}
