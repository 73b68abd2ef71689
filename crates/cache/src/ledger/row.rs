//! Rows and totals of the ledger.

use cachalot_core::{Millis, Spend};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::summary::CacheStatus;

/// The source of the answer to a call, as recorded in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// An entry of the cache.
    Hit,
    /// An entry of the cache that had expired.
    Stale,
    /// A run of another caller.
    Coalesced,
    /// A run of the call's own.
    Miss,
    /// A run of the call's own without a lookup.
    Bypass,
    /// None: a frozen run found no entry.
    Refused,
}

impl CallStatus {
    pub(crate) fn from_status(status: &CacheStatus) -> Self {
        match status {
            CacheStatus::Hit | CacheStatus::LocalHit(_) => Self::Hit,
            CacheStatus::Stale => Self::Stale,
            CacheStatus::Coalesced => Self::Coalesced,
            CacheStatus::Miss(_) => Self::Miss,
            CacheStatus::Bypass(_) => Self::Bypass,
        }
    }

    /// `hit`, `stale`, `coalesced`, `miss`, `bypass`, `refused`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Coalesced => "coalesced",
            Self::Miss => "miss",
            Self::Bypass => "bypass",
            Self::Refused => "refused",
        }
    }

    /// Returns the status of this name; an unknown one counts as `bypass`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "hit" => Self::Hit,
            "stale" => Self::Stale,
            "coalesced" => Self::Coalesced,
            "miss" => Self::Miss,
            "refused" => Self::Refused,
            _ => Self::Bypass,
        }
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LedgerRow {
    /// The row's number, larger than those of all earlier rows in the file.
    pub id: i64,
    /// The time when the call was recorded.
    pub at: Millis,
    /// The run of the program that the call belongs to.
    pub run: String,
    /// `action`, `tool`, `turn`, `request`, `prefix`.
    pub kind: String,
    /// The name of the call.
    pub name: String,
    /// The scope in which its entry is shared.
    pub scope: String,
    /// The key of the call.
    pub key: String,
    /// The key as shown to users (the entry's `handle` label).
    pub handle: Option<String>,
    /// The session in which it was made; for the payment of a fork, the session that the fork ran for.
    pub session: Option<String>,
    /// The source of the answer.
    pub answered: CallStatus,
    /// The reason why it was not a hit.
    pub reason: Option<String>,
    /// The reason why its answer was not stored.
    pub not_stored: Option<String>,
    /// The reason why the work failed.
    pub failure: Option<String>,
    /// The reason why its cost, or a part of it, is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpriced: Option<String>,
    /// Set if the call gave no answer and cost nothing but time: it counts as failed, not as paid.
    pub failed: bool,
    /// Set if the content of the row was erased: key, handle, scope, session, input and reasons.
    pub erased: bool,
    /// Duration and cost.
    #[serde(flatten, serialize_with = "paid")]
    pub paid: Spend,
    /// The time and cost that the call saved.
    #[serde(flatten, serialize_with = "saved")]
    pub saved: Spend,
    /// The input, redacted; absent for hits.
    pub input: Option<Value>,
    /// The digest of the whole input, which reveals differences that the redacted input does not show.
    pub input_digest: Option<String>,
}

fn paid<S: Serializer>(spend: &Spend, to: S) -> Result<S::Ok, S::Error> {
    const NAMES: [&str; 5] = [
        "paid_ms",
        "paid_input_tokens",
        "paid_output_tokens",
        "paid_dollars",
        "paid_unpriced_calls",
    ];
    fields(spend, NAMES, to)
}

fn saved<S: Serializer>(spend: &Spend, to: S) -> Result<S::Ok, S::Error> {
    const NAMES: [&str; 5] = [
        "saved_ms",
        "saved_input_tokens",
        "saved_output_tokens",
        "saved_dollars",
        "saved_unpriced_calls",
    ];
    fields(spend, NAMES, to)
}

/// Serializes the time always, tokens and money only if they are not zero.
fn fields<S: Serializer>(
    spend: &Spend,
    names: [&'static str; 5],
    to: S,
) -> Result<S::Ok, S::Error> {
    let Spend {
        calls: _,
        time,
        input_tokens,
        output_tokens,
        cost,
    } = spend;
    let [ms, input, output, dollars, unpriced] = names;
    let mut map = to.serialize_map(None)?;
    map.serialize_entry(ms, &(time.as_secs_f64() * 1_000.0))?;
    if *input_tokens > 0 {
        map.serialize_entry(input, input_tokens)?;
    }
    if *output_tokens > 0 {
        map.serialize_entry(output, output_tokens)?;
    }
    if cost.picodollars > 0 {
        map.serialize_entry(dollars, &cost.dollars())?;
    }
    if cost.unpriced > 0 {
        map.serialize_entry(unpriced, &cost.unpriced)?;
    }
    map.end()
}

/// Calls of one name, summed over all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LedgerTotals {
    /// Calls answered from the cache, by entries that had expired, too.
    pub hits: u64,
    /// Calls answered by a run of another caller.
    pub coalesced: u64,
    /// Calls that ran because no entry could be served.
    pub misses: u64,
    /// Calls that ran without a lookup.
    pub bypasses: u64,
    /// Number of runs that failed.
    pub failures: u64,
    /// Number of runs that gave no answer (failed, abandoned, or answered with an error) and cost nothing but
    /// time. They are not paid: `misses + bypasses - failed` runs are.
    pub failed: u64,
    /// Duration and cost of the runs; their number is in the fields above.
    #[serde(flatten, serialize_with = "paid")]
    pub paid: Spend,
    /// Time and cost that hits and coalesced calls saved.
    #[serde(flatten, serialize_with = "saved")]
    pub saved: Spend,
}

impl LedgerTotals {
    /// Number of runs that were paid.
    #[must_use]
    pub fn paid_runs(&self) -> u64 {
        (self.misses + self.bypasses).saturating_sub(self.failed)
    }
}

impl std::ops::AddAssign for LedgerTotals {
    fn add_assign(&mut self, other: Self) {
        let Self {
            hits,
            coalesced,
            misses,
            bypasses,
            failures,
            failed,
            paid,
            saved,
        } = other;
        self.hits += hits;
        self.coalesced += coalesced;
        self.misses += misses;
        self.bypasses += bypasses;
        self.failures += failures;
        self.failed += failed;
        self.paid += paid;
        self.saved += saved;
    }
}
