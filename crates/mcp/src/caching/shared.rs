//! The state that all requests to a server share.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cachalot_cache::{Cache, CacheMode, Reason, Scope};
use cachalot_core::secret::mask_credentials;
use cachalot_core::suggest::nearest;
use cachalot_core::{Canonical, Clock, Digest, DigestKey, SecretSet, json};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::client_roots::RootRequests;
use super::credentials;
use super::definitions::{Definitions, ListedTools, ToolEntry};
use super::identity::ServerIdentity;
use super::in_flight::InFlight;
use super::invalidation::{Invalidation, end};
use super::open_tasks::OpenTasks;
use super::reasons::plain_reason;
use super::request_parts::RequestParts;
use super::result_view::ResultView;
use super::server_info::ServerInfo;
use super::session_order::SessionOrder;
use super::sessions::Sessions;
use super::witness_plan::FilePlace;
use crate::announcement::Announcement;
use crate::json_members::text_value;
use crate::proxy_policy::{
    CachedTool, ServerPolicy, ToolDecision, ToolDefinition, ToolPolicy, policy_digest,
};
use crate::relay::{Frame, FrameKind, RequestContext, Upstream};

/// The state of a cached server.
pub(super) struct Shared {
    pub(super) upstream: Arc<dyn Upstream>,
    pub(super) cache: Cache,
    pub(super) mode: CacheMode,
    pub(super) policy: ServerPolicy,
    /// The digest of what the policy says about answers for which the server may state a time.
    pub(super) hinted_policy: Digest,
    pub(super) identity: ServerIdentity,
    /// The identity in the form of the key.
    pub(super) keyed_identity: Canonical,
    pub(super) digest_key: DigestKey,
    pub(super) secret_set: Arc<SecretSet>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) warn: Arc<dyn Fn(&str) + Send + Sync>,
    pub(super) sessions: Sessions,
    pub(super) definitions: Definitions,
    pub(super) invalidation: Invalidation,
    pub(super) open_tasks: OpenTasks,
    /// The losses of announcements after which answers have expired.
    pub(super) losses: AtomicU64,
    /// Distinguishes the sessions of this process from those of others.
    pub(super) instance: String,
    pub(super) root_requests: RootRequests,
    /// The number of requests of the server to clients, which belong to no exchange.
    pub(super) server_requests: AtomicU64,
    /// Requests without a response, by session and id: the client may cancel them.
    pub(super) in_flight: InFlight,
    /// The order of the requests of each session.
    pub(super) order: SessionOrder,
    /// The number of writes without a session.
    pub(super) writes: AtomicU64,
    /// The tools, and the entries of the policy, of which a warning was given.
    pub(super) warned: Mutex<HashSet<String>>,
    /// Takes messages for clients that belong to no request of theirs.
    pub(super) unattached: mpsc::Sender<Frame>,
}

/// The properties of a client that an answer depends on.
pub(super) struct ClientState {
    /// The clients that share answers.
    pub(super) scope: Scope,
    /// The negotiated revision.
    pub(super) version: String,
    pub(super) capabilities: Option<Digest>,
    /// The server's description of itself in the handshake.
    pub(super) server_info: Option<Arc<ServerInfo>>,
    /// The digest of the client's roots, as far as the server knows them.
    pub(super) roots: Option<Digest>,
    /// True for a revision without sessions.
    pub(super) is_modern: bool,
    /// The number of processes of the server that have ended.
    pub(super) ends: u64,
}

impl ClientState {
    /// The name of the client among those that see the same tools.
    pub(super) fn name(&self) -> String {
        format!("{} {} {}", self.ends, self.scope, self.version)
    }
}

impl Shared {
    /// Returns what the answers to a client depend on.
    ///
    /// # Errors
    /// The reason why it is not known.
    pub(super) fn client(
        &self,
        parts: &RequestParts<'_>,
        context: &RequestContext,
    ) -> Result<ClientState, String> {
        let partition = credentials::partition(&context.headers, &self.digest_key);
        let user = Scope::User(partition.to_string());
        let ends = self.upstream.ends();
        if let Some(version) = &parts.version {
            let capabilities = match parts.capabilities {
                Some(text) => {
                    let canonical = Canonical::json(text.as_bytes());
                    Some(canonical.map_err(|error| error.to_string())?.digest())
                }
                None => None,
            };
            return Ok(ClientState {
                scope: user,
                version: version.clone(),
                capabilities,
                server_info: None,
                roots: None,
                is_modern: true,
                ends,
            });
        }
        let Some(session) = self.sessions.get(context.session.as_ref()) else {
            return Err("the proxy has not seen the handshake of the session".to_owned());
        };
        let scope = match (&context.session, self.policy.stateless) {
            (_, true) => user,
            (Some(id), false) => Scope::Session(format!("{}/{id}/{partition}", self.instance)),
            (None, false) => {
                return Err(
                    "the client has no session; if answers do not depend on one, set `stateless: true`"
                        .to_owned(),
                );
            }
        };
        Ok(ClientState {
            scope,
            version: session.version.clone(),
            capabilities: session.capabilities,
            server_info: session.server_info.clone(),
            roots: session.roots,
            is_modern: false,
            ends,
        })
    }

    /// Makes the entry of a tool.
    pub(super) fn tool_entry(&self, definition: &ToolDefinition) -> ToolEntry {
        let name = &definition.name;
        let decision = ToolDecision::new(&self.policy, name, definition.annotations);
        let policy = match self.policy.tool(name) {
            Some((entry, _)) => policy_digest::of_tool(&self.policy, entry),
            None => policy_digest::of_tool(&self.policy, &ToolPolicy::default()),
        };
        let resources = match &decision {
            ToolDecision::Cache(tool) => tool.policy.resources.as_slice(),
            _ => &[],
        };
        ToolEntry {
            definition: definition.digest,
            policy,
            domains: self.invalidation.of_tool(resources),
            call_name: format!("mcp:{}/{name}", self.identity.name),
            decision,
        }
    }

