//! Explanations of calls: the nearest earlier call of the same name and scope, and the differences between
//! the two inputs.

use rusqlite::{Connection, Result};
use serde::Serialize;
use serde_json::Value;

use super::{CallStatus, LedgerRow, query};
use crate::CallKind;

/// A difference between two inputs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// JSON pointer (RFC 6901) into the input; empty for the whole.
    pub pointer: String,
    /// The value in the earlier call; `None` if it was absent.
    pub old: Option<Value>,
    /// The value now; `None` if it is absent.
    pub new: Option<Value>,
}

/// The explanation of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The call.
    pub call: LedgerRow,
    /// The last paid call under the same key, before this one; `None` if this call was paid itself, or no
    /// such call is known.
    pub payment: Option<LedgerRow>,
    /// The last earlier call under the same key, if there was one.
    pub same: Option<LedgerRow>,
    /// The nearest earlier call of the same name and scope, if `same` is `None`.
    pub nearest: Option<LedgerRow>,
    /// The differences between the inputs of the call and of the nearest one.
    pub differences: Vec<Difference>,
    /// Set if the inputs differ in something that is not shown: a secret, or a part that was too long to
    /// keep.
    pub hidden_difference: bool,
}

/// Maximum number of earlier calls that are compared.
const MAX_COMPARED_CALLS: u32 = 200;

/// See [`super::Ledger::explain`].
pub(super) fn explain(
    connection: &Connection,
    key_or_handle: Option<&str>,
) -> Result<Option<Explanation>> {
    let found = match key_or_handle {
        Some(text) => query::calls_by_key(connection, text, 1)?.pop(),
        None => query::last_call(connection)?,
    };
    found.map(|call| explain_call(connection, call)).transpose()
}

/// See [`super::Ledger::explain_refused`].
pub(super) fn explain_refused(
    connection: &Connection,
    run: &str,
    limit: u32,
) -> Result<Vec<(Explanation, u64)>> {
    let calls = query::refused_calls(connection, run, limit)?.into_iter();
    calls
        .map(|(call, number)| Ok((explain_call(connection, call)?, number)))
        .collect()
}

fn explain_call(connection: &Connection, call: LedgerRow) -> Result<Explanation> {
    // An earlier refused call has no answer either, and says nothing about the reason.
    let is_refused = call.answered == CallStatus::Refused;
    let says_why = |row: &LedgerRow| !(is_refused && row.answered == CallStatus::Refused);
    let same = query::calls_by_key(connection, &call.key, MAX_COMPARED_CALLS)?
        .into_iter()
        .find(|row| row.id < call.id && says_why(row));
    let payment = query::last_payment(connection, &call.key, call.id)?
        .filter(|payment| payment.id != call.id && !call.erased);
    let mut explanation = Explanation {
        payment,
        same,
        call,
        nearest: None,
        differences: Vec::new(),
        hidden_difference: false,
    };
    let is_payment = explanation.call.kind == CallKind::Prefix.as_str();
    if explanation.same.is_some() || is_payment || explanation.call.input_digest.is_none() {
        return Ok(explanation);
    }
    let earlier = query::earlier_calls(connection, &explanation.call, MAX_COMPARED_CALLS)?;
    let nearest = earlier
        .into_iter()
        .filter(says_why)
        .map(|row| (shown_differences(&row, &explanation.call), row))
        // Calls whose differences cannot be shown come last; among equally near calls, the newest wins.
        .min_by_key(|(differences, _)| differences.as_ref().map_or(usize::MAX, Vec::len));
    if let Some((differences, row)) = nearest {
        explanation.differences = differences.unwrap_or_default();
        explanation.hidden_difference =
            explanation.differences.is_empty() && row.input_digest != explanation.call.input_digest;
        explanation.nearest = Some(row);
    }
    Ok(explanation)
}

/// The differences between the inputs of two calls; `None` if one of them was too long to keep.
fn shown_differences(old: &LedgerRow, new: &LedgerRow) -> Option<Vec<Difference>> {
    Some(differences(old.input.as_ref()?, new.input.as_ref()?))
}

/// The differences between two values, in the order of the newer one.
fn differences(old: &Value, new: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(Some(old), Some(new), &mut String::new(), &mut found);
    found
}

fn compare(old: Option<&Value>, new: Option<&Value>, at: &mut String, found: &mut Vec<Difference>) {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let gone = old.keys().filter(|name| !new.contains_key(*name));
            for name in new.keys().chain(gone) {
                let step = name.replace('~', "~0").replace('/', "~1");
                descend(&step, at, |at| {
                    compare(old.get(name), new.get(name), at, found)
                });
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                let step = index.to_string();
                descend(&step, at, |at| {
                    compare(old.get(index), new.get(index), at, found)
                });
            }
        }
        (old, new) if old == new => {}
        (old, new) => found.push(Difference {
            pointer: at.clone(),
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}

fn descend(step: &str, at: &mut String, inside: impl FnOnce(&mut String)) {
    let length = at.len();
    at.push('/');
    at.push_str(step);
    inside(at);
    at.truncate(length);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_point_to_changed_added_and_removed_values() {
        let old = json!({"a": {"b/c": [1, 2]}, "gone": true, "same": null});
        let new = json!({"a": {"b/c": [1, 3, 4]}, "same": null, "new~": 1});
        let found = differences(&old, &new);
        let pointers: Vec<&str> = found.iter().map(|d| d.pointer.as_str()).collect();
        assert_eq!(pointers, ["/a/b~1c/1", "/a/b~1c/2", "/new~0", "/gone"]);
        for difference in &found {
            assert_eq!(old.pointer(&difference.pointer), difference.old.as_ref());
            assert_eq!(new.pointer(&difference.pointer), difference.new.as_ref());
        }
        assert!(differences(&old, &old).is_empty());
    }
}
