//! Stores of agents' responses, as their `cache` sections configure them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use cachalot_cache::{Cache, CacheBounds, CacheMode, CacheOptions};
use cachalot_core::{Clock, SecretSet};
use cachalot_hooks::builtin::cache_response::{
    AnswerStorage, FlatFile, ResponseCacheSettings, ResponseStore, StoreOpener,
};
use cachalot_store::flat_json::{self, FlatJsonStore, SPACE};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::{PageRequest, Record, RecordFilter, Store};

use crate::wiring::Warn;

/// Parts from which response stores are opened.
pub(crate) struct ResponseStores {
    /// Cache engine over the persistent store.
    pub(crate) cache: Cache,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) secret_set: Arc<SecretSet>,
    /// Cache mode that the command line sets.
    pub(crate) mode: CacheMode,
    /// User on whose behalf turns are answered.
    pub(crate) user: String,
    /// Base directory of relative file names.
    pub(crate) directory: PathBuf,
    pub(crate) warn: Warn,
}

impl ResponseStores {
    /// Returns a function that opens stores. All in-process stores share one engine.
    pub(crate) fn opener(self) -> StoreOpener {
        let in_process: OnceLock<Cache> = OnceLock::new();
        Arc::new(move |settings| {
            let cache = match settings.storage {
                AnswerStorage::Memory => self.cache.clone(),
                AnswerStorage::Process => in_process.get_or_init(|| self.in_process()).clone(),
            };
            Ok(ResponseStore {
                cache,
                mode: self.mode,
                user: self.user.clone(),
                flat: self.flat(settings)?,
            })
        })
    }

    /// Creates an engine whose entries end with the process. Its calls are recorded in the same ledger as all
    /// others.
    fn in_process(&self) -> Cache {
        Cache::exact(CacheOptions {
            store: Some(Arc::new(InProcessStore::new(Arc::clone(&self.clock)))),
            ledger: self.cache.ledger().clone(),
            clock: Arc::clone(&self.clock),
            secret_set: Arc::clone(&self.secret_set),
            bounds: CacheBounds::default(),
            warn: Arc::clone(&self.warn) as Arc<dyn Fn(&str) + Send + Sync>,
        })
    }

    /// Opens the flat file of a section, if it names one. The path is relative to the file that contains the
    /// section.
    fn flat(&self, settings: &ResponseCacheSettings) -> Result<Option<Arc<dyn FlatFile>>, String> {
        let Some(path) = &settings.path else {
            return Ok(None);
        };
        let file = self.directory.join(&*settings.file);
        let path = file.parent().unwrap_or(Path::new("")).join(path);
        let options = flat_json::FlatJsonOptions::new(Arc::clone(&self.clock));
        let memory = FlatJsonStore::open(&path, options).map_err(|error| error.to_string())?;
        Ok(Some(Arc::new(FlatFileStore(memory))))
    }
}

/// Flat JSON file of questions and answers.
struct FlatFileStore(FlatJsonStore);

#[async_trait]
impl FlatFile for FlatFileStore {
    fn name(&self) -> String {
        self.0.about().location.clone()
    }

    async fn get(&self, question: &str) -> Result<Option<String>, String> {
        let found = self.0.get(SPACE, question, &[]).settle().await;
        let record = found.map_err(|error| error.to_string())?.record;
        record
            .map(|record| String::from_utf8(record.value.to_vec()).map_err(|e| e.to_string()))
            .transpose()
    }

    async fn put(&self, question: &str, answer: &str) -> Result<(), String> {
        let record = Record {
            key: question.to_owned(),
            value: Bytes::copy_from_slice(answer.as_bytes()),
            labels: Vec::new(),
            expires: None,
            revision: 0,
            updated: 0,
        };
        let put = self.0.put(SPACE, record, None, &[]).settle().await;
        put.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn remove(&self, question: &str) -> Result<(), String> {
        // A page of one record is enough: the question itself is the first of all keys that begin with it.
        let filter = RecordFilter {
            prefix: question,
            ..RecordFilter::default()
        };
        let first = self
            .0
            .find(SPACE, &filter, PageRequest::keys(1))
            .settle()
            .await;
        let first = first.map_err(|error| error.to_string())?.records;
        if first.first().is_some_and(|record| record.key == question) {
            let erased = self
                .0
                .erase(SPACE, &filter, PageRequest::keys(1))
                .settle()
                .await;
            erased.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
