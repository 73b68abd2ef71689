//! Answers that a provider keeps, and who has got them. With a key of the gateway, a request may name only answers that
//! this key has got, and goes to the upstream that gave them. In a recording, a request that names an answer which
//! another account has recorded is sent nowhere.
//!
//! A record of the store stands for each ID. There is a fixed number of places for them, so the oldest are overwritten
//! in time: a request that names one is refused then, as before the provider has kept it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::DigestKey;
use cachalot_store::{Record, Store, space};
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error_body::ErrorBody;

/// Maximum time that a request waits for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// Hexadecimal digits of a place: there are 16 to this power.
const PLACE_DIGITS: usize = 5;
/// Time after which an answer is looked for again: the client may have the end of it before it is noted.
const NOTED_WITHIN: Duration = Duration::from_millis(250);
/// Maximum number of IDs of one answer or of one request.
const MAX_IDS: usize = 256;
/// Maximum number of IDs that a process remembers to have noted.
const MAX_NOTED: usize = 1 << 16;

/// Who has got an answer, and from which upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receiver {
    /// Name of the key of the gateway; in a recording, that of the account ([`account`]).
    pub(crate) key: String,
    /// Name of the upstream.
    pub(crate) upstream: String,
}

/// Answers and their items that a request of a recording names.
pub(crate) struct References {
    pub(crate) kept_answers: KeptAnswers,
    /// The account of the request.
    pub(crate) receiver: String,
    pub(crate) ids: Vec<String>,
}

impl References {
    /// Checks that no other account has recorded what the request names: it would be sent to an account that has nothing
    /// of it.
    ///
    /// # Errors
    /// The response to the client.
    pub(crate) async fn check(&self) -> Result<(), ErrorBody> {
        match self.kept_answers.foreign(&self.receiver, &self.ids).await {
            None => Ok(()),
            Some(id) => Err(ErrorBody::bad_request(
                "foreign_reference",
                format!(
                    "the request is not in the recording, and names `{id}`, which was recorded with another \
                     credential; `--fresh` records everything anew"
                ),
            )),
        }
    }
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
    /// Digests of the IDs that this process has noted: those of its own clients, also if their credentials have changed.
    noted: Arc<Mutex<HashSet<String>>>,
}

impl KeptAnswers {
    pub(crate) fn new(store: Option<Arc<dyn Store>>, digest_key: DigestKey) -> Self {
        Self {
            store,
            digest_key,
            noted: Arc::default(),
        }
    }

    /// Returns the first of these IDs that another process has noted for another receiver than `key`.
    pub(crate) async fn foreign<'i>(&self, key: &str, ids: &'i [String]) -> Option<&'i str> {
        let found = ids.iter().take(MAX_IDS).map(|id| async {
            let digest = self.digest(id);
            if self.noted.lock().contains(&digest) {
                return None;
            }
            let note = self.get(&digest).await?;
            (note.receiver.key != key).then_some(id.as_str())
        });
        join_all(found).await.into_iter().flatten().next()
    }

    /// Notes who has got the objects with these IDs. What the store does not take cannot be named later.
    pub(crate) async fn note(&self, receiver: &Receiver, ids: &[String]) {
        let Some(store) = &self.store else { return };
        {
            let mut noted = self.noted.lock();
            let room = MAX_NOTED.saturating_sub(noted.len());
            noted.extend(ids.iter().take(room).map(|id| self.digest(id)));
        }
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
        let found = ids.iter().map(|id| async {
            let note = self.get(&self.digest(id)).await?;
            (note.receiver.key == key).then_some(note.receiver.upstream)
        });
        let upstreams: Vec<String> = join_all(found).await.into_iter().collect::<Option<_>>()?;
        let first = upstreams.first()?;
        upstreams
            .iter()
            .all(|other| other == first)
            .then(|| first.clone())
    }

    /// Returns the note about the ID with this digest.
    async fn get(&self, digest: &str) -> Option<Note> {
        let place = place(digest);
        let found = self.store.as_ref()?.get(space::GATEWAY, &place, &[]);
        let record = found.within(STORE_TIMEOUT).await.ok()?.record?;
        let note: Note = serde_json::from_slice(&record.value).ok()?;
        (note.id == digest).then_some(note)
    }

    fn digest(&self, id: &str) -> String {
        self.digest_key.digest(id.as_bytes()).to_hex()
    }
}

/// Returns the name of an account in notes, by the digest of its credentials. No key of the gateway has one like it.
pub(crate) fn account(credentials: &str) -> String {
    format!("account:{credentials}")
}

/// Returns the key of the record for an ID.
fn place(digest: &str) -> String {
    format!("kept/{}", &digest[..PLACE_DIGITS])
}
