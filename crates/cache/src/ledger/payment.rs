//! Payments that no entry could have saved.

use std::sync::Arc;
use std::time::Instant;

use cachalot_core::{Canonical, Digest, Millis, Seals, Spend};

use super::{Answered, Ledger, Unwritten};
use crate::{Key, Kind, Scope};

/// A model's answer in a conversation. No entry answers such a request; what it costs depends on how
/// much of its beginning the provider has in its own cache.
#[derive(Clone)]
pub struct Payment<'a> {
    /// When it was asked.
    pub at: Millis,
    /// The model: `provider/model`.
    pub model: &'a str,
    /// On whose behalf.
    pub scope: &'a Scope,
    /// The session: what `why` finds it by.
    pub session: &'a str,
    /// The session on whose behalf a fork asked; its calls are erased with it.
    pub on_behalf_of: Option<&'a str>,
    /// The name of everything that was sent.
    pub prefix: Digest,
    /// What is known of it: shown by `why`.
    pub input: Canonical,
    /// Why the provider read less from its cache than it could have; `None` if it did not.
    pub reason: Option<String>,
    /// What it took and cost.
    pub paid: Spend,
    /// What was saved because the provider read from its cache; less than nothing is nothing.
    pub saved: Spend,
    /// What must not be written.
    pub seals: &'a Arc<Seals>,
}

impl Ledger {
    /// Accounts for a model's answer in a conversation.
    pub fn pay(&self, payment: Payment<'_>) {
        let Payment {
            at,
            model,
            scope,
            session,
            on_behalf_of,
            prefix,
            input,
            reason,
            paid,
            saved,
            seals,
        } = payment;
        self.send(Unwritten {
            when: Instant::now(),
            at,
            kind: Kind::Prefix,
            scope: scope.to_string(),
            name: model.to_owned(),
            key: Key::from_digest(prefix),
            handle: Some(session.to_owned()),
            session: Some(on_behalf_of.unwrap_or(session).into()),
            input,
            seals: Arc::clone(seals),
            answered: Answered::Miss,
            reason: reason.map(|reason| seals.redact(&reason).into_owned()),
            not_stored: None,
            failure: None,
            failed: false,
            paid,
            saved,
        });
    }
}
