//! Records the cost of model answers in conversations in the ledger, with the diagnosis of the prefix.

use std::sync::Arc;
use std::time::Duration;

use cachalot_agent::event::AnsweredRequest;
use cachalot_agent::{Event, Listener};
use cachalot_cache::{Ledger, Payment, Scope};
use cachalot_core::{Canonical, Cost, SecretSet, Spend};
use cachalot_model::Usage;
use serde_json::{Map, Value, json};

use super::Workbench;

/// Records every model answer in the ledger, and forwards every event.
pub(super) struct Payments {
    pub(super) ledger: Ledger,
    pub(super) secret_set: Arc<SecretSet>,
    /// Records which sessions belong to forks.
    pub(super) bench: Workbench,
    pub(super) next: Arc<dyn Listener>,
}

impl Listener for Payments {
    fn on_event(&self, event: &Event<'_>) {
        let (mut told, mut holder) = (event, None);
        while let Event::Fork { holder: of, event } = told {
            holder = holder.or(Some(*of));
            told = event;
        }
        if let Event::ModelCallEnded {
            agent,
            usage,
            cost,
            elapsed,
            request,
        } = told
        {
            if let Some(holder) = holder {
                self.bench.mark_fork(request.session, holder);
            }
            let scope = Scope::Agent((*agent).to_owned());
            let known = about(usage.copied(), holder, request);
            let paid = Paid {
                usage: usage.copied().unwrap_or_default(),
                cost: *cost,
                elapsed: *elapsed,
            };
            self.account(&scope, known, holder, &paid, request);
        }
        self.next.on_event(event);
    }
}

/// Cost of an answer.
struct Paid {
    usage: Usage,
    cost: Cost,
    elapsed: Duration,
}

impl Payments {
    fn account(
        &self,
        scope: &Scope,
        known: Value,
        holder: Option<&str>,
        paid: &Paid,
        request: &AnsweredRequest<'_>,
    ) {
        let broken = request.diagnosis.filter(|found| found.is_break());
        self.ledger.record_payment(Payment {
            at: request.at,
            model: &format!("{}/{}", request.provider, request.model),
            scope,
            session: request.session,
            on_behalf_of: holder,
            prefix: request.prefix,
            input: Canonical::value(&known),
            reason: broken.map(ToString::to_string),
            paid: Spend {
                input_tokens: paid.usage.total_input(),
                output_tokens: paid.usage.output,
                cost: paid.cost,
                ..Spend::for_call(paid.elapsed)
            },
            saved: Spend {
                cost: request.spared,
                ..Spend::default()
            },
            secret_set: &self.secret_set,
        });
    }
}

/// Returns the details of a request for `why`. `holder` is the fork that made it.
fn about(usage: Option<Usage>, holder: Option<&str>, request: &AnsweredRequest<'_>) -> Value {
    let mut known = Map::new();
    known.insert("session".to_owned(), json!(request.session));
    known.extend(holder.map(|holder| ("on_behalf_of".to_owned(), json!(holder))));
    if let Some(usage) = usage {
        known.insert("input_tokens".to_owned(), json!(usage.total_input()));
        known.insert("read_from_its_cache".to_owned(), json!(usage.cache_read));
        known.insert(
            "written_to_its_cache".to_owned(),
            json!(usage.cache_write()),
        );
    }
    if let Some(found) = request.diagnosis.filter(|found| found.is_break()) {
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
    Value::Object(known)
}
