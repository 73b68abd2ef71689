//! The response of `cache.wrap`: the documented fields and the outcome.

use std::sync::{Arc, OnceLock};

use cachalot_cache::{CacheStatus, CallSummary, DecodeError, Decoded, Reason};
use cachalot_core::clock::iso8601;
use cachalot_core::{SecretSet, json};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::actions::truthiness::is_true;
use crate::report::{self, Event, FAILED, Memoized};
use crate::{Failure, Runtime};

/// Everything in a response except the result and the handle.
pub(super) struct Response<'a> {
    pub(super) status: &'a CacheStatus,
    pub(super) summary: &'a CallSummary,
    /// Creation time of the entry, for a hit.
    pub(super) created: Option<i64>,
    /// Set if the call ran and failed, or returned an error.
    pub(super) is_error: bool,
}

/// Decoded answer, kept in memory and shared by all hits on an entry.
pub(super) struct DecodedResult {
    /// Null once it is a part of `hit`.
    result: Mutex<Value>,
    /// The whole response of every hit on the entry.
    hit: OnceLock<Arc<Value>>,
}

impl DecodedResult {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let result = json::parse(bytes);
        let result = result.map_err(|error| DecodeError(error.to_string()))?;
        Ok(Self {
            result: Mutex::new(result),
            hit: OnceLock::new(),
        })
    }

    /// Returns the whole response to a call with this answer; `handle` is that of the call.
    pub(super) fn respond<'h>(
        &self,
        response: &Response<'_>,
        handle: impl FnOnce() -> &'h str,
        runtime: &Runtime,
    ) -> Arc<Value> {
        let whole = |result| Arc::new(response.with_result(result, Some(handle()), runtime));
        if !matches!(response.status, CacheStatus::Hit) {
            return whole(self.result());
        }
        // All fields, including handle and times, belong to the entry, so every hit shares them.
        if let Some(hit) = self.hit.get() {
            return Arc::clone(hit);
        }
        // Locked until `hit` is set: see `result`.
        let mut result = self.result.lock();
        let hit = self.hit.get_or_init(|| whole(std::mem::take(&mut *result)));
        Arc::clone(hit)
    }

    /// Returns a copy of the result.
    fn result(&self) -> Value {
        // Locked before `hit` is read: while the lock is free, the result is in exactly one of the two.
        let result = self.result.lock();
        match self.hit.get() {
            Some(hit) => hit["result"].clone(),
            None => result.clone(),
        }
    }
}

impl Decoded for DecodedResult {
    fn weight(&self) -> u64 {
        /// Estimated size in bytes of the fields that `hit` has besides the result.
        const HIT_RESPONSE_SIZE: u64 = 2_048;
        size_of::<Self>() as u64 + self.result.lock().weight() + HIT_RESPONSE_SIZE
    }
}

/// Returns Python's truth value of `result["success"]`, which is true if the field is missing; results
/// other than mappings are successes.
pub(super) fn is_success(result: &Value) -> bool {
    match result {
        Value::Object(fields) => fields.get("success").is_none_or(is_true),
        _ => true,
    }
}

