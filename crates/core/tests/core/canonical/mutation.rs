//! Small changes, so that pairs which are nearly equal come up as often as pairs which are equal.

use serde_json::{Value, json};

/// The place and kind of a mutation, read from numbers that proptest chose.
pub(super) struct Choices<'a> {
    numbers: &'a [u8],
    at: usize,
}

impl<'a> Choices<'a> {
    pub(super) fn new(numbers: &'a [u8]) -> Self {
        Self { numbers, at: 0 }
    }

    /// A number below `below`; 0 once there are no more.
    pub(super) fn next(&mut self, below: usize) -> usize {
        let number = self.numbers.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(number) % below.max(1)
    }
}

/// Changes one place of `value`, mostly into something different that is easily confused with it.
pub(super) fn mutate(value: &mut Value, choices: &mut Choices<'_>) {
    let descend = choices.next(4) > 0;
    match value {
        Value::Array(items) if descend && !items.is_empty() => {
            let at = choices.next(items.len());
            mutate(&mut items[at], choices);
        }
        Value::Object(fields) if descend && !fields.is_empty() => {
            let at = choices.next(fields.len());
            mutate(fields.values_mut().nth(at).unwrap(), choices);
        }
        Value::Array(items) => mutate_list(items, choices),
        Value::Object(fields) => mutate_map(fields, choices),
        Value::String(text) => *value = mutate_text(text, choices),
        Value::Number(number) => *value = mutate_number(&number.clone(), choices),
        Value::Bool(truth) => {
            *value = [
                json!(!*truth),
                json!(truth.to_string()),
                json!(u8::from(*truth)),
            ][choices.next(3)]
            .clone()
        }
        Value::Null => {
            *value = [json!("null"), json!(false), json!(0), json!({}), json!([])][choices.next(5)]
                .clone()
        }
    }
}

fn mutate_list(items: &mut Vec<Value>, choices: &mut Choices<'_>) {
    match choices.next(6) {
        0 => items.push(Value::Null),
        1 => drop(items.pop()),
        2 => items.reverse(),
        3 => *items = vec![Value::Array(std::mem::take(items))],
        4 => {
            if let Some(Value::Array(inner)) = items.first_mut() {
                let inner = std::mem::take(inner);
                items.splice(0..1, inner);
            }
        }
        // The border between two texts moves.
        _ => {
            if let [Value::String(a), Value::String(b), ..] = items.as_mut_slice()
                && let Some(c) = b.chars().next()
            {
                b.remove(0);
                a.push(c);
            }
        }
    }
}

fn mutate_map(fields: &mut serde_json::Map<String, Value>, choices: &mut Choices<'_>) {
    match choices.next(5) {
        0 => drop(fields.insert("new".to_owned(), Value::Null)),
        1 => {
            if let Some(key) = fields.keys().next().cloned() {
                fields.remove(&key);
            }
        }
        2 => {
            // Another key for the same field, in the same position.
            let renamed = fields.iter().enumerate().map(|(n, (key, field))| {
                (
                    if n == 0 {
                        format!("{key}x")
                    } else {
                        key.clone()
                    },
                    field.clone(),
                )
            });
            *fields = renamed.collect();
        }
        // Another order, which is the same input.
        3 => *fields = std::mem::take(fields).into_iter().rev().collect(),
        // Two fields change their values.
        _ => {
            let values: Vec<Value> = fields.values().cloned().collect();
            fields
                .values_mut()
                .zip(values.into_iter().rev())
                .for_each(|(field, value)| *field = value);
        }
    }
}

fn mutate_text(text: &str, choices: &mut Choices<'_>) -> Value {
    match choices.next(7) {
        0 => json!(format!("{text}\0")),
        1 => json!(text.to_uppercase()),
        2 => json!(text.trim()),
        // Composed and decomposed letters look the same and are different inputs.
        3 => json!(text.replace('é', "e\u{301}")),
        4 => serde_json::from_str(text).unwrap_or(Value::Null),
        5 => json!([text]),
        _ => json!(text.replace('a', "\\u0061")),
    }
}

fn mutate_number(number: &serde_json::Number, choices: &mut Choices<'_>) -> Value {
    let float = number.as_f64().unwrap();
    match choices.next(7) {
        0 => json!(float),
        1 => json!(float as i64),
        2 => json!(-float),
        3 => json!(f64::from_bits(float.to_bits() ^ 1)),
        4 => json!(number.as_i64().unwrap_or(0).wrapping_add(1)),
        5 => json!(number.as_u64().unwrap_or(0) as i64),
        _ => json!(number.to_string()),
    }
}
