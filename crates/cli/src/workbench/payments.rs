//! Records the cost of model answers in conversations in the ledger, with the diagnosis of the prefix.

use std::sync::Arc;
use std::time::Duration;

use cachalot_agent::event::AnsweredRequest;
use cachalot_agent::{Event, Listener};
use cachalot_cache::{Ledger, Payment, Scope};
use cachalot_core::{Canonical, Cost, SecretSet, Spend};
use cachalot_model::Usage;
use cachalot_prefix::record;
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
    known.extend(record::members(usage, request.diagnosis));
    Value::Object(known)
}
