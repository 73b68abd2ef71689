//! `ltm.search`.

use async_trait::async_trait;
use cachalot_cache::Domain;
use cachalot_store::user_record::{UserRecord, metadata_label};
use cachalot_store::{Label, LabelMatch, Order, PageRequest, Record, RecordFilter, Store, space};
use serde_json::{Value, json};

use super::{await_reply, domain, store};
use crate::actions::arguments::{CheckedArguments, count, declared_by, kind_name, object, text};
use crate::report::Event;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Runtime};

#[rustfmt::skip]
static SEARCH: OperationMetadata = OperationMetadata::declared(
    "ltm.search",
    &["actions.ltm_search"],
    "Searches long-term memory for entries that contain all words of the query and have the given metadata; without a query, returns the newest first.",
    &[
        text("query", "Words that the key, value or metadata must all hold; a word that ends in `*` stands for all that begin so."),
        object("metadata_filter", "Fields that the metadata must have with exactly these values; `1` and `1.0` and `\"1\"` differ."),
        count("limit", (1, 10_000), "At most so many results, from 1 to 10000, counted after filtering; 10 by default."),
    ],
)
.read_only();

pub(in crate::actions) struct Search;

#[async_trait]
impl Operation for Search {
    declared_by!(SEARCH);

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&SEARCH, &arguments);
        let limit = given.count("limit")?.unwrap_or(10);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let required_labels = required_labels(&given)?;
        let labels: Vec<LabelMatch<'_>> = required_labels
            .iter()
            .map(|Label { name, value }| LabelMatch::Is { name, value })
            .collect();
        let store = store(&given, runtime)?;
        let found = match given
            .text("query")?
            .filter(|query| !query.trim().is_empty())
        {
            Some(query) => recalled(&given, store.as_ref(), query, &labels, limit).await?,
            None => newest(&given, store.as_ref(), &labels, limit).await?,
        };
        let results: Vec<Value> = found
            .into_iter()
            .filter_map(|(record, score)| format_match(runtime, &record, score))
            .collect();
        Ok(json!({ "success": true, "count": results.len(), "results": results }))
    }
}

impl Action for Search {
    fn domains(&self, _arguments: &Arguments, _runtime: &Runtime) -> Vec<Domain> {
        vec![domain()]
    }
}

/// Returns the labels that the filter requires.
fn required_labels(given: &CheckedArguments<'_>) -> Result<Vec<Label>, Failure> {
    let fields = given.object("metadata_filter")?.into_iter().flatten();
    fields
        .map(|(name, value)| {
            metadata_label(name, value).ok_or_else(|| given.wrong(
                "metadata_filter",
                format_args!("asks for {} in `{name}`: only text, numbers, booleans and null can be searched by", kind_name(value)),
            ))
        })
        .collect()
}

async fn recalled(
    given: &CheckedArguments<'_>,
    store: &dyn Store,
    query: &str,
    labels: &[LabelMatch<'_>],
    limit: u32,
) -> Result<Vec<(Record, f64)>, Failure> {
    let recall = store.recall().ok_or_else(|| {
        given.failure(
            "configuration_error",
            format_args!(
                "the store `{}` has no full-text search: leave `query` out, or use another store",
                store.about().name
            ),
        )
    })?;
    let found = await_reply(given, || recall.search(query, labels, limit)).await?;
    Ok(found
        .into_iter()
        .map(|found| (found.record, found.score))
        .collect())
}

/// Returns the newest matches, all with the same score, because there is no query to rank them.
async fn newest(
    given: &CheckedArguments<'_>,
    store: &dyn Store,
    labels: &[LabelMatch<'_>],
    limit: u32,
) -> Result<Vec<(Record, f64)>, Failure> {
    let filter = RecordFilter {
        labels,
        order: Order::Newest,
        ..RecordFilter::default()
    };
    let find = || store.find(space::USER, &filter, PageRequest::first(limit));
    let batch = await_reply(given, find).await?;
    Ok(batch
        .records
        .into_iter()
        .map(|record| (record, 1.0))
        .collect())
}

fn format_match(runtime: &Runtime, record: &Record, score: f64) -> Option<Value> {
    match UserRecord::read(record) {
        Ok(stored_value) => Some(json!({
            "key": record.key,
            "value": stored_value.value,
            "metadata": stored_value.metadata,
            "score": score,
        })),
        Err(error) => {
            let message = format!(
                "ltm.search: what is stored under `{}` is not readable and was left out: {error}",
                record.key
            );
            runtime.reporter.report(Event::Warning { message });
            None
        }
    }
}
