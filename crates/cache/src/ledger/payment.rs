//! Payments that no entry could have saved.

use std::sync::Arc;
use std::time::Instant;

use cachalot_core::{Canonical, Digest, Millis, SecretSet, Spend};

use super::{CallStatus, PendingRow};
use crate::{CallKind, Key, Scope};

/// A model's answer in a conversation. No entry answers such a request; its cost depends on the length of the
/// prefix that the provider has in its own cache.
#[derive(Clone)]
pub struct Payment<'a> {
    /// The time of the request.
    pub at: Millis,
    /// The model: `provider/model`.
    pub model: &'a str,
    /// The scope on whose behalf the request was made.
    pub scope: &'a Scope,
    /// The session, by which `why` finds the payment.
    pub session: &'a str,
    /// The session for which a fork made the request; the fork's calls are erased with it.
    pub on_behalf_of: Option<&'a str>,
    /// The digest of everything that was sent.
    pub prefix: Digest,
    /// Details of the request, shown by `why`.
    pub input: Canonical,
    /// The reason why the provider read less from its cache than possible; `None` if it did not.
    pub reason: Option<String>,
    /// Duration and cost.
    pub paid: Spend,
    /// The saving by reads from the provider's cache; a negative one is recorded as zero.
    pub saved: Spend,
    /// Secrets that must not be written.
    pub secret_set: &'a Arc<SecretSet>,
}

impl From<Payment<'_>> for PendingRow {
    fn from(payment: Payment<'_>) -> Self {
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
            secret_set,
        } = payment;
        Self {
            when: Instant::now(),
            at,
            kind: CallKind::Prefix,
            scope: scope.to_string(),
            name: model.to_owned(),
            key: Key::from_digest(prefix),
            handle: Some(session.to_owned()),
            session: Some(on_behalf_of.unwrap_or(session).into()),
            input,
            secret_set: Arc::clone(secret_set),
            answered: CallStatus::Miss,
            reason: reason.map(|reason| secret_set.redact(&reason).into_owned()),
            not_stored: None,
            failure: None,
            unpriced: None,
            failed: false,
            paid,
            saved,
        }
    }
}
