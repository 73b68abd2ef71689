//! Puts the rooms together: opens the memory, the ledger, the engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_cache::{Bounds, Cache, Ledger, Options};
use cachalot_core::{Clock, DigestKey, Seals, SystemClock};
use cachalot_memory::in_process::InProcessMemory;
use cachalot_memory::sqlite::{self, SqliteMemory};
use cachalot_memory::{ErrorKind, Memory};
use cachalot_storage::{HttpClient, HttpOptions, Storage};

use crate::home::Home;
use crate::outcome::{Result, Trouble};

/// Tells the user something that is no failure.
pub(crate) type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// What the process was started with.
pub(crate) struct Surroundings {
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) directory: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Surroundings {
    /// Those of this process. Variables that are not text are left out.
    pub(crate) fn of_process() -> Result<Self> {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let directory = std::env::current_dir()
            .map_err(|error| Trouble::failed(format!("the current directory: {error}")))?;
        Ok(Self {
            environment,
            directory,
            clock: Arc::new(SystemClock),
        })
    }

    pub(crate) fn home(&self, given: Option<&Path>, configured: Option<&Path>) -> Result<Home> {
        Home::find(given, &self.environment, configured, &self.directory)
    }

    pub(crate) fn storage(&self) -> Result<Storage> {
        let options = HttpOptions {
            environment: self.environment.clone(),
            ..HttpOptions::default()
        };
        let http = HttpClient::new(options).map_err(Trouble::failed)?;
        Ok(Storage::new(cachalot_storage::Options {
            directory: self.directory.clone(),
            environment: self.environment.clone(),
            http,
        }))
    }
}

/// A memory and the engine over it.
pub(crate) struct Engine {
    pub(crate) memory: Option<Arc<dyn Memory>>,
    pub(crate) cache: Cache,
    pub(crate) seals: Arc<Seals>,
}

/// What an engine is opened with.
pub(crate) struct Opening<'a> {
    pub(crate) surroundings: &'a Surroundings,
    pub(crate) home: &'a Home,
    pub(crate) run: &'a str,
    pub(crate) bounds: Bounds,
    /// Whether there are secrets, so that the digest key is needed.
    pub(crate) secrets: bool,
    pub(crate) warn: Warn,
}

impl Opening<'_> {
    /// For a run: a memory that cannot be used costs a warning, and the run goes on without it.
    ///
    /// # Errors
    /// A memory from a newer version is refused.
    pub(crate) fn for_run(self) -> Result<Engine> {
        let memory = match self.open() {
            Ok(memory) => Some(memory),
            Err(error) if error.kind == ErrorKind::TooNew => return Err(Trouble::failed(error)),
            Err(error) if error.kind == ErrorKind::Corrupt => {
                self.set_aside(&error);
                None
            }
            Err(error) => {
                (self.warn)(&format!(
                    "no memory, nothing is cached in this run: {error}"
                ));
                None
            }
        };
        self.engine(memory)
    }

    /// For a command that is about the memory: it must be there and usable.
    ///
    /// # Errors
    /// Whatever keeps it from being used.
    pub(crate) fn for_inspection(self) -> Result<Engine> {
        if !self.home.memory.exists() {
            return Err(Trouble::failed(format!(
                "there is no memory at {}: nothing was cached there yet, or it is elsewhere (--db)",
                self.home.memory.display()
            )));
        }
        let memory = self.open().map_err(Trouble::failed)?;
        self.engine(Some(memory))
    }

    /// For a command that may make the memory.
    ///
    /// # Errors
    /// Whatever keeps it from being made or used.
    pub(crate) fn for_import(self) -> Result<Engine> {
        let memory = self.open().map_err(Trouble::failed)?;
        self.engine(Some(memory))
    }

    /// For a run whose file asks for a memory that ends with it.
    ///
    /// # Errors
    /// Those of the digest key.
    pub(crate) fn in_process(self) -> Result<Engine> {
        let clock = Arc::clone(&self.surroundings.clock);
        self.engine(Some(Arc::new(InProcessMemory::new(clock))))
    }

    fn open(&self) -> std::result::Result<Arc<dyn Memory>, cachalot_memory::Error> {
        let options = sqlite::Options::new(Arc::clone(&self.surroundings.clock));
        let memory = SqliteMemory::open(&self.home.memory, options)?;
        Ok(Arc::new(memory))
    }

    fn set_aside(&self, error: &cachalot_memory::Error) {
        let now = self.surroundings.clock.now();
        let kept = match sqlite::set_aside(&self.home.memory, now) {
            Ok(path) => format!("it was set aside as {}", path.display()),
            Err(error) => format!("it could not be set aside: {error}"),
        };
        (self.warn)(&format!(
            "the memory is damaged, nothing is cached in this run; {kept} ({error})"
        ));
    }

    fn engine(self, memory: Option<Arc<dyn Memory>>) -> Result<Engine> {
        let seals = Arc::new(match self.secrets {
            true => Seals::under(digest_key(&self.home.digest_key)?),
            // Keys of services are secrets too, even if none was handed to the run.
            false => Seals::under(DigestKey::ephemeral()?),
        });
        let cache = Cache::new(Options {
            memory: memory.clone(),
            ledger: Ledger::at(&self.home.ledger, self.run, Arc::clone(&self.warn)),
            clock: Arc::clone(&self.surroundings.clock),
            seals: Arc::clone(&seals),
            bounds: self.bounds,
            warn: self.warn,
        });
        Ok(Engine {
            memory,
            cache,
            seals,
        })
    }
}

/// The key that secrets are digested under, made when it is first needed.
pub(crate) fn digest_key(path: &Path) -> Result<DigestKey> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    DigestKey::load_or_create(path)
        .map_err(|error| Trouble::failed(format!("the digest key {}: {error}", path.display())))
}

/// A name for a run, apart from all others.
pub(crate) fn run_id() -> String {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => hex::encode(bytes),
        // Without randomness, the process' number and the time of day tell runs apart well enough.
        Err(_) => format!("{}-{}", std::process::id(), SystemClock.now()),
    }
}
