//! User-visible keys (handles): `cache:{agent}:{action}:{sha256}` or `cache:{agent}:{key}`.

use std::fmt::Write as _;
use std::path::Path;

use cachalot_core::secret::TextPart;
use cachalot_core::{Digest, SecretSet};

const PREFIX: &str = "cache:";

/// Escapes a name for use in a handle: `:`, `*`, `%`, white space and control characters are
/// percent-encoded, so that a name can neither extend into another part of a handle nor act as a pattern.
#[must_use]
pub fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    escape_onto(name, &mut escaped);
    escaped
}

fn escape_onto(name: &str, escaped: &mut String) {
    for character in name.chars() {
        if matches!(character, ':' | '*' | '%')
            || character.is_whitespace()
            || character.is_control()
        {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                let _ = write!(escaped, "%{byte:02X}");
            }
        } else {
            escaped.push(character);
        }
    }
}

/// Returns the agent's segment of a handle: `settings.name`, else `name`, else the file's name with a
/// digest of its path, so that two unnamed agents never share.
#[must_use]
pub fn agent_segment(settings_name: Option<&str>, name: Option<&str>, file: &Path) -> String {
    let given = [settings_name, name]
        .into_iter()
        .flatten()
        .find(|name| !name.trim().is_empty());
    if let Some(name) = given {
        return escape(name);
    }
    let stem = file
        .file_stem()
        .map_or_else(|| "agent".into(), |stem| stem.to_string_lossy());
    let digest = Digest::sha256(file.as_os_str().as_encoded_bytes()).to_hex();
    escape(&format!("{stem}-{}", &digest[..8]))
}

/// Returns the beginning of a handle: with the agent's segment, or without it for entries that agents
/// share.
pub(super) fn start(agent: Option<&str>) -> String {
    match agent {
        Some(agent) => [PREFIX, agent, ":"].concat(),
        None => PREFIX.to_owned(),
    }
}

/// Returns the agent's segment of a handle, if the handle has one.
pub(super) fn agent_of(handle: &str) -> Option<&str> {
    let (agent, _) = handle.strip_prefix(PREFIX)?.split_once(':')?;
    Some(agent)
}

/// Returns a user's key without a leading `cache:`, then without a leading `{agent}:`. All spellings of a
/// key are the same key, and a handle is its own handle.
pub(super) fn strip_prefixes<'a>(key: &'a str, agent: Option<&str>) -> &'a str {
    let key = key.strip_prefix(PREFIX).unwrap_or(key);
    let own = agent
        .and_then(|agent| key.strip_prefix(agent))
        .and_then(|key| key.strip_prefix(':'));
    own.unwrap_or(key)
}

/// Returns the handle of a user's key. Secrets in the key are sealed. The beginning of the handle is
/// never sealed, even if it contains the text of a short secret.
pub(super) fn for_key(key: &str, agent: Option<&str>, secret_set: &SecretSet) -> String {
    format!(
        "{}{}",
        start(agent),
        sealed(strip_prefixes(key, agent).to_owned(), secret_set)
    )
}

/// Returns the handle of an action's arguments.
pub(super) fn for_arguments(action: &str, digest: Digest, agent: Option<&str>) -> String {
    let mut handle = start(agent);
    handle.reserve(action.len() + 65);
    escape_onto(action, &mut handle);
    handle.push(':');
    handle.push_str(&digest.to_hex());
    handle
}

/// Seals a text that may contain secrets, so that it can be shown and stored: each secret is replaced by
/// the beginning of its keyed digest.
pub(super) fn sealed(text: String, secret_set: &SecretSet) -> String {
    let Some(pieces) = secret_set.split(&text) else {
        return text;
    };
    pieces
        .iter()
        .map(|piece| match piece {
            TextPart::Plain(plain) => (*plain).to_owned(),
            TextPart::Secret(digest) => format!("secret-{}", &digest.to_hex()[..32]),
        })
        .collect()
}

#[cfg(test)]
#[path = "../../../tests/unit/actions/cache/handle.rs"]
mod tests;
