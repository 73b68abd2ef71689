//! Answers that a provider keeps for the operator's account, and who has got them: with a key of the gateway, a request
//! may name only answers that this key has got, and goes to the upstream that gave them.
//!
//! A record of the store stands for each ID. There is a fixed number of places for them, so the oldest are overwritten
//! in time: a request that names one is refused then, as before the provider has kept it.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::DigestKey;
use cachalot_store::{Record, Store, space};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

/// Maximum time that a request waits for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// Hexadecimal digits of a place: there are 16 to this power.
const PLACE_DIGITS: usize = 5;
/// Time after which an answer is looked for again: the client may have the end of it before it is noted.
const NOTED_WITHIN: Duration = Duration::from_millis(250);
/// Maximum number of IDs of one answer or of one request.
const MAX_IDS: usize = 256;

/// Who has got an answer, and from which upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receiver {
    /// Name of the key of the gateway.
    pub(crate) key: String,
    /// Name of the upstream.
    pub(crate) upstream: String,
}

#[derive(Serialize, Deserialize)]
struct Note {
    /// Digest of the ID.
    id: String,
    receiver: Receiver,
}

/// The answers that are kept at providers.
#[derive(Clone)]
pub(crate) struct KeptAnswers {
    store: Option<Arc<dyn Store>>,
    digest_key: DigestKey,
}

impl KeptAnswers {
    pub(crate) fn new(store: Option<Arc<dyn Store>>, digest_key: DigestKey) -> Self {
        Self { store, digest_key }
    }

    /// Notes who has got the objects with these IDs. What the store does not take cannot be named later.
    pub(crate) async fn note(&self, receiver: &Receiver, ids: &[String]) {
        let Some(store) = &self.store else { return };
        let puts = ids.iter().take(MAX_IDS).map(|id| async {
            let note = Note {
                id: self.digest(id),
                receiver: receiver.clone(),
            };
            let value = serde_json::to_vec(&note).unwrap_or_default();
            let record = Record {
                key: place(&note.id),
                value: value.into(),
                labels: Vec::new(),
                expires: None,
                revision: 0,
                updated: 0,
            };
            store
                .put(space::GATEWAY, record, None, &[])
                .within(STORE_TIMEOUT)
                .await
        });
        for failure in join_all(puts).await.into_iter().filter_map(Result::err) {
            tracing::debug!(%failure, "an answer that the provider keeps was not noted");
        }
    }

    /// Returns the upstream from which the key has got all objects with these IDs; `None` if it has not, or if the store
    /// does not say so.
    pub(crate) async fn upstream(&self, key: &str, ids: &[&str]) -> Option<String> {
        if ids.is_empty() || ids.len() > MAX_IDS {
            return None;
        }
        match self.find(key, ids).await {
            Some(upstream) => Some(upstream),
            None => {
                tokio::time::sleep(NOTED_WITHIN).await;
                self.find(key, ids).await
            }
        }
    }

    async fn find(&self, key: &str, ids: &[&str]) -> Option<String> {
        let store = self.store.as_ref()?;
        let found = ids.iter().map(|id| async {
            let id = self.digest(id);
            let place = place(&id);
            let found = store
                .get(space::GATEWAY, &place, &[])
                .within(STORE_TIMEOUT)
                .await;
            let record = found.ok()?.record?;
            let note: Note = serde_json::from_slice(&record.value).ok()?;
            let is_own = note.id == id && note.receiver.key == key;
            is_own.then_some(note.receiver.upstream)
        });
        let upstreams: Vec<String> = join_all(found).await.into_iter().collect::<Option<_>>()?;
        let first = upstreams.first()?;
        upstreams
            .iter()
            .all(|other| other == first)
            .then(|| first.clone())
    }

    fn digest(&self, id: &str) -> String {
        self.digest_key.digest(id.as_bytes()).to_hex()
    }
}

/// Returns the key of the record for an ID.
fn place(digest: &str) -> String {
    format!("kept/{}", &digest[..PLACE_DIGITS])
}
