//! A builtin with an engine, a ledger and files of its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cachalot_cache::{Cache, CacheBounds, CacheMode, CacheOptions, Domain, Ledger};
use cachalot_core::{Digest, DigestKey, ManualClock, Millis, SecretSet, tree};
use cachalot_hooks::builtin::cache_response::{
    AnswerStorage, CacheResponse, FlatFile, FlatFileError, ResponseCacheSettings, ResponseStore,
    StoreOpener,
};
use cachalot_store::Store;
use cachalot_store::flat_json::{FlatJsonFile, LOCK_TIMEOUT};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::sqlite::{self, SqliteStore};

use super::{Agent, Fixture, Team};

/// Far from the epoch, and not a round number of seconds.
const START: Millis = 1_750_000_000_123;

/// The domain of the changes that the agents' MCP server announces.
pub(crate) const SERVER: &str = "mcp:server";

/// A flat file, as the command line makes one of a memory.
pub(crate) struct File {
    pub(crate) memory: FlatJsonFile,
    pub(crate) path: PathBuf,
}

#[async_trait]
impl FlatFile for File {
    fn name(&self) -> String {
        self.path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned()
    }

    async fn get(&self, question: &str) -> Result<Option<String>, FlatFileError> {
        self.memory.get(question).map_err(flat_file_error)
    }

    async fn put(&self, question: &str, answer: &str) -> Result<(), FlatFileError> {
        let put = self.memory.put(question, answer).await;
        put.map_err(flat_file_error)
    }

    async fn remove(&self, question: &str) -> Result<(), FlatFileError> {
        let removed = self.memory.remove(question).await;
        removed.map_err(flat_file_error)
    }
}

fn flat_file_error(error: cachalot_store::Error) -> FlatFileError {
    FlatFileError(error.to_string())
}

/// Options of a fixture.
pub(crate) struct FixtureBuilder {
    sections: String,
    pub(crate) home: Arc<tempfile::TempDir>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) user: String,
    pub(crate) mode: CacheMode,
    pub(crate) secret_set: Arc<SecretSet>,
    pub(crate) persistent: bool,
    run: String,
}

/// Agents `root` and `other` with this section `cache`, in flow style.
pub(crate) fn fixture_builder(cache: &str) -> FixtureBuilder {
    FixtureBuilder::with(&format!("cache: {cache}"))
}

/// The world of [`fixture_builder`].
pub(crate) fn fixture(cache: &str) -> Fixture {
    fixture_builder(cache).make()
}

/// A secret set that knows these secrets.
pub(crate) fn knowing(secrets: &[&str]) -> Arc<SecretSet> {
    let secret_set = SecretSet::with_key(DigestKey::new([7; 32]));
    secrets.iter().for_each(|secret| secret_set.learn(secret));
    Arc::new(secret_set)
}

impl FixtureBuilder {
    pub(crate) fn with(sections: &str) -> Self {
        Self {
            sections: sections.to_owned(),
            home: Arc::new(tempfile::tempdir().unwrap()),
            clock: Arc::new(ManualClock::at(START)),
            user: "ann".to_owned(),
            mode: CacheMode::On,
            secret_set: Arc::new(SecretSet::empty()),
            persistent: true,
            run: "run".to_owned(),
        }
    }

    /// Beside another world: in the same directory, at the same time.
    pub(crate) fn beside(mut self, other: &Fixture) -> Self {
        self.home = Arc::clone(&other.home);
        self.clock = Arc::clone(&other.clock);
        self
    }

    pub(crate) fn user(mut self, user: &str) -> Self {
        user.clone_into(&mut self.user);
        self
    }

    pub(crate) fn mode(mut self, mode: CacheMode) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn secret_set(mut self, secret_set: &Arc<SecretSet>) -> Self {
        self.secret_set = Arc::clone(secret_set);
        self
    }

    pub(crate) fn in_process(mut self) -> Self {
        self.persistent = false;
        self
    }

    pub(crate) fn make(self) -> Fixture {
        let sections = tree::parse("agent.yaml", &self.sections).unwrap();
        let agent = |name: &str| {
            Arc::new(Agent {
                name: name.to_owned(),
                sections: sections.clone(),
                fingerprint: Mutex::new(Some(Digest::sha256(b"as it was"))),
            })
        };
        let team = Team(vec![agent("root"), agent("other")]);
        let opened: Arc<AtomicUsize> = Arc::default();
        let cache = engine(&self, "memory", CacheBounds::default());
        let builtin = CacheResponse::new(
            Arc::new(team.clone()),
            opener(&self, &cache, &opened),
            self.clock.clone(),
            Arc::clone(&self.secret_set),
        );
        Fixture {
            builtin,
            team,
            cache,
            clock: self.clock,
            home: self.home,
            opened,
            turns: AtomicUsize::new(0),
        }
    }
}

fn engine(fixture_builder: &FixtureBuilder, name: &str, bounds: CacheBounds) -> Cache {
    let home = fixture_builder.home.path();
    let memory: Arc<dyn Store> = if fixture_builder.persistent {
        let options = sqlite::SqliteOptions::new(fixture_builder.clock.clone());
        Arc::new(SqliteStore::open(&home.join(name), options).unwrap())
    } else {
        Arc::new(InProcessStore::new(fixture_builder.clock.clone()))
    };
    let warn: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(|line| panic!("{line}"));
    Cache::exact(CacheOptions {
        local: None,
        store: Some(memory),
        ledger: Ledger::at(
            &home.join("ledger"),
            fixture_builder.run.clone(),
            Arc::clone(&warn),
        ),
        clock: fixture_builder.clock.clone(),
        secret_set: Arc::clone(&fixture_builder.secret_set),
        bounds,
        warn,
    })
}

/// Opens what the section asks for, the way the command line does.
fn opener(
    fixture_builder: &FixtureBuilder,
    cache: &Cache,
    opened: &Arc<AtomicUsize>,
) -> StoreOpener {
    let (cache, opened) = (cache.clone(), Arc::clone(opened));
    let (mode, user) = (fixture_builder.mode, fixture_builder.user.clone());
    let home = Arc::clone(&fixture_builder.home);
    let small = FixtureBuilder {
        sections: String::new(),
        home: Arc::clone(&fixture_builder.home),
        clock: Arc::clone(&fixture_builder.clock),
        user: user.clone(),
        mode,
        secret_set: Arc::clone(&fixture_builder.secret_set),
        persistent: fixture_builder.persistent,
        run: "small".to_owned(),
    };
    Arc::new(move |settings: &ResponseCacheSettings| {
        opened.fetch_add(1, Ordering::SeqCst);
        let flat = match &settings.path {
            None => None,
            Some(path) => {
                let path = home.path().join(path);
                let memory = FlatJsonFile::open(&path, LOCK_TIMEOUT).map_err(flat_file_error)?;
                Some(Arc::new(File { memory, path }) as Arc<dyn FlatFile>)
            }
        };
        let cache = match settings.storage {
            AnswerStorage::Process => engine(&small, "small", CacheBounds::default()),
            AnswerStorage::Memory => cache.clone(),
        };
        Ok(ResponseStore {
            cache,
            mode,
            user: user.clone(),
            announced: vec![Domain::new(SERVER)],
            flat,
        })
    })
}
