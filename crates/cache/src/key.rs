//! Calls, and the keys that identify them.

use std::fmt;
use std::str::FromStr;

use cachalot_core::digest::InvalidDigest;
use cachalot_core::{Canonical, Digest};
use serde::{Deserialize, Serialize};

/// The version of the key's encoding: when it is raised, entries under older keys are never found.
const KEY_FORMAT: &[u8] = b"cachalot key 1";

/// The version of the encoding of an attempt's key.
const ATTEMPT_FORMAT: &[u8] = b"cachalot attempt 1";

/// The digest of a call: kind, scope, name and input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key(Digest);

impl Key {
    /// Computes the key of a call. Destructures it exhaustively, so that no new field can be left out.
    #[must_use]
    pub fn for_call(call: &Call<'_>) -> Self {
        let Call {
            kind,
            scope,
            name,
            input,
        } = call;
        let (sharing, owner) = scope.parts();
        let before = [
            KEY_FORMAT,
            kind.as_str().as_bytes(),
            sharing.as_bytes(),
            owner.as_bytes(),
            name.as_bytes(),
        ];
        Self(Digest::sha256_of_parts_and_chunks(
            &before,
            input.len(),
            input.chunks(),
        ))
    }

    /// Computes the key of one attempt of a call with this key. `attempt` is a name that no other attempt has. Such a key
    /// costs nothing for a long input, and is the key of no call without an attempt.
    #[must_use]
    pub fn for_attempt(&self, attempt: &str) -> Self {
        let parts = [ATTEMPT_FORMAT, self.0.as_bytes(), attempt.as_bytes()];
        Self(Digest::sha256_of_parts(&parts))
    }

    /// The hex digits of the key, without an allocation.
    pub(crate) fn text(&self) -> KeyText {
        let mut text = [b'0'; 64];
        // Cannot fail: 32 bytes are 64 digits.
        let _ = hex::encode_to_slice(self.0.as_bytes(), &mut text);
        KeyText(text)
    }

    pub(crate) fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// The digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0
    }
}

/// The 64 hex digits of a key.
pub(crate) struct KeyText([u8; 64]);

impl std::ops::Deref for KeyText {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Key {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        text.parse().map(Self)
    }
}

/// The kind of work of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// A step of a workflow.
    Action,
    /// A tool call.
    Tool,
    /// A whole answer to a user message.
    Turn,
    /// A request through the gateway or the MCP proxy.
    Request,
    /// A request of a conversation, whose prefix the provider may have in its own cache. Only payments have
    /// this kind, no entries.
    Prefix,
}

impl CallKind {
    /// The name in keys, entries and the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Tool => "tool",
            Self::Turn => "turn",
            Self::Request => "request",
            Self::Prefix => "prefix",
        }
    }
}

/// The callers that may share an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One run only.
    Run(String),
    /// One session.
    Session(String),
    /// One workspace.
    Workspace(String),
    /// One agent.
    Agent(String),
    /// One user (in the gateway: one tenant).
    User(String),
    /// All users of the store.
    Global,
}

impl Scope {
    /// The kind of sharing, and the identifier of the owner (empty for `Global`).
    #[must_use]
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Run(id) => ("run", id),
            Self::Session(id) => ("session", id),
            Self::Workspace(id) => ("workspace", id),
            Self::Agent(id) => ("agent", id),
            Self::User(id) => ("user", id),
            Self::Global => ("global", ""),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (sharing, "") => f.write_str(sharing),
            (sharing, owner) => write!(f, "{sharing}:{owner}"),
        }
    }
}

/// Identifies a cacheable call. The key covers every field.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The kind of work.
    pub kind: CallKind,
    /// The scope on whose behalf the call is made.
    pub scope: &'a Scope,
    /// The name of the action or tool.
    pub name: &'a str,
    /// Everything else that can change the result.
    pub input: &'a Canonical,
}

/// A call whose key is known, so that a long input is digested once.
#[derive(Debug, Clone, Copy)]
pub struct KeyedCall<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) key: Key,
}

impl<'a> KeyedCall<'a> {
    /// Names the key of a call: [`Key::for_call`], or that of an attempt ([`Key::for_attempt`]).
    #[must_use]
    pub fn new(call: &'a Call<'a>, key: Key) -> Self {
        Self { call, key }
    }
}

impl<'a> From<&'a Call<'a>> for KeyedCall<'a> {
    fn from(call: &'a Call<'a>) -> Self {
        Self::new(call, Key::for_call(call))
    }
}

/// An owned copy of a call.
pub(crate) struct OwnedCall {
    pub(crate) kind: CallKind,
    pub(crate) scope: Scope,
    pub(crate) name: String,
    pub(crate) input: Canonical,
}

impl OwnedCall {
    pub(crate) fn new(call: &Call<'_>) -> Self {
        Self {
            kind: call.kind,
            scope: call.scope.clone(),
            name: call.name.to_owned(),
            input: call.input.clone(),
        }
    }

    pub(crate) fn borrowed(&self) -> Call<'_> {
        Call {
            kind: self.kind,
            scope: &self.scope,
            name: &self.name,
            input: &self.input,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_covers_every_field_without_ambiguity() {
        let one = Canonical::value(&serde_json::json!(1));
        let two = Canonical::value(&serde_json::json!(2));
        let agent = Scope::Agent("a".into());
        let user = Scope::User("a".into());
        let base = Call {
            kind: CallKind::Action,
            scope: &agent,
            name: "n",
            input: &one,
        };
        let others = [
            Call {
                kind: CallKind::Tool,
                ..base
            },
            Call {
                scope: &user,
                ..base
            },
            Call {
                scope: &Scope::Agent("an".into()),
                name: "",
                ..base
            },
            Call { name: "m", ..base },
            Call {
                input: &two,
                ..base
            },
        ];
        for other in &others {
            assert_ne!(Key::for_call(&base), Key::for_call(other), "{other:?}");
        }
        assert_eq!(Key::for_call(&base), Key::for_call(&base.clone()));
        assert_eq!(
            Key::for_call(&base).to_string().parse(),
            Ok(Key::for_call(&base))
        );
        assert_eq!(
            Key::for_call(&base).to_string(),
            *Key::for_call(&base).text()
        );
    }
}
