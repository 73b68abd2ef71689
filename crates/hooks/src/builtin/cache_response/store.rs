//! The stores of the builtin, opened by a callback of the code that registers it.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_cache::{Cache, CacheMode, Domain};
use parking_lot::Mutex;

use super::settings::ResponseCacheSettings;

/// Opens the store of an agent from its `cache` section. Called once per agent, and again after the
/// section changed.
pub type StoreOpener =
    Arc<dyn Fn(&ResponseCacheSettings) -> Result<ResponseStore, FlatFileError> + Send + Sync>;

/// The reason why a flat file cannot be opened, read or written, in one sentence.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct FlatFileError(pub String);

/// The store for the answers of an agent.
#[derive(Clone)]
pub struct ResponseStore {
    /// The engine: its store holds the answers, its ledger records every turn.
    pub cache: Cache,
    /// The cache mode of the run (command line).
    pub mode: CacheMode,
    /// The user that turns are answered for; empty if unknown.
    pub user: String,
    /// The domains of changes that MCP servers announce. They expire answers that are stored only because of
    /// a time to live, since such an answer may be built from what a server returned.
    pub announced: Vec<Domain>,
    /// The file of [`ResponseCacheSettings::path`]. If set, answers are stored there and the engine's store is not
    /// used.
    pub flat: Option<Arc<dyn FlatFile>>,
}

/// A flat file of questions and answers. Several processes may use it at the same time; no process loses
/// the writes of another.
#[async_trait]
pub trait FlatFile: Send + Sync {
    /// The name for messages.
    fn name(&self) -> String;

    /// Returns the answer to exactly this question.
    ///
    /// # Errors
    /// If the file cannot be read.
    async fn get(&self, question: &str) -> Result<Option<String>, FlatFileError>;

    /// Stores an answer; replaces an earlier one.
    ///
    /// # Errors
    /// If the file cannot be written.
    async fn put(&self, question: &str, answer: &str) -> Result<(), FlatFileError>;

    /// Removes the answer, if there is one.
    ///
    /// # Errors
    /// If the file cannot be written.
    async fn remove(&self, question: &str) -> Result<(), FlatFileError>;
}

/// The opened stores, by agent.
pub(super) struct ResponseStores {
    opener: StoreOpener,
    opened: Mutex<HashMap<String, OpenStore>>,
}

struct OpenStore {
    settings: ResponseCacheSettings,
    store: Arc<ResponseStore>,
}

impl ResponseStores {
    pub(super) fn new(opener: StoreOpener) -> Self {
        Self {
            opener,
            opened: Mutex::default(),
        }
    }

    /// Returns the store of an agent, and true if this call opened it.
    pub(super) fn open_for(
        &self,
        agent: &str,
        settings: &ResponseCacheSettings,
    ) -> Result<(Arc<ResponseStore>, bool), FlatFileError> {
        // Held while the store is opened, so that an agent has one store and one notice.
        let mut opened = self.opened.lock();
        if let Some(known) = opened
            .get(agent)
            .filter(|known| known.settings == *settings)
        {
            return Ok((Arc::clone(&known.store), false));
        }
        let store = Arc::new((self.opener)(settings)?);
        let settings = settings.clone();
        let known = OpenStore {
            settings,
            store: Arc::clone(&store),
        };
        opened.insert(agent.to_owned(), known);
        Ok((store, true))
    }
}
