//! Opens the store, the ledger and the cache engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cachalot_backends::encrypted::{
    EncryptedStore, Encryption, SECRETS, SECRETS_FILE, StoreWithoutSecret,
};
use cachalot_backends::{OpenOptions, StoreUrl};
use cachalot_cache::{
    Cache, CacheBounds, CacheOptions, Ledger, LedgerLimits, LocalStore, SharedStoreSettings,
};
use cachalot_core::links::without_links;
use cachalot_core::{Clock, DigestKey, Problem, Secret, SecretSet, SystemClock};
use cachalot_gateway::StoreMetrics;
use cachalot_storage::{HttpClient, HttpOptions, Storage};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::sqlite::{self, SqliteStore};
use cachalot_store::{ErrorKind, Store, space};

use crate::arguments::StoreArguments;
use crate::command_error::{CommandError, Result};
use crate::home::{Home, default_database};
use crate::{digest_key, render};

/// Maximum time of the first call to a server, before a run.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Shows the user a message that is not an error.
pub(crate) type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Environment of the process.
#[derive(Clone)]
pub(crate) struct ProcessEnvironment {
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) directory: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
}

impl ProcessEnvironment {
    /// Reads the environment of this process. Variables that are not UTF-8 are left out.
    pub(crate) fn of_process() -> Result<Self> {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let directory = std::env::current_dir()
            .map_err(|error| CommandError::failed(format!("the current directory: {error}")))?;
        Ok(Self {
            environment,
            directory,
            clock: Arc::new(SystemClock),
        })
    }

    pub(crate) fn home(&self, given: Option<&Path>, configured: Option<&Path>) -> Result<Home> {
        Home::find(given, &self.environment, configured, &self.directory)
    }

    /// Returns the name of the logged-in user from the environment, or else the numeric id of the user that
    /// owns the process; empty if the system has no such ids.
    pub(crate) fn user(&self) -> String {
        let names = ["USER", "LOGNAME", "USERNAME"].iter();
        let mut users = names.filter_map(|name| self.environment.get(*name));
        users
            .find(|user| !user.trim().is_empty())
            .cloned()
            .unwrap_or_else(user_number)
    }

    /// Returns the user's configuration directory: `cachalot` in `XDG_CONFIG_HOME` or `~/.config`.
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

    /// Returns the HTTP client of the process.
    pub(crate) fn http(&self) -> Result<HttpClient> {
        let options = HttpOptions {
            environment: self.environment.clone(),
            ..HttpOptions::default()
        };
        HttpClient::new(options).map_err(CommandError::failed)
    }

