//! The sessions of older revisions of the protocol, as the proxy has seen their handshakes.

use std::collections::HashMap;
use std::sync::Arc;

use cachalot_core::{Canonical, Digest, json};
use parking_lot::Mutex;

use super::server_info::ServerInfo;
use crate::json_members::text_value;
use crate::relay::Frame;

/// Maximum number of sessions that are known. A request of a forgotten one is passed on.
const MAX_SESSIONS: usize = 4_096;

/// The agreement of a session's handshake.
#[derive(Debug, Clone)]
pub(super) struct SessionState {
    /// The negotiated revision.
    pub(super) version: String,
    /// The digest of the capabilities of the client.
    pub(super) capabilities: Option<Digest>,
    /// The description that the server gives of itself.
    pub(super) server_info: Option<Arc<ServerInfo>>,
    /// The digest of the roots that the client has told the server.
    pub(super) roots: Option<Digest>,
}

/// The sessions, by their names.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Arc<str>, Arc<SessionState>>>);

impl Sessions {
    /// Remembers what a handshake agreed on. Returns true if there was an earlier one.
    pub(super) fn learn(
        &self,
        session: Option<&Arc<str>>,
        request: &Frame,
        response: &Frame,
    ) -> bool {
        let member = |of: Option<&str>, key: &str| {
            of.and_then(|of| json::member(of, key)).map(str::to_owned)
        };
        let digest = |text: Option<String>| {
            let canonical = Canonical::json(text?.as_bytes()).ok()?;
            Some(canonical.digest())
        };
        let version = member(response.result(), "protocolVersion");
        let Some(version) = version.and_then(|version| text_value(&version)) else {
            return false;
        };
        let server_info = member(response.result(), "serverInfo");
        let state = SessionState {
            version,
            capabilities: digest(member(request.params(), "capabilities")),
            server_info: server_info
                .as_deref()
                .and_then(ServerInfo::read)
                .map(Arc::new),
            roots: None,
        };
        let name: Arc<str> = session.cloned().unwrap_or_else(|| "".into());
        let mut sessions = self.0.lock();
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(&name) {
            let oldest = sessions.keys().next().cloned();
            oldest.and_then(|oldest| sessions.remove(&oldest));
        }
        sessions.insert(name, Arc::new(state)).is_some()
    }

    /// Remembers the roots of a client. Returns true if they are new.
    pub(super) fn set_roots(&self, session: Option<&Arc<str>>, roots: Digest) -> bool {
        let name: &str = session.map_or("", |session| session);
        let mut sessions = self.0.lock();
        let Some(state) = sessions.get_mut(name) else {
            return true;
        };
        let is_new = state.roots != Some(roots);
        *state = Arc::new(SessionState {
            roots: Some(roots),
            ..SessionState::clone(state)
        });
        is_new
    }

    /// Returns what the handshake of a session agreed on, if the proxy has seen it.
    pub(super) fn get(&self, session: Option<&Arc<str>>) -> Option<Arc<SessionState>> {
        let name: &str = session.map_or("", |session| session);
        self.0.lock().get(name).cloned()
    }
}
