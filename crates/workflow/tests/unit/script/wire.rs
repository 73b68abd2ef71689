//! Unit tests of `src/script/wire.rs`.

use super::*;

#[test]
fn depth_is_counted_with_the_outermost_object() {
    let nested = |levels: usize| {
        let value = (2..levels).fold(Value::Array(Vec::new()), |inner, _| {
            Value::from(vec![inner])
        });
        Map::from_iter([("deep".to_owned(), value)])
    };
    assert!(is_within_max_depth(&nested(MAX_DEPTH)));
    assert!(!is_within_max_depth(&nested(MAX_DEPTH + 1)));
}
