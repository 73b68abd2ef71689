//! The tools of a server as it lists them to a client, with the decision about each.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cachalot_cache::Domain;
use cachalot_core::{Digest, json};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::result_view::ResultView;
use super::server_info::ServerInfo;
use crate::json_members::text_value;
use crate::proxy_policy::{ToolDecision, ToolDefinition};
use crate::relay::{Frame, FrameKind, RequestContext, Upstream};

/// The time for which definitions are used. A server that announces changes may have a client that does not listen.
const FRESH: Duration = Duration::from_secs(600);
/// Maximum duration of listing.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for which calls are passed on after a list has failed, before it is requested again.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 100;
/// Maximum number of clients whose definitions are kept.
const MAX_CLIENTS: usize = 1_024;

/// A tool, and the decision about its calls.
#[derive(Debug)]
pub(super) struct ToolEntry {
    /// The digest of the definition.
    pub(super) definition: Digest,
    /// The digest of what the policy says about it.
    pub(super) policy: Digest,
    pub(super) decision: ToolDecision,
    /// The domains of its answers.
    pub(super) domains: Vec<Domain>,
    /// The name of its calls.
    pub(super) call_name: String,
}

/// The tools that a client sees.
#[derive(Debug, Clone)]
pub(super) struct ListedTools {
    tools: HashMap<String, Arc<ToolEntry>>,
    /// The description that the server gives of itself in the list.
    pub(super) server_info: Option<Arc<ServerInfo>>,
    listed: Instant,
    /// False while pages are missing.
    is_complete: bool,
}

impl ListedTools {
    pub(super) fn get(&self, tool: &str) -> Option<&Arc<ToolEntry>> {
        self.tools.get(tool)
    }

    /// Returns the names of all tools; `None` while pages are missing.
    pub(super) fn names(&self) -> Option<impl Iterator<Item = &str>> {
        let names = self.tools.keys().map(String::as_str);
        self.is_complete.then_some(names)
    }
}

/// Makes the entry of a definition.
pub(super) type MakeEntry<'a> = &'a (dyn Fn(&ToolDefinition) -> ToolEntry + Send + Sync);

/// The definitions of all clients.
#[derive(Default)]
pub(super) struct Definitions {
    by_client: Mutex<HashMap<String, Arc<ListedTools>>>,
    /// The number of times that the definitions were dropped.
    generation: AtomicU64,
    /// The lists that are requested, by client.
    listings: Mutex<HashMap<String, Arc<ClientListing>>>,
}

/// The requests of a list by one client: one at a time.
#[derive(Default)]
struct ClientListing {
    /// The time and the generation of the last failure. Locked while the list is requested.
    failure: tokio::sync::Mutex<Option<(Instant, u64)>>,
}

impl Definitions {
    /// Drops all definitions, because the server announced a change.
    pub(super) fn clear(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.by_client.lock().clear();
    }

    /// Returns the tools that a client sees, as far as they are known.
    pub(super) fn known(&self, client: &str) -> Option<Arc<ListedTools>> {
        self.by_client.lock().get(client).cloned()
    }

    /// The state before a list is requested, for [`Definitions::learn`].
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Returns the tools that a client sees, if `tool` is among them, or they are known to be all.
    pub(super) fn get(&self, client: &str, tool: &str) -> Option<Arc<ListedTools>> {
        let listed = self.by_client.lock().get(client).cloned()?;
        let is_known = listed.is_complete || listed.tools.contains_key(tool);
        (is_known && listed.listed.elapsed() < FRESH).then_some(listed)
    }