    /// Returns the storage whose relative paths start in `directory`.
    pub(crate) fn storage(&self, directory: &Path) -> Result<Storage> {
        Ok(Storage::new(cachalot_storage::StorageOptions {
            directory: directory.to_owned(),
            environment: self.environment.clone(),
            http: self.http()?,
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

/// A store and the cache engine over it.
pub(crate) struct Engine {
    pub(crate) store: Option<Arc<dyn Store>>,
    /// The error of the first call to a store on a server, which may answer later.
    pub(crate) unanswered: Option<cachalot_store::Error>,
    pub(crate) cache: Cache,
    pub(crate) secret_set: Arc<SecretSet>,
}

/// Parameters for opening an engine.
pub(crate) struct EngineOptions<'a> {
    pub(crate) process_environment: &'a ProcessEnvironment,
    pub(crate) home: &'a Home,
    pub(crate) run: &'a str,
    pub(crate) bounds: CacheBounds,
    /// Retention of calls in the ledger.
    pub(crate) limits: LedgerLimits,
    /// Set when there are secrets: nothing may then be stored without the home's digest key.
    pub(crate) secrets: bool,
    /// How a store on a server is used.
    pub(crate) shared: SharedStoreSettings,
    /// Set if values that are not encrypted are read although a secret is set.
    pub(crate) reads_plain: bool,
    /// Set if the operations of the store are measured.
    pub(crate) metrics: Option<StoreMetrics>,
    /// Set if a run without a store is an error.
    pub(crate) is_store_required: bool,
    pub(crate) warn: Warn,
}

impl<'a> EngineOptions<'a> {
    /// Returns the parameters with the defaults of an agent file: without secrets, staleness, durability and copies.
    pub(crate) fn new(
        process_environment: &'a ProcessEnvironment,
        home: &'a Home,
        run: &'a str,
        warn: Warn,
    ) -> Self {
        Self {
            process_environment,
            home,
            run,
            bounds: CacheBounds::default(),
            limits: LedgerLimits::default(),
            secrets: false,
            shared: SharedStoreSettings::default(),
            reads_plain: false,
            metrics: None,
            is_store_required: false,
            warn,
        }
    }

    /// Opens the engine of a run. A store or a digest key that cannot be used causes a warning, and the run
    /// continues without a store.
    ///
    /// # Errors
    /// The store is required and cannot be used; or it was written by a newer version, or its server is not suitable or demands a password and has got none; or
    /// a file of secrets, or of the digest key, that the user names cannot be used.
    pub(crate) async fn for_run(self) -> Result<Engine> {
        // Before the store is opened: `open` reports the same fault as a store that cannot be used, and the run would
        // continue without one.
        self.encryption()?;
        let (mut key, is_of_file) = self.key()?;
        let mut unanswered = None;
        let store = match self.open() {
            Ok(store) => {
                let compared = self.compare(store.as_ref(), key, is_of_file);
                // At the same time, so that a server that does not answer delays the run by one timeout only.
                let (checked, compared) = tokio::join!(self.check_server(store.as_ref()), compared);
                unanswered = checked?;
                key = compared;
                Some(store)
            }
            Err(error) if error.kind == ErrorKind::TooNew => {
                return Err(CommandError::failed(error));
            }
            Err(error) if self.is_store_required => return Err(self.unusable(&error)),
            Err(error) if error.kind == ErrorKind::Corrupt => {
                self.warn_store_failed(&error);
                None
            }
            Err(error) => {
                (self.warn)(&format!(
                    "no store, nothing is cached in this run: {error}; `cachalot doctor` checks it, --db names another one"
                ));
                None
            }
        };
        // Entries under a key that ends with the run are never found again.
        let is_lasting = is_of_file || !self.secrets;
        let mut store = store.filter(|_| is_lasting);
        if let Some(metrics) = &self.metrics {
            store = store.map(|store| metrics.measure(store));
        }
        let engine = self.engine(store, key)?;
        Ok(Engine {
            unanswered,
            ..engine
        })
    }

    /// Opens the engine of a command that inspects the store, which must exist and be usable.
    ///
    /// # Errors
    /// The store does not exist or cannot be used.
    pub(crate) fn for_inspection(self) -> Result<Engine> {
        let store = self.for_reading()?;
        self.engine(Some(store), DigestKey::ephemeral()?)
    }

    /// Opens the engine of a command that lists what the store has. A store that is not there yet has nothing, unless
    /// `--db` names it: that may be a mistake.
    ///
    /// # Errors
    /// The store cannot be used, or `--db` names one that does not exist.
    pub(crate) fn for_listing(self, place: &StoreArguments) -> Result<Engine> {
        if place.db.is_some() || self.check_exists().is_ok() {
            return self.for_inspection();
        }
        render::err(&format!(
            "there is no store at {} yet: it is created with the first entry",
            self.home.database.display()
        ));
        let clock = Arc::clone(&self.process_environment.clock);
        let empty = Arc::new(InProcessStore::new(clock));
        self.engine(Some(empty), DigestKey::ephemeral()?)
    }

    /// Opens a store that has to exist.
    ///
    /// # Errors
    /// The store does not exist or cannot be used.
    pub(crate) fn for_reading(&self) -> Result<Arc<dyn Store>> {
        self.check_exists()?;
        Ok(self.open()?)
    }

    /// # Errors
    /// The store is a file that does not exist.
    pub(crate) fn check_exists(&self) -> Result<()> {
        if self.home.url.is_none() && !self.home.database.exists() {
            return Err(CommandError::failed(format!(
                "there is no store at {}: nothing has been stored there yet, or it is elsewhere (--db)",
                self.home.database.display()
            )));
        }
        Ok(())
    }

    /// Opens the engine of a command that may create the store.
    ///
    /// # Errors
    /// The store cannot be created or used.
    pub(crate) fn for_import(self) -> Result<Engine> {
        let store = self.open()?;
        self.engine(Some(store), DigestKey::ephemeral()?)
    }

    /// Opens the engine of a run whose file configures a store that ends with the run. A digest key that ends
    /// with the run is enough for that.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub(crate) fn in_process(self) -> Result<Engine> {
        let clock = Arc::clone(&self.process_environment.clock);
        let (key, _) = self.key()?;
        self.engine(Some(Arc::new(InProcessStore::new(clock))), key)
    }

    /// Opens the store.
    pub(crate) fn open(&self) -> std::result::Result<Arc<dyn Store>, cachalot_store::Error> {
        let store = self.open_unencrypted()?;
        self.encrypted(store)
    }

    /// Encrypts the values of a store if the user has set a secret.
    pub(crate) fn encrypted(
        &self,
        store: Arc<dyn Store>,
    ) -> std::result::Result<Arc<dyn Store>, cachalot_store::Error> {
        let encryption = self.encryption().map_err(|error| {
            cachalot_store::Error::new(ErrorKind::Unsupported, error.to_string())
        })?;
        Ok(match encryption {
            Some(encryption) if self.reads_plain => {
                Arc::new(EncryptedStore::new(store, encryption.with_plain_values()))
            }
            Some(encryption) => Arc::new(EncryptedStore::new(store, encryption)),
            None => Arc::new(StoreWithoutSecret::new(store)),
        })
    }

    /// Reads the secrets of the store from the environment, or from the file that it names.
    pub(crate) fn encryption(&self) -> Result<Option<Encryption>> {
        let set = |name: &str| {
            let value = self.process_environment.environment.get(name);
            value.filter(|value| !value.is_empty())
        };
        let (name, secrets) = match (set(SECRETS), set(SECRETS_FILE)) {
            (Some(secrets), _) => (SECRETS, secrets.clone()),
            (None, Some(file)) => {
                let path = self.process_environment.directory.join(file);
                let read = std::fs::read_to_string(&path);
                let read = read.map_err(|error| {
                    CommandError::failed(format!("{SECRETS_FILE}: {}: {error}", path.display()))
                })?;
                (SECRETS_FILE, read)
            }
            (None, None) => return Ok(None),
        };
        let encryption = Encryption::parse(&Secret::new(secrets));
        encryption.map(Some).map_err(|fault| {
            CommandError::usage(Problem::new("bad-value", format!("{name}: {fault}")))
        })
    }

    /// Opens the store with its values as they are stored.
    pub(crate) fn open_unencrypted(
        &self,
    ) -> std::result::Result<Arc<dyn Store>, cachalot_store::Error> {
        if let Some(url) = &self.home.url {
            let options = OpenOptions {
                password: self
                    .password(url)
                    .map(|password| Secret::new(password.to_owned())),
                environment: self.process_environment.environment.clone(),
                clock: Arc::clone(&self.process_environment.clock),
                staleness: self.shared.staleness,
                durable: self.shared.durable,
                ..OpenOptions::default()
            };
            let opened = cachalot_backends::open(url, &options);
            return opened.map_err(|error| {
                cachalot_store::Error::new(ErrorKind::Unsupported, error.to_string())
            });
        }
        let options = sqlite::SqliteOptions::new(Arc::clone(&self.process_environment.clock));
        let store = SqliteStore::open(&self.home.database, options)?;
        Ok(Arc::new(store))
    }

    /// Returns the password of the environment, for a server that the user chose.
    fn password(&self, url: &StoreUrl) -> Option<&str> {
        let environment = &self.process_environment.environment;
        let password = environment.get(url.password_variable()?);
        let password = password.filter(|password| !password.is_empty());
        password
            .filter(|_| self.home.is_chosen_by_user)
            .map(String::as_str)
    }

    /// Checks a store on a server with a first call. A server that does not answer now may answer later: its error is
    /// returned.
    async fn check_server(&self, store: &dyn Store) -> Result<Option<cachalot_store::Error>> {
        let Some(url) = &self.home.url else {
            return Ok(None);
        };
        let checked = store.usage(space::CACHE).within(CHECK_TIMEOUT).await;
        let Err(error) = checked else {
            return Ok(None);
        };
        if let Some(remedy) = error.remedy
            && matches!(error.kind, ErrorKind::Denied | ErrorKind::Unsupported)
        {
            // No call will succeed until then.
            let message = format!("{}\n  help: {remedy}", error.message);
            return Err(CommandError::failed_with("store-setup", message));
        }
        match error.kind {
            ErrorKind::TooNew | ErrorKind::Unsupported => Err(CommandError::failed(error)),
            ErrorKind::Denied if !url.has_password() && self.password(url).is_none() => {
                let Some(variable) = url.password_variable() else {
                    return Err(CommandError::failed(error));
                };
                let help = match variable {
                    variable if self.home.is_chosen_by_user => {
                        format!("set {variable}, or the URL with the password in CACHALOT_DB")
                    }
                    _ => "write the URL as `${VARIABLE}`, and set that variable to the URL with the password".to_owned(),
                };
                let problem = Problem::new("missing-password", error.to_string());
                Err(CommandError::usage(problem.help(help)))
            }
            _ if self.is_store_required => Err(self.unusable(&error)),
            _ => Ok(Some(error)),
        }
    }

    /// Returns the error of a store that is required and cannot be used.
    fn unusable(&self, error: &cachalot_store::Error) -> CommandError {
        CommandError::failed_with(
            "store-unusable",
            format!(
                "--require-store: {error}\n  help: `cachalot doctor --db {}` checks the store; without --require-store, the work goes on, and nothing is cached",
                self.home.location()
            ),
        )
    }

    fn warn_store_failed(&self, error: &cachalot_store::Error) {
        let database = &self.home.database;
        let environment = &self.process_environment.environment;
        let is_default =
            default_database(environment).is_ok_and(|path| without_links(&path) == *database);
        if !is_default && !sqlite::begins_as_database(database) {
            // The user may have named another file by mistake.
            (self.warn)(&format!(
                "{} is no store, and stays as it is; nothing is cached in this run: name another file with --db, CACHALOT_DB or `settings.ltm`",
                database.display()
            ));
            return;
        }
        let now = self.process_environment.clock.now();
        let kept = match sqlite::set_aside(database, now) {
            Ok(path) => format!("it was set aside as {}", path.display()),
            Err(error) => format!("it could not be set aside: {error}"),
        };
        (self.warn)(&format!(
            "the store is damaged, nothing is cached in this run; {kept} ({error})"
        ));
    }

    /// Returns the key for the digests of secrets, and true if it is that of the file: otherwise it ends with the run.
    ///
    /// A run without secrets uses the home's key as well, for values that may be undeclared credentials
    /// (named environment variables). Without that key, such calls are not found again.
    ///
    /// # Errors
    /// A file that the user names cannot be used, or the key is needed for a store that is required.
    fn key(&self) -> Result<(DigestKey, bool)> {
        match self.home.digest_key.load(self.warn.as_ref()) {
            Ok(key) => return Ok((key, true)),
            Err(fault)
                if self.home.digest_key.is_named() || (self.secrets && self.is_store_required) =>
            {
                return Err(fault);
            }
            Err(fault) if self.secrets => {
                (self.warn)(&format!("nothing is cached across runs: {fault}"));
            }
            Err(_) => {}
        }
        Ok((DigestKey::ephemeral()?, false))
    }

    /// Compares the key of the file with that of the store. If it is another one, the first call whose key contains a
    /// digest reports that.
    async fn compare(&self, store: &dyn Store, key: DigestKey, is_of_file: bool) -> DigestKey {
        if !is_of_file {
            return key;
        }
        let file = &self.home.digest_key;
        let compared = digest_key::compare(store, file, &key);
        // A store that cannot answer in time is no reason to delay the run: the keys are not compared then.
        let Ok(Ok(compared)) = tokio::time::timeout(CHECK_TIMEOUT, compared).await else {
            return key;
        };
        match compared.warning(file, &store.about().location) {
            None => key,
            Some(warning) => {
                let warn = Arc::clone(&self.warn);
                key.on_first_use(move || warn(&warning))
            }
        }
    }

    /// Opens the store for copies of the entries of a store on a server. Without it, the run continues. Copies that other
    /// runs keep are opened to be erased with the entries.
    fn local_copies(&self, store: &dyn Store) -> Option<LocalStore> {
        let path = match &self.home.copies {
            Some(path) if store.about().shared => path,
            _ if self.shared.local => {
                (self.warn)(
                    "the setting `local` has no effect: the store is on this machine; remove it",
                );
                return None;
            }
            _ => return None,
        };
        if !self.shared.local && !path.exists() {
            return None;
        }
        let options = sqlite::SqliteOptions::new(Arc::clone(&self.process_environment.clock));
        let opened = SqliteStore::open(path, options);
        match opened.and_then(|store| self.encrypted(Arc::new(store))) {
            Ok(store) => Some(LocalStore {
                store,
                is_served: self.shared.local,
            }),
            Err(error) => {
                (self.warn)(&format!(
                    "no copies of cached answers are kept on this machine: {error}"
                ));
                None
            }
        }
    }

    fn engine(self, store: Option<Arc<dyn Store>>, key: DigestKey) -> Result<Engine> {
        let local = store.as_deref().and_then(|store| self.local_copies(store));
        let secret_set = Arc::new(SecretSet::with_key(key));
        let cache = Cache::new(CacheOptions {
            store: store.clone(),
            local,
            ledger: Ledger::with_limits(
                &self.home.ledger,
                self.run,
                self.limits,
                Arc::clone(&self.warn),
            ),
            clock: Arc::clone(&self.process_environment.clock),
            secret_set: Arc::clone(&secret_set),
            bounds: self.bounds,
            warn: self.warn,
        });
        Ok(Engine {
            store,
            unanswered: None,
            cache,
            secret_set,
        })
    }
}

/// Returns a unique name for a run.
pub(crate) fn run_id() -> String {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => hex::encode(bytes),
        // Without randomness, the process id and the time of day are unique enough.
        Err(_) => format!("{}-{}", std::process::id(), SystemClock.now()),
    }
}
