//! Stores of agents' responses, as their `cache` sections configure them.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use cachalot_cache::{Cache, CacheBounds, CacheMode, CacheOptions, Domain};
use cachalot_core::SecretSet;
use cachalot_hooks::builtin::cache_response::{
    AnswerStorage, FlatFile, FlatFileError, ResponseCacheSettings, ResponseStore, StoreOpener,
};
use cachalot_store::flat_json::{FlatJsonFile, LOCK_TIMEOUT};
use cachalot_store::in_process::InProcessStore;
use cachalot_tools::cached::{EngineLifetime, EngineRegistration, WriteNotifier};

use crate::wiring::{ProcessEnvironment, Warn};

/// Parts from which response stores are opened.
pub(crate) struct ResponseStores {
    /// Cache engine over the persistent store.
    pub(crate) cache: Cache,
    /// The user on whose behalf turns are answered, and the base directory of relative file names.
    pub(crate) process_environment: ProcessEnvironment,
    pub(crate) secret_set: Arc<SecretSet>,
    /// Cache mode that the command line sets.
    pub(crate) mode: CacheMode,
    pub(crate) warn: Warn,
    /// The domains of changes that the MCP servers of the agents announce.
    pub(crate) announced: Vec<Domain>,
    /// Notifies the engines of these changes.
    pub(crate) write_notifier: WriteNotifier,
}

impl ResponseStores {
    /// Returns a function that opens stores. All in-process stores share one engine.
    pub(crate) fn opener(self) -> StoreOpener {
        let in_process: OnceLock<(Cache, EngineRegistration)> = OnceLock::new();
        Arc::new(move |settings| {
            let cache = match settings.storage {
                AnswerStorage::Memory => self.cache.clone(),
                AnswerStorage::Process => in_process.get_or_init(|| self.in_process()).0.clone(),
            };
            Ok(ResponseStore {
                cache,
                mode: self.mode,
                user: self.process_environment.user(),
                announced: self.announced.clone(),
                flat: self.flat(settings)?,
            })
        })
    }

    /// Creates an engine whose entries end with the process. Its calls are recorded in the same ledger as all
    /// others.
    fn in_process(&self) -> (Cache, EngineRegistration) {
        let clock = &self.process_environment.clock;
        let engine = Cache::exact(CacheOptions {
            local: None,
            store: Some(Arc::new(InProcessStore::new(Arc::clone(clock)))),
            ledger: self.cache.ledger().clone(),
            clock: Arc::clone(clock),
            secret_set: Arc::clone(&self.secret_set),
            bounds: CacheBounds::default(),
            warn: Arc::clone(&self.warn),
        });
        // The names of domains are those of persistent engines.
        let registration = (self.write_notifier).register(&engine, EngineLifetime::Persistent);
        (engine, registration)
    }

    /// Opens the flat file of a section, if it names one. The path is relative to the file that contains the
    /// section.
    fn flat(
        &self,
        settings: &ResponseCacheSettings,
    ) -> Result<Option<Arc<dyn FlatFile>>, FlatFileError> {
        let Some(path) = &settings.path else {
            return Ok(None);
        };
        let file = self.process_environment.directory.join(&*settings.file);
        let path = file.parent().unwrap_or(Path::new("")).join(path);
        let file = FlatJsonFile::open(&path, LOCK_TIMEOUT).map_err(flat_file_error)?;
        Ok(Some(Arc::new(AnswerFile(file))))
    }
}

fn flat_file_error(error: cachalot_store::Error) -> FlatFileError {
    FlatFileError(error.to_string())
}

/// Flat JSON file of questions and answers.
struct AnswerFile(FlatJsonFile);

#[async_trait]
impl FlatFile for AnswerFile {
    fn name(&self) -> String {
        self.0.location().to_owned()
    }

    async fn get(&self, question: &str) -> Result<Option<String>, FlatFileError> {
        self.0.get(question).map_err(flat_file_error)
    }

    async fn put(&self, question: &str, answer: &str) -> Result<(), FlatFileError> {
        let put = self.0.put(question, answer).await;
        put.map_err(flat_file_error)
    }

    async fn remove(&self, question: &str) -> Result<(), FlatFileError> {
        let removed = self.0.remove(question).await;
        removed.map_err(flat_file_error)
    }
}
