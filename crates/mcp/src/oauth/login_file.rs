//! The file of logins: tokens and registered clients, by server.
//!
//! One file of the user (mode 0600), replaced atomically, in the user's data directory. A second file is locked while
//! the first one is changed and while a refresh token is used, which an authorization server may accept only once:
//! processes take turns.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cachalot_core::Secret;
use cachalot_core::atomic_file::{self, Access};
use serde::{Deserialize, Serialize};
use url::Url;

use super::client::RegisteredClient;
use super::secret_serde::{optional_secret_text, secret_text};
use super::{OauthError, OauthErrorKind};

/// The version of the format.
const VERSION: u32 = 1;

/// A token is renewed this long before it expires, or after half of its lifetime.
const RENEWAL_SECONDS: u64 = 30;

/// A login at a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// The URL of the server.
    pub server: String,
    /// The issuer: the authorization server that the tokens and the client belong to.
    pub issuer: String,
    /// The client that the tokens were issued to.
    pub client: RegisteredClient,
    /// The scopes that were requested or granted so far.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The access token.
    #[serde(with = "secret_text")]
    pub access_token: Secret<String>,
    /// The refresh token.
    #[serde(default, with = "optional_secret_text")]
    pub refresh_token: Option<Secret<String>>,
    /// When the tokens were received, in seconds since 1970.
    pub received: u64,
    /// The lifetime of the access token in seconds; `None` if the server stated none.
    #[serde(default)]
    pub expires_in: Option<u64>,
    /// Identifies the login; another one may be that of another user, and keys of cached results tell them apart.
    pub id: String,
    /// Private hosts that requests for the authorization may reach.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
}

impl Login {
    /// When the access token expires, in seconds since 1970.
    #[must_use]
    pub fn expires(&self) -> Option<u64> {
        Some(self.received.saturating_add(self.expires_in?))
    }

    /// True if the access token has expired, or is about to.
    pub(super) fn is_renewal_due(&self, now: u64) -> bool {
        let Some(lifetime) = self.expires_in else {
            return false;
        };
        let margin = RENEWAL_SECONDS.min(lifetime / 2);
        now >= self
            .received
            .saturating_add(lifetime.saturating_sub(margin))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    logins: Vec<Login>,
}

/// The file of logins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginFile {
    path: PathBuf,
}

/// The lock of the file, until it is dropped.
#[derive(Debug)]
pub struct LoginLock {
    _file: File,
}

impl LoginFile {
    /// Uses this file, which need not exist.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the file of the user: `mcp-logins.json` in the user's data directory; `None` without a home directory.
    #[must_use]
    pub fn of_user(environment: &BTreeMap<String, String>) -> Option<Self> {
        let data = cachalot_core::user_data::directory(environment)?;
        Some(Self::new(data.join("mcp-logins.json")))
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns all logins.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn logins(&self) -> Result<Vec<Login>, OauthError> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.fault("cannot be read", &error)),
        };
        // Not the text of the error, which may contain a part of a token.
        let damaged = || {
            let path = self.path.display();
            let message = format!(
                "the file of logins {path} is damaged: remove it, and log in again with `cachalot mcp login`"
            );
            OauthError::new(OauthErrorKind::File, message)
        };
        let content: Content = serde_json::from_slice(&text).map_err(|_| damaged())?;
        if content.version == VERSION {
            Ok(content.logins)
        } else {
            Err(damaged())
        }
    }

    /// Returns the login at a server.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find(&self, server: &Url) -> Result<Option<Login>, OauthError> {
        let mut logins = self.logins()?.into_iter();
        Ok(logins.find(|login| login.server == server.as_str()))
    }

    /// Stores a login in place of an earlier one at the same server.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn save(&self, login: Login, _: &LoginLock) -> Result<(), OauthError> {
        let mut logins = self.logins()?;
        logins.retain(|known| known.server != login.server);
        logins.push(login);
        logins.sort_by(|a, b| a.server.cmp(&b.server));
        self.write(logins)
    }

    /// Removes the login at a server; returns it.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn remove(&self, server: &Url, _: &LoginLock) -> Result<Option<Login>, OauthError> {
        let mut logins = self.logins()?;
        let is_of_server = |login: &Login| login.server == server.as_str();
        let Some(found) = logins.iter().position(is_of_server) else {
            return Ok(None);
        };
        let removed = logins.remove(found);
        self.write(logins)?;
        Ok(Some(removed))
    }

    /// Waits until no other task or process changes the file.
    ///
    /// # Errors
    /// The file with the lock cannot be made.
    pub async fn lock(&self) -> Result<LoginLock, OauthError> {
        let this = self.clone();
        let locked = tokio::task::spawn_blocking(move || this.lock_blocking());
        match locked.await {
            Ok(locked) => locked,
            Err(error) => Err(OauthError::new(OauthErrorKind::File, error.to_string())),
        }
    }

    fn lock_blocking(&self) -> Result<LoginLock, OauthError> {
        let fault = |error| self.fault("cannot be locked", &error);
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory).map_err(fault)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options
            .open(self.path.with_extension("lock"))
            .map_err(fault)?;
        file.lock().map_err(fault)?;
        Ok(LoginLock { _file: file })
    }

    fn write(&self, logins: Vec<Login>) -> Result<(), OauthError> {
        let content = Content {
            version: VERSION,
            logins,
        };
        let mut text = serde_json::to_vec_pretty(&content)
            .map_err(|error| OauthError::new(OauthErrorKind::File, error.to_string()))?;
        text.push(b'\n');
        let written = atomic_file::replace(&self.path, &text, Access::Private);
        zeroize(text);
        written.map_err(|error| self.fault("cannot be written", &error))
    }

    fn fault(&self, what: &str, error: &std::io::Error) -> OauthError {
        let path = self.path.display();
        OauthError::new(
            OauthErrorKind::File,
            format!("the file of logins {path} {what}: {error}"),
        )
    }
}

/// Wipes a text with secrets.
fn zeroize(text: Vec<u8>) {
    drop(Secret::new(text));
}
