//! Records the cost of model answers in conversations in the ledger, with the diagnosis of the prefix.

use std::sync::Arc;

use cachalot_agent::event::AnsweredRequest;
use cachalot_agent::{Event, Listener};
use cachalot_cache::{Ledger, Payment, Scope};
use cachalot_core::{Canonical, SecretSet, Spend};
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
            let broken = request.diagnosis.filter(|found| found.is_break());
            let paid = usage.copied().unwrap_or_default();
            self.ledger.record_payment(Payment {
                at: request.at,
                model: &format!("{}/{}", request.provider, request.model),
                scope: &Scope::Agent((*agent).to_owned()),
                session: request.session,
                on_behalf_of: holder,
                prefix: request.prefix,
                input: Canonical::value(&about(usage.copied(), holder, request)),
                reason: broken.map(ToString::to_string),
                paid: Spend {
                    input_tokens: paid.total_input(),
                    output_tokens: paid.output,
                    cost: *cost,
                    ..Spend::for_call(*elapsed)
                },
                saved: Spend {
                    cost: request.spared,
                    ..Spend::default()
                },
                secret_set: &self.secret_set,
            });
        }
        self.next.on_event(event);
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