    /// Learns the tools of a page of their list, and warns of entries of the policy that have no effect.
    pub(super) fn learn_tools(
        &self,
        client: &str,
        request: &Frame,
        response: &Frame,
        generation: u64,
    ) {
        let Some(view) = response.result().and_then(|it| ResultView::read(it).ok()) else {
            return;
        };
        let cursor = request.params().and_then(|it| json::member(it, "cursor"));
        let is_first = matches!(cursor, None | Some("null"));
        let make = |definition: &ToolDefinition| self.warned_entry(definition);
        self.definitions
            .learn(client, &view, is_first, generation, &make);
        self.warn_of_unknown_tools(client);
    }

    /// Warns once of each name in the policy that no tool has, if all tools that a client sees are known.
    pub(super) fn warn_of_unknown_tools(&self, client: &str) {
        let listed = self.definitions.known(client);
        let names: Vec<&str> = match listed.as_deref().and_then(ListedTools::names) {
            Some(names) => names.collect(),
            None => return,
        };
        for entry in self.policy.exact_names() {
            if names.contains(&entry) {
                continue;
            }
            let server = &self.identity.name;
            let remedy = match nearest(entry, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "see its list of tools".to_owned(),
            };
            self.warn_once(
                &format!("unknown {entry}"),
                &format!("the policy names the tool `{entry}`, which the MCP server `{server}` does not have; {remedy}"),
            );
        }
    }

    fn warn_once(&self, about: &str, warning: &str) {
        if self.warned.lock().insert(about.to_owned()) {
            (self.warn)(warning);
        }
    }

    /// Makes the entry of a tool, and warns once if its entry of the policy has no effect.
    pub(super) fn warned_entry(&self, definition: &ToolDefinition) -> ToolEntry {
        let entry = self.tool_entry(definition);
        if let ToolDecision::Write {
            reason,
            is_named: true,
        }
        | ToolDecision::Read {
            reason,
            is_named: true,
        } = &entry.decision
        {
            let tool = &entry.call_name;
            self.warn_once(tool, &format!("not cached: `{tool}`: {reason}"));
        }
        if let ToolDecision::Cache(CachedTool { policy }) = &entry.decision
            && let Some(properties) = &definition.properties
        {
            let tool = &entry.call_name;
            let of_paths = policy.paths.keys().map(|name| ("paths", name.as_str()));
            let of_also = policy.arguments_of_also().map(|name| ("also", name));
            for (key, argument) in of_paths.chain(of_also) {
                if properties.contains(argument) {
                    continue;
                }
                let remedy = match nearest(argument, properties.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("calls are stored only with all arguments of `{key}`"),
                };
                self.warn_once(
                    &format!("argument {tool} {key} {argument}"),
                    &format!("`{key}` of `{tool}` names the argument `{argument}`, which the tool does not have; {remedy}"),
                );
            }
        }
        entry
    }

    /// Expires all answers, because what the server remembered is lost.
    pub(super) fn restarted(&self) {
        self.definitions.clear();
        self.invalidation.restarted();
    }

    /// Expires all answers if announcements of the server may have been lost since the last call.
    pub(super) fn expire_after_losses(&self) {
        let losses = self.upstream.losses();
        if losses > self.losses.load(Ordering::SeqCst) {
            self.restarted();
            // Noted afterwards, so that no other request is answered in between.
            self.losses.fetch_max(losses, Ordering::SeqCst);
        }
    }

    /// Returns a session name for a write of a client without one.
    pub(super) fn name_of_write(&self) -> String {
        let number = self.writes.fetch_add(1, Ordering::SeqCst);
        format!("write {} {number}", self.instance)
    }

    /// Takes note of a message of the server that is no response: changes that it announces expire answers.
    pub(super) fn notice(&self, frame: &Frame) {
        self.root_requests.note(frame);
        if frame.kind() != FrameKind::Notification {
            return;
        }
        if let Some(guard) = self.open_tasks.take_announced(frame) {
            tokio::spawn(end(Some(guard)));
        }
        let uri = frame.params().and_then(|it| json::member(it, "uri"));
        let uri = uri.and_then(text_value);
        if let Some(announcement) = Announcement::new(frame.method(), uri) {
            if announcement == Announcement::Tools {
                self.definitions.clear();
            }
            self.invalidation.announce(&announcement);
        }
    }

    /// Takes note of a request of the server that belongs to no request of a client.
    pub(super) fn note_server_request(&self) {
        self.server_requests.fetch_add(1, Ordering::SeqCst);
    }

    /// Passes a message on that belongs to no request of a client. It is dropped if no client takes such messages.
    pub(super) fn pass_unattached(&self, frame: Frame) {
        let _ = self.unattached.try_send(frame);
    }

    /// Returns the reason of a call that the cache did not answer, as it is shown: in plain words, without secrets.
    pub(super) fn shown_reason(&self, reason: &Reason) -> String {
        let reason = reason.to_string();
        let plain = plain_reason(&reason).unwrap_or(reason);
        let known = self.secret_set.redact(&plain);
        mask_credentials(&known).into_owned()
    }

    /// Returns where the server finds files.
    pub(super) fn file_place(&self) -> FilePlace {
        FilePlace {
            directory: self.identity.directory.clone(),
            relative_to: self.policy.relative_to.clone(),
        }
    }
}
