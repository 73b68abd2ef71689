//! Where answers are kept, as whoever registers the builtin hands it over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use cachalot_cache::{Cache, Mode};

use super::settings::Settings;

/// Makes of a section where its answers are kept. Called once for each agent, and again when its
/// section has changed. The error says in a sentence why it cannot.
pub type Opener = Arc<dyn Fn(&Settings) -> Result<Store, String> + Send + Sync>;

/// Where the answers of an agent are kept.
#[derive(Clone)]
pub struct Store {
    /// The engine: answers lie in its memory, and every turn is accounted for in its ledger.
    pub cache: Cache,
    /// What the command line says of caching.
    pub mode: Mode,
    /// On whose behalf turns are answered; empty if nobody said.
    pub user: String,
    /// The file that [`Settings::path`] names: answers lie there instead, and the engine's memory is
    /// not asked.
    pub flat: Option<Arc<dyn FlatFile>>,
}

/// A flat file of questions and answers. Several processes may use it at once, and none loses what
/// another has put in.
#[async_trait]
pub trait FlatFile: Send + Sync {
    /// What it is called, for messages.
    fn name(&self) -> String;

    /// The answer to exactly this question.
    ///
    /// # Errors
    /// The file cannot be read, in a sentence.
    async fn get(&self, question: &str) -> Result<Option<String>, String>;

    /// Keeps an answer in place of an earlier one.
    ///
    /// # Errors
    /// The file cannot be written, in a sentence.
    async fn put(&self, question: &str, answer: &str) -> Result<(), String>;

    /// Lets go of an answer, if there is one.
    ///
    /// # Errors
    /// The file cannot be written, in a sentence.
    async fn remove(&self, question: &str) -> Result<(), String>;
}

/// The stores that were opened, by agent.
pub(super) struct Stores {
    opener: Opener,
    opened: Mutex<HashMap<String, Opened>>,
}

struct Opened {
    settings: Settings,
    store: Arc<Store>,
}

impl Stores {
    pub(super) fn new(opener: Opener) -> Self {
        Self {
            opener,
            opened: Mutex::default(),
        }
    }

    /// The store of an agent, and whether it was opened just now.
    pub(super) fn of(
        &self,
        agent: &str,
        settings: &Settings,
    ) -> Result<(Arc<Store>, bool), String> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = opened
            .get(agent)
            .filter(|known| known.settings == *settings)
        {
            return Ok((Arc::clone(&known.store), false));
        }
        let store = Arc::new((self.opener)(settings)?);
        let settings = settings.clone();
        let known = Opened {
            settings,
            store: Arc::clone(&store),
        };
        opened.insert(agent.to_owned(), known);
        Ok((store, true))
    }
}
