//! Puts the rooms together: opens the memory, the ledger, the engine.

use std::collections::BTreeMap;
use std::io::ErrorKind as ErrorKindOfIo;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_cache::{Bounds, Cache, Ledger, Limits, Options};
use cachalot_core::{Clock, DigestKey, Seals, SystemClock, disk};
use cachalot_memory::in_process::InProcessMemory;
use cachalot_memory::sqlite::{self, SqliteMemory};
use cachalot_memory::{ErrorKind, Memory};
use cachalot_storage::{HttpClient, HttpOptions, Storage};

use crate::home::Home;
use crate::outcome::{Result, Trouble};

/// Tells the user something that is no failure.
pub(crate) type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// What the process was started with.
#[derive(Clone)]
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

    /// Whoever the system says is logged in, or else the number of the user that the process belongs
    /// to; empty if there are no such numbers.
    pub(crate) fn user(&self) -> String {
        let names = ["USER", "LOGNAME", "USERNAME"].iter();
        let mut users = names.filter_map(|name| self.environment.get(*name));
        users
            .find(|user| !user.trim().is_empty())
            .cloned()
            .unwrap_or_else(user_number)
    }

    /// The directory of the user's own configuration: `cachalot` in `XDG_CONFIG_HOME` or `~/.config`.
    pub(crate) fn configuration(&self) -> Option<PathBuf> {
        let set = |name: &str| {
            let value = self.environment.get(name);
            value.filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        let configuration = set("XDG_CONFIG_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| set("HOME").map(|home| home.join(".config")))?;
        Some(configuration.join("cachalot"))
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

#[cfg(unix)]
fn user_number() -> String {
    format!("uid:{}", rustix::process::getuid().as_raw())
}

#[cfg(not(unix))]
fn user_number() -> String {
    String::new()
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
    /// How long calls stay in the ledger.
    pub(crate) limits: Limits,
    /// Whether there are secrets, so that nothing may be kept without the home's digest key.
    pub(crate) secrets: bool,
    pub(crate) warn: Warn,
}

impl Opening<'_> {
    /// For a run: a memory or a digest key that cannot be used costs a warning, and the run goes on
    /// without a memory.
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
        let (key, lasting) = self.key()?;
        // What is looked up or stored under a key that ends with the run is never found again.
        self.engine(memory.filter(|_| lasting), key)
    }

    /// For a command that is about the memory: it must be there and usable.
    ///
    /// # Errors
    /// Whatever keeps it from being used.
    pub(crate) fn for_inspection(self) -> Result<Engine> {
        if !self.home.memory.exists() {
            return Err(Trouble::failed(format!(
                "there is no memory at {}: nothing was kept there yet, or it is elsewhere (--db)",
                self.home.memory.display()
            )));
        }
        let memory = self.open().map_err(Trouble::failed)?;
        self.engine(Some(memory), DigestKey::ephemeral()?)
    }

    /// For a command that may make the memory.
    ///
    /// # Errors
    /// Whatever keeps it from being made or used.
    pub(crate) fn for_import(self) -> Result<Engine> {
        let memory = self.open().map_err(Trouble::failed)?;
        self.engine(Some(memory), DigestKey::ephemeral()?)
    }

    /// For a run whose file asks for a memory that ends with it. A key that ends with it is good
    /// enough for that.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub(crate) fn in_process(self) -> Result<Engine> {
        let clock = Arc::clone(&self.surroundings.clock);
        let (key, _) = self.key()?;
        self.engine(Some(Arc::new(InProcessMemory::new(clock))), key)
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

    /// The key that secrets are digested under, and whether what is kept under it can be found again.
    ///
    /// A run without secrets uses the home's key as well, for what may be a credential without being
    /// called one (named environment variables); if there is no such key, those calls are not found again.
    fn key(&self) -> Result<(DigestKey, bool)> {
        match digest_key(&self.home.digest_key, &self.warn) {
            Ok(key) => Ok((key, true)),
            Err(fault) if self.secrets => {
                (self.warn)(&format!("nothing is cached across runs: {fault}"));
                Ok((DigestKey::ephemeral()?, false))
            }
            Err(_) => Ok((DigestKey::ephemeral()?, true)),
        }
    }

    fn engine(self, memory: Option<Arc<dyn Memory>>, key: DigestKey) -> Result<Engine> {
        let seals = Arc::new(Seals::under(key));
        let cache = Cache::new(Options {
            memory: memory.clone(),
            ledger: Ledger::limited(
                &self.home.ledger,
                self.run,
                self.limits,
                Arc::clone(&self.warn),
            ),
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

/// Why there is no digest key, where, and what to do.
#[derive(Debug)]
pub(crate) struct KeyFault(String);

impl std::fmt::Display for KeyFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key that secrets are digested under, made when it is first needed. One that others can read is
/// used, with a warning.
pub(crate) fn digest_key(path: &Path, warn: &Warn) -> std::result::Result<DigestKey, KeyFault> {
    let made = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| DigestKey::load_or_create(path));
    let key = made.map_err(|error| {
        let cause = match error.kind() {
            ErrorKindOfIo::InvalidData => "it does not hold 32 bytes".to_owned(),
            _ => error.to_string(),
        };
        if disk::is_full(&error) {
            return KeyFault(format!(
                "the digest key {} cannot be made: no space left ({error}); free some on its disk",
                path.display()
            ));
        }
        KeyFault(format!(
            "the digest key {} cannot be used: {cause}; put it back, or remove it to have a new one made (what was cached with secrets is then paid for again)",
            path.display()
        ))
    })?;
    if let Some(mode) = open_to_others(path) {
        warn(&format!(
            "the digest key {} is open to others (mode {mode:03o}), who can test guesses of your secrets with it: `chmod 600` it",
            path.display()
        ));
    }
    Ok(key)
}

/// The permissions of a file that not only its owner has any of.
#[cfg(unix)]
fn open_to_others(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> Option<u32> {
    None
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