    /// Learns the tools of a page. A page that was requested before the last change is ignored.
    pub(super) fn learn(
        &self,
        client: &str,
        page: &ResultView<'_>,
        is_first: bool,
        generation: u64,
        make: MakeEntry<'_>,
    ) {
        let Some(tools) = page.tools else { return };
        let (mut learned, mut twice) = (HashMap::new(), Vec::new());
        for text in json::elements(tools) {
            // A definition that cannot be read is not there: calls of the tool are passed on.
            let Ok(definition) = ToolDefinition::parse(text) else {
                continue;
            };
            let entry = Arc::new(make(&definition));
            if learned.insert(definition.name.clone(), entry).is_some() {
                twice.push(definition.name);
            }
        }
        // If two tools have one name, it is not known which one is called.
        for name in twice {
            learned.remove(&name);
        }
        let server_info = page.server_info.and_then(ServerInfo::read).map(Arc::new);
        let is_last = page.next_cursor.is_none();
        let mut clients = self.by_client.lock();
        if self.generation() != generation {
            return;
        }
        let listed = match clients.get(client) {
            Some(before) if !is_first => {
                let mut listed = ListedTools::clone(before);
                listed.tools.extend(learned);
                listed.is_complete |= is_last;
                listed
            }
            // Without the pages before it.
            None if !is_first => return,
            _ => ListedTools {
                tools: learned,
                server_info,
                listed: Instant::now(),
                is_complete: is_last,
            },
        };
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(client) {
            clients.clear();
        }
        clients.insert(client.to_owned(), Arc::new(listed));
    }

    /// Returns the tools that a client sees; requests them from the server unless they are known. `None` if the server
    /// does not list them.
    pub(super) async fn get_or_list(
        &self,
        client: &str,
        tool: &str,
        listing: Listing<'_>,
    ) -> Option<Arc<ListedTools>> {
        if let Some(known) = self.get(client, tool) {
            return Some(known);
        }
        let own = self.listing_of(client);
        // The wait for the list of another call counts.
        let deadline = Instant::now() + LIST_TIMEOUT;
        let locked = tokio::time::timeout_at(deadline, own.failure.lock()).await;
        let mut failure = locked.ok()?;
        if let Some(known) = self.get(client, tool) {
            return Some(known);
        }
        let generation = self.generation();
        let is_recent = |(at, of): (Instant, u64)| at.elapsed() < FAILURE_PAUSE && of == generation;
        if failure.is_some_and(is_recent) {
            return None;
        }
        let listed = tokio::time::timeout_at(deadline, self.list(client, &listing)).await;
        let listed = listed.ok().flatten();
        *failure = match listed {
            Some(()) => None,
            None => Some((Instant::now(), generation)),
        };
        listed?;
        self.get(client, tool)
    }

    fn listing_of(&self, client: &str) -> Arc<ClientListing> {
        let mut listings = self.listings.lock();
        if listings.len() >= MAX_CLIENTS && !listings.contains_key(client) {
            listings.retain(|_, listing| Arc::strong_count(listing) > 1);
        }
        Arc::clone(listings.entry(client.to_owned()).or_default())
    }

    async fn list(&self, client: &str, listing: &Listing<'_>) -> Option<()> {
        let generation = self.generation();
        let mut cursor: Option<String> = None;
        for page in 0..MAX_PAGES {
            let mut members = Vec::new();
            if listing.meta != "{}" {
                members.push(format!("\"_meta\":{}", listing.meta));
            }
            members.extend(cursor.as_ref().map(|cursor| format!("\"cursor\":{cursor}")));
            let id = format!("\"cachalot-tools-{generation}-{page}\"");
            let params = format!("{{{}}}", members.join(","));
            let request = Frame::request(&id, "tools/list", &params);
            let mut exchange = listing
                .upstream
                .request(request, listing.context.clone())
                .await;
            let response = loop {
                let frame = exchange.next().await?;
                if frame.kind() == FrameKind::Response {
                    break frame;
                }
                (listing.other)(frame);
            };
            let view = ResultView::read(response.result()?).ok()?;
            self.learn(client, &view, page == 0, generation, listing.make);
            cursor = view
                .next_cursor
                .and_then(text_value)
                .map(|cursor| serde_json::Value::from(cursor).to_string());
            if cursor.is_none() {
                return Some(());
            }
        }
        None
    }
}

/// The means to request a list on behalf of a client.
pub(super) struct Listing<'a> {
    pub(super) upstream: &'a dyn Upstream,
    pub(super) context: RequestContext,
    /// `_meta` of the requests.
    pub(super) meta: String,
    pub(super) make: MakeEntry<'a>,
    /// Gets the messages that are no responses.
    pub(super) other: &'a (dyn Fn(Frame) + Send + Sync),
}
