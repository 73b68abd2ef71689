//! A gateway of one command (`cachalot exec`): its paths begin with a secret, and its requests belong to one run.

use cachalot_core::Secret;
use http::{StatusCode, Uri};

use crate::error_body::ErrorBody;

/// The segment in front of the secret.
const BEFORE_SECRET: &str = "/x/";
/// The name of the run of a command, which has the gateway for itself.
pub(crate) const RUN: &str = "exec";

/// The command that a gateway is for.
#[derive(Debug, Clone)]
pub struct CommandRun {
    /// The segment that follows `/x/` in all paths of the command. Requests without it are refused: anyone on the
    /// machine reaches the port, and a recording answers without credentials. One or more of `[A-Za-z0-9_-]`.
    pub secret: Secret<String>,
    /// The recording whose answers are used and added to, sampled ones, too. Whoever reads the store shares it. Without
    /// one, answers are stored as in any gateway.
    pub recording: Option<String>,
    /// The client that the command runs, by its name in the table of clients, if its requests do not say so.
    pub client: Option<String>,
    /// Asks for every answer anew, and stores it.
    pub is_fresh: bool,
    /// Names of texts that differ between runs, such as `date`, which are in no key. Empty for none.
    pub ignored_texts: Vec<String>,
}

impl CommandRun {
    /// Returns the path that is part of the command's base URL: `/x/SECRET`.
    #[must_use]
    pub fn base_path(&self) -> String {
        format!("{BEFORE_SECRET}{}", self.secret.expose())
    }

    /// Returns the tenant of the recording.
    pub(crate) fn tenant(&self) -> Option<String> {
        let recording = self.recording.as_ref()?;
        Some(format!("recording:{recording}"))
    }

    /// Returns the address of a request without the secret.
    ///
    /// # Errors
    /// The response to a request that is not the command's.
    pub(crate) fn without_secret(&self, uri: &Uri) -> Result<Uri, ErrorBody> {
        let refused = || {
            ErrorBody::new(
                StatusCode::FORBIDDEN,
                "not_of_command",
                "this gateway serves one command only, at the base URL that `cachalot exec` gave it",
            )
        };
        let (path, query) = (uri.path(), uri.query());
        let rest = path.strip_prefix(BEFORE_SECRET).ok_or_else(refused)?;
        let (secret, _) = rest.split_once('/').ok_or_else(refused)?;
        if !is_equal(secret.as_bytes(), self.secret.expose().as_bytes()) {
            return Err(refused());
        }
        let rest = &rest[secret.len()..];
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        format!("{rest}{query}").parse().map_err(|_| refused())
    }
}

/// Compares in a time that says nothing about where two texts differ.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let difference = pairs.fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && difference == 0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_with_the_secret_are_the_commands() {
        let command = CommandRun {
            secret: Secret::new("abc".to_owned()),
            recording: Some("fix".to_owned()),
            client: None,
            is_fresh: false,
            ignored_texts: Vec::new(),
        };
        assert_eq!(command.base_path(), "/x/abc");
        assert_eq!(command.tenant().as_deref(), Some("recording:fix"));
        let stripped = |path: &str| {
            let uri = command.without_secret(&path.parse().unwrap());
            uri.map(|uri| uri.to_string()).ok()
        };
        assert_eq!(
            stripped("/x/abc/v1/messages?beta=true").as_deref(),
            Some("/v1/messages?beta=true")
        );
        assert_eq!(stripped("/x/abc/").as_deref(), Some("/"));
        for path in [
            "/v1/messages",
            "/x/abd/v1",
            "/x/ab/v1",
            "/x/abcd/v1",
            "/x//v1",
            "/x/abc",
            "/y/abc/v1",
        ] {
            assert_eq!(stripped(path), None, "{path}");
        }
    }
}