impl Response<'_> {
    /// Returns all fields.
    pub(super) fn with_result(
        &self,
        result: Value,
        handle: Option<&str>,
        runtime: &Runtime,
    ) -> Value {
        let hit = self.status.is_hit();
        let mut fields = Map::with_capacity(8);
        fields.insert("success".into(), Value::Bool(is_success(&result)));
        fields.insert("result".into(), result);
        fields.insert("_cache_hit".into(), Value::Bool(hit));
        fields.insert("_cache_key".into(), handle.map_or(Value::Null, Value::from));
        if let Some(created) = self.created {
            fields.insert("_cache_created_at".into(), iso8601(created).into());
        }
        let expires = self
            .summary
            .expires
            .map_or(Value::Null, |at| iso8601(at).into());
        fields.insert("_cache_expires_at".into(), expires);
        fields.insert(
            "_cache_stored".into(),
            Value::Bool(self.summary.stored.is_ok()),
        );
        let reason = self.reason(runtime).map_or(Value::Null, Value::from);
        fields.insert("_cache_reason".into(), reason);
        Value::Object(fields)
    }

    /// Returns the reason why the answer was not stored, else why it was not a hit; secrets are redacted.
    fn reason(&self, runtime: &Runtime) -> Option<String> {
        let reason = match (&self.summary.stored, self.status) {
            (Err(reason), _) => reason.to_string(),
            (Ok(_), CacheStatus::Coalesced) => {
                "answered by a run that was already under way".to_owned()
            }
            (Ok(_), status) => status.reason()?.to_string(),
        };
        Some(runtime.secret_set.redact(&reason).into_owned())
    }

    /// Reports how the call was answered, to the user as `handle`.
    pub(super) fn report(&self, handle: Option<String>, runtime: &Runtime) {
        let outcome = if self.is_error && self.summary.paid.is_free() {
            FAILED
        } else {
            self.status.as_str()
        };
        runtime.reporter.report(Event::Answered {
            node: report::current_node(),
            memoized: Memoized {
                outcome,
                handle,
                reason: self.reason(runtime),
                paid: self.summary.paid,
                saved: self.summary.saved,
            },
        });
    }
}

/// Returns the reason why a result is an error, in any form in which an action reports one; `None` if it
/// is not an error.
pub(super) fn error_in(result: &Value) -> Option<&'static str> {
    if !is_success(result) {
        return Some("the action did not report success");
    }
    let says_nothing_of_success = result.get("success").is_none();
    if says_nothing_of_success && result.get("error").is_some_and(|error| !error.is_null()) {
        return Some("the result carries an error");
    }
    None
}

/// Checks that a result may be stored; errors are not.
pub(super) fn check_storable(result: &Value, secret_set: &SecretSet) -> Result<(), Reason> {
    let declined = |why: &str| Err(Reason::Declined(why.to_owned()));
    if let Some(why) = error_in(result) {
        return declined(why);
    }
    if is_deeper_than(MAX_DEPTH, result) {
        return declined("the result is nested too deeply to be read back");
    }
    if !secret_set.is_empty() && holds_secret(result, secret_set) {
        return Err(Reason::HoldsSecret);
    }
    Ok(())
}

/// Searches each text unescaped: JSON nested in JSON escapes a secret in a way that a search of the
/// encoded text would miss.
fn holds_secret(value: &Value, secret_set: &SecretSet) -> bool {
    match value {
        Value::String(text) => secret_set.occurs_in(text.as_bytes()),
        Value::Array(items) => items.iter().any(|item| holds_secret(item, secret_set)),
        Value::Object(fields) => fields.iter().any(|(name, field)| {
            secret_set.occurs_in(name.as_bytes()) || holds_secret(field, secret_set)
        }),
        _ => false,
    }
}

/// The maximum nesting depth of JSON that can be read back.
const MAX_DEPTH: usize = 127;

fn is_deeper_than(levels: usize, value: &Value) -> bool {
    let Some(left) = levels.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper_than(left, item)),
        Value::Object(fields) => fields.values().any(|field| is_deeper_than(left, field)),
        _ => false,
    }
}

/// Returns the documented error object, for `on_error: return`.
pub(super) fn error(failure: &Failure, handle: Option<&str>) -> Value {
    let mut fields = Map::new();
    fields.insert("success".into(), Value::Bool(false));
    fields.insert("error".into(), failure.message.clone().into());
    fields.insert("error_type".into(), "action_error".into());
    fields.insert("_cache_hit".into(), Value::Bool(false));
    fields.insert("_cache_key".into(), handle.map_or(Value::Null, Value::from));
    fields.insert("_cache_expires_at".into(), Value::Null);
    fields.insert("_cache_stored".into(), Value::Bool(false));
    fields.insert("_cache_reason".into(), Reason::Failed.to_string().into());
    Value::Object(fields)
}
