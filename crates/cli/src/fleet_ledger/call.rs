//! The columns of a ledger in Postgres, as JSON.

use std::time::Duration;

use cachalot_backends::postgres::CallPosition;
use cachalot_cache::{CallStatus, LedgerRow, LedgerTotals};
use cachalot_core::{Cost, Millis, Spend};
use serde::{Deserialize, Serialize};

/// A call, as the members of a row of `cachalot_ledger_calls`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Call {
    ledger: String,
    host: String,
    id: i64,
    at: Millis,
    run: String,
    kind: String,
    name: String,
    scope: String,
    key: String,
    handle: Option<String>,
    session: Option<String>,
    answered: String,
    reason: Option<String>,
    not_stored: Option<String>,
    failure: Option<String>,
    unpriced: Option<String>,
    failed: bool,
    #[serde(flatten)]
    charges: Charges,
}

/// Sums of calls of one name, as the members of a row of `cachalot_ledger_totals`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Totals {
    ledger: String,
    host: String,
    kind: String,
    name: String,
    hits: u64,
    coalesced: u64,
    misses: u64,
    bypasses: u64,
    failures: u64,
    failed: u64,
    #[serde(flatten)]
    charges: Charges,
}

/// What was paid and saved: time in nanoseconds, tokens, picodollars, and calls without a known price.
#[derive(Debug, Serialize, Deserialize)]
struct Charges {
    paid: u64,
    paid_input: u64,
    paid_output: u64,
    paid_cost: u64,
    paid_unpriced: u64,
    saved: u64,
    saved_input: u64,
    saved_output: u64,
    saved_cost: u64,
    saved_unpriced: u64,
}

impl Charges {
    fn new(paid: &Spend, saved: &Spend) -> Self {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            paid: nanoseconds(paid.time),
            paid_input: paid.input_tokens,
            paid_output: paid.output_tokens,
            paid_cost: paid.cost.picodollars,
            paid_unpriced: paid.cost.unpriced,
            saved: nanoseconds(saved.time),
            saved_input: saved.input_tokens,
            saved_output: saved.output_tokens,
            saved_cost: saved.cost.picodollars,
            saved_unpriced: saved.cost.unpriced,
        }
    }

    fn spends(&self) -> [Spend; 2] {
        let spend = |time, input_tokens, output_tokens, picodollars, unpriced| Spend {
            calls: 0,
            time: Duration::from_nanos(time),
            input_tokens,
            output_tokens,
            cost: Cost {
                picodollars,
                unpriced,
            },
        };
        [
            spend(
                self.paid,
                self.paid_input,
                self.paid_output,
                self.paid_cost,
                self.paid_unpriced,
            ),
            spend(
                self.saved,
                self.saved_input,
                self.saved_output,
                self.saved_cost,
                self.saved_unpriced,
            ),
        ]
    }
}

impl Call {
    pub(super) fn new(row: &LedgerRow, ledger: &str, host: &str) -> Self {
        Self {
            ledger: ledger.to_owned(),
            host: host.to_owned(),
            id: row.id,
            at: row.at,
            run: row.run.clone(),
            kind: row.kind.clone(),
            name: row.name.clone(),
            scope: row.scope.clone(),
            key: row.key.clone(),
            handle: row.handle.clone(),
            session: row.session.clone(),
            answered: row.answered.as_str().to_owned(),
            reason: row.reason.clone(),
            not_stored: row.not_stored.clone(),
            // It may contain what a model or a tool has returned.
            failure: None,
            unpriced: row.unpriced.clone(),
            failed: row.failed,
            charges: Charges::new(&row.paid, &row.saved),
        }
    }

    pub(super) fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    pub(super) fn position(&self) -> CallPosition {
        CallPosition {
            at: self.at,
            ledger: self.ledger.clone(),
            id: self.id,
        }
    }

    /// The call as a row of a ledger, whose run names the host.
    pub(super) fn row(self) -> LedgerRow {
        let [paid, saved] = self.charges.spends();
        LedgerRow {
            id: self.id,
            at: self.at,
            run: format!("{}/{}", self.host, self.run),
            kind: self.kind,
            name: self.name,
            scope: self.scope,
            erased: self.key.is_empty(),
            key: self.key,
            handle: self.handle,
            session: self.session,
            answered: CallStatus::parse(&self.answered),
            reason: self.reason,
            not_stored: self.not_stored,
            failure: self.failure,
            unpriced: self.unpriced,
            failed: self.failed,
            paid,
            saved,
            input: None,
            input_digest: None,
        }
    }
}

impl Totals {
    pub(super) fn new(
        kind: &str,
        name: &str,
        sum: &LedgerTotals,
        ledger: &str,
        host: &str,
    ) -> Self {
        Self {
            ledger: ledger.to_owned(),
            host: host.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            hits: sum.hits,
            coalesced: sum.coalesced,
            misses: sum.misses,
            bypasses: sum.bypasses,
            failures: sum.failures,
            failed: sum.failed,
            charges: Charges::new(&sum.paid, &sum.saved),
        }
    }

    pub(super) fn sum(self) -> (String, String, LedgerTotals) {
        let [paid, saved] = self.charges.spends();
        let sum = LedgerTotals {
            hits: self.hits,
            coalesced: self.coalesced,
            misses: self.misses,
            bypasses: self.bypasses,
            failures: self.failures,
            failed: self.failed,
            paid,
            saved,
        };
        (self.kind, self.name, sum)
    }
}

/// Returns rows as JSON. Postgres refuses the character U+0000, which is replaced.
pub(super) fn to_text<T: Serialize>(rows: &[T]) -> serde_json::Result<String> {
    let text = serde_json::to_string(rows)?;
    Ok(if text.contains("\\u0000") {
        without_nulls(&text)
    } else {
        text
    })
}

/// Replaces `\u0000`, and leaves a backslash that is followed by `u0000`.
fn without_nulls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let (escape, after) = match escape.strip_prefix("\\u0000") {
            Some(after) => ("\\ufffd", after),
            None => escape.split_at(2.min(escape.len())),
        };
        out.push_str(escape);
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_characters_are_replaced() {
        for (text, expected) in [
            ("a\0b", "\"a\\ufffdb\""),
            ("\\u0000", "\"\\\\u0000\""),
            ("\\\0\\\"\0", "\"\\\\\\ufffd\\\\\\\"\\ufffd\""),
            ("é\n", "\"é\\n\""),
        ] {
            let written = to_text(&[text]).unwrap_or_default();
            assert_eq!(written, format!("[{expected}]"), "{text:?}");
        }
    }
}
