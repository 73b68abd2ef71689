//! Members of a ledger row about a request with a prefix. `cachalot why` and `cachalot prefix live` show them.

use cachalot_model::Usage;
use serde_json::{Map, Value, json};

use crate::diagnosis::Diagnosis;

/// Returns the tokens that an answer reports, and the diagnosis of a break.
#[must_use]
pub fn members(usage: Option<Usage>, diagnosis: Option<&Diagnosis>) -> Map<String, Value> {
    let mut known = Map::new();
    if let Some(usage) = usage {
        known.insert("input_tokens".to_owned(), json!(usage.total_input()));
        known.insert("read_from_its_cache".to_owned(), json!(usage.cache_read));
        known.insert(
            "written_to_its_cache".to_owned(),
            json!(usage.cache_write()),
        );
    }
    if let Some(found) = diagnosis.filter(|found| found.is_break()) {
        known.insert(
            "could_have_read".to_owned(),
            json!(found.expected_read_tokens),
        );
        known.insert("prefix".to_owned(), json!(found.reason));
        known.insert("lost_tokens".to_owned(), json!(found.lost_tokens));
        known.extend(
            found
                .lost_cost
                .map(|cost| ("lost_cost".to_owned(), json!(cost))),
        );
        let place = found.at.as_ref().map(ToString::to_string);
        known.extend(place.map(|place| ("place".to_owned(), json!(place))));
        known.extend(found.cause.map(|cause| ("cause".to_owned(), json!(cause))));
        let remedy = found.cause.map(|cause| cause.remedy());
        known.extend(remedy.map(|remedy| ("what_to_do".to_owned(), json!(remedy))));
    }
    known
}
