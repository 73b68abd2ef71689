//! What the ledger says of a call.

use cachalot_core::{Millis, Spend};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::outcome::How;

/// How a call was answered, as the ledger keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answered {
    /// From the cache.
    Hit,
    /// By somebody else's run.
    Coalesced,
    /// By its own run.
    Miss,
    /// By its own run, the cache not asked.
    Bypass,
    /// Not at all: a frozen run found no entry.
    Refused,
}

impl Answered {
    pub(super) fn of(how: &How) -> Self {
        match how {
            How::Hit => Self::Hit,
            How::Coalesced => Self::Coalesced,
            How::Miss(_) => Self::Miss,
            How::Bypass(_) => Self::Bypass,
        }
    }

    /// `hit`, `coalesced`, `miss`, `bypass`, `refused`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Coalesced => "coalesced",
            Self::Miss => "miss",
            Self::Bypass => "bypass",
            Self::Refused => "refused",
        }
    }

    pub(super) fn parse(text: &str) -> Self {
        match text {
            "hit" => Self::Hit,
            "coalesced" => Self::Coalesced,
            "miss" => Self::Miss,
            "refused" => Self::Refused,
            _ => Self::Bypass,
        }
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its number, growing.
    pub id: i64,
    /// When it was accounted for.
    pub at: Millis,
    /// The run that it belongs to.
    pub run: String,
    /// `action`, `tool`, `turn`, `request`, `prefix`.
    pub kind: String,
    /// What was called.
    pub name: String,
    /// Who shares its entry.
    pub scope: String,
    /// Its key.
    pub key: String,
    /// Its key as people see it.
    pub handle: Option<String>,
    /// The session in which it was made; of a fork's payment, the session that it ran for.
    pub session: Option<String>,
    /// How it was answered.
    pub answered: Answered,
    /// Why it was not a hit.
    pub reason: Option<String>,
    /// Why its answer was not stored.
    pub not_stored: Option<String>,
    /// Why the work failed.
    pub failure: Option<String>,
    /// Set if the call gave no answer and cost nothing but time: it counts as failed, not as paid.
    pub failed: bool,
    /// Set if what the call was about was erased: its key, handle, scope, session, input and reasons.
    pub erased: bool,
    /// What it took and cost.
    #[serde(flatten, serialize_with = "paid")]
    pub paid: Spend,
    /// What was saved.
    #[serde(flatten, serialize_with = "saved")]
    pub saved: Spend,
    /// Its input, redacted; absent for hits.
    pub input: Option<Value>,
    /// The digest of its whole input, so that a difference that is not shown can be told.
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

/// The time always, tokens and money where there are any.
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
pub struct Totals {
    /// Answered from the cache.
    pub hits: u64,
    /// Answered by somebody else's run.
    pub coalesced: u64,
    /// Run because there was no answer.
    pub misses: u64,
    /// Run because the cache was not asked.
    pub bypasses: u64,
    /// Of the runs, those that failed.
    pub failures: u64,
    /// Of the runs, those that gave no answer (failed, were abandoned, or answered with an error) and
    /// cost nothing but time. They are not paid: `misses + bypasses - failed` runs are.
    pub failed: u64,
    /// What the runs took and cost; how many they were is in the fields above.
    #[serde(flatten, serialize_with = "paid")]
    pub paid: Spend,
    /// What hits and coalesced calls would have taken and cost.
    #[serde(flatten, serialize_with = "saved")]
    pub saved: Spend,
}

impl Totals {
    /// Number of runs that were paid.
    #[must_use]
    pub fn paid_runs(&self) -> u64 {
        (self.misses + self.bypasses).saturating_sub(self.failed)
    }
}

impl std::ops::AddAssign for Totals {
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
