//! The server as clients of the proxy see it: some of its answers come from the engine.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_cache::{Call, CallKind, HitPolicy, Policy, Reason, RunPolicy, Scope, Ticket};
use cachalot_core::Canonical;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use super::credentials;
use super::definitions::{Listing, ToolEntry};
use super::in_flight::Caller;
use super::judgment::{MAX_HINTED, Rule};
use super::methods::{Hinted, MethodClass, is_harmless_notification};
use super::pass::{Learns, Passed};
use super::request_key::{self, KeyParts};
use super::request_parts::RequestParts;
use super::run::CachedRequest;
use super::server_info::ServerInfo;
use super::session_order::{Place, Turn};
use super::shared::{ClientState, Shared};
use super::witness_plan::WitnessPlan;
use crate::proxy_policy::{CachedTool, ToolDecision, ToolDefinition};
use crate::relay::{Exchange, Frame, FrameKind, RequestContext, Upstream};

/// A server some of whose answers are stored.
pub struct CachingUpstream {
    shared: Arc<Shared>,
    unattached: Mutex<Option<mpsc::Receiver<Frame>>>,
}

impl CachingUpstream {
    pub(super) fn new(shared: Arc<Shared>, unattached: mpsc::Receiver<Frame>) -> Self {
        Self {
            shared,
            unattached: Mutex::new(Some(unattached)),
        }
    }
}

#[async_trait]
impl Upstream for CachingUpstream {
    async fn request(&self, request: Frame, context: RequestContext) -> Exchange {
        let (sender, exchange) = Exchange::new();
        let shared = Arc::clone(&self.shared);
        shared.expire_after_losses();
        // First of all: the client may cancel it from now on.
        let call = shared.in_flight.enter(context.session.clone(), &request);
        let caller = Caller {
            sender,
            call: Arc::new(call),
        };
        let session = context.session.clone();
        match treatment(&shared, &request, &context, MayList::No).await {
            Treatment::Pass(passing) => {
                // It changes nothing, and may be there to find out if the server is alive.
                let turn = match request.method() {
                    "ping" => Turn::Now(Place::default()),
                    _ => shared.order.enter_passed(session.as_ref()),
                };
                let passed = passing.request(&shared, request, context, caller);
                match turn {
                    Turn::Now(place) => {
                        // Awaited here, so that messages reach the server in their order.
                        let started = passed.start(&shared).await;
                        drop(place);
                        if let Some(started) = started {
                            tokio::spawn(async move { started.finish(&shared).await });
                        }
                    }
                    Turn::Later(place) => {
                        tokio::spawn(async move { pass_later(&shared, passed, place).await });
                    }
                }
            }
            Treatment::Cache(cached) => {
                let turn = shared.order.enter_cacheable(session.as_ref());
                tokio::spawn(async move { cached.answer(&shared, caller, turn).await });
            }
            Treatment::List => {
                // It may turn out to be one that is passed on.
                let turn = shared.order.enter_passed(session.as_ref());
                // The client may have to answer requests of the server in the meantime.
                tokio::spawn(
                    async move { list_first(&shared, request, context, caller, turn).await },
                );
            }
        }
        exchange
    }

    async fn notify(&self, message: Frame, context: RequestContext) {
        let shared = &self.shared;
        if shared.in_flight.cancel(context.session.as_ref(), &message) {
            return;
        }
        let roots = shared.root_requests.digest(&message);
        let has_new_roots =
            roots.is_some_and(|roots| shared.sessions.set_roots(context.session.as_ref(), roots));
        if has_new_roots {
            // They are in the keys of later calls. Those in flight may see the old ones or the new ones.
            shared.definitions.clear();
            shared.note_server_request();
        }
        let may_change = message.kind() == FrameKind::Notification
            && !is_harmless_notification(message.method());
        if may_change {
            shared.definitions.clear();
            shared.invalidation.changed();
        }
        shared.upstream.notify(message, context).await;
        if has_new_roots {
            shared.note_server_request();
        }
        if may_change {
            shared.invalidation.changed();
        }
    }

    fn take_unattached(&self) -> Option<mpsc::Receiver<Frame>> {
        self.unattached.lock().take()
    }

    fn ends(&self) -> u64 {
        self.shared.upstream.ends()
    }

    fn losses(&self) -> u64 {
        self.shared.upstream.losses()
    }
}

/// Permission to request the list of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MayList {
    Yes,
    No,
}

/// The treatment of a request.
enum Treatment {
    Cache(Box<CachedRequest>),
    Pass(Passing),
    /// The tools of the server have to be listed first.
    List,
}

/// A request that is passed on.
struct Passing {
    is_write: bool,
    learns: Learns,
    /// The scope of the call in the ledger and the reason why it is passed on, for a call of a tool.
    account: Option<(Scope, String)>,
}

impl Passing {
    fn plain(is_write: bool, learns: Learns) -> Treatment {
        Treatment::Pass(Self {
            is_write,
            learns,
            account: None,
        })
    }

    fn tool_call(is_write: bool, scope: Scope, reason: impl Into<String>) -> Treatment {
        Treatment::Pass(Self {
            is_write,
            learns: Learns::Nothing,
            account: Some((scope, reason.into())),
        })
    }

    fn write(reason: impl Into<String>) -> Treatment {
        Self::tool_call(true, Scope::Global, reason)
    }

    fn request(
        self,
        shared: &Shared,
        request: Frame,
        context: RequestContext,
        caller: Caller,
    ) -> Passed {
        let Caller { sender, call } = caller;
        let account = self.account;
        let ticket =
            account.map(|(scope, reason)| bypass(shared, &request, &context, &scope, reason));
        Passed {
            request,
            context,
            sender,
            call,
            is_write: self.is_write,
            ticket,
            learns: self.learns,
        }
    }
}

/// Decides about a request. Waits for the server only to list its tools, if that is permitted.
async fn treatment(
    shared: &Arc<Shared>,
    request: &Frame,
    context: &RequestContext,
    may_list: MayList,
) -> Treatment {
    match MethodClass::new(request.method()) {
        MethodClass::Initialize => Passing::plain(false, Learns::Session),
        MethodClass::Read => Passing::plain(false, Learns::Nothing),
        MethodClass::Write | MethodClass::Task => Passing::plain(true, Learns::Nothing),
        MethodClass::ToolCall => tool_call(shared, request, context, may_list).await,
        MethodClass::Hinted(method) => hinted(shared, method, request, context).await,
    }
}

/// Passes a request on when the earlier requests of its session have reached the server.
async fn pass_later(shared: &Shared, passed: Passed, place: impl Future<Output = Place>) {
    let place = tokio::select! {
        biased;
        _ = passed.call.cancelled() => return,
        () = passed.sender.cancelled() => return,
        place = place => place,
    };
    let started = passed.start(shared).await;
    drop(place);
    if let Some(started) = started {
        started.finish(shared).await;
    }
}

/// Answers a request whose treatment depends on the tools of the server.
async fn list_first(
    shared: &Arc<Shared>,
    request: Frame,
    context: RequestContext,
    caller: Caller,
    turn: Turn,
) {
    let prepared = async {
        let place = turn.wait().await;
        let treatment = treatment(shared, &request, &context, MayList::Yes).await;
        (place, treatment)
    };
    let (place, treatment) = tokio::select! {
        biased;
        () = caller.left() => return,
        prepared = prepared => prepared,
    };
    match treatment {
        Treatment::Cache(cached) => cached.answer(shared, caller, Turn::Now(place)).await,
        Treatment::Pass(passing) => {
            let passed = passing.request(shared, request, context, caller);
            pass_later(shared, passed, std::future::ready(place)).await;
        }
        // Permission was given.
        Treatment::List => {}
    }
}

async fn hinted(
    shared: &Arc<Shared>,
    method: Hinted,
    request: &Frame,
    context: &RequestContext,
) -> Treatment {
    let Ok(parts) = RequestParts::read(request.params()) else {
        return Passing::plain(false, Learns::Nothing);
    };
    let Ok(client) = shared.client(&parts, context) else {
        return Passing::plain(false, Learns::Nothing);
    };
    let learns_for = (method == Hinted::Tools).then(|| client.name());
    let learns = || match learns_for.clone() {
        Some(client) => Learns::Tools { client },
        None => Learns::Nothing,
    };
    let of_policy = shared.policy.resources.as_ref().and_then(|it| it.ttl);
    let fallback = of_policy.filter(|_| method == Hinted::Read);
    let has_hints = client.is_modern && shared.policy.hints;
    if parts.is_continuation || !(has_hints || fallback.is_some()) {
        return Passing::plain(false, learns());
    }
    let is_modern = client.is_modern;
    let input = input(shared, &parts, &client, None, request.method(), context);
    let Ok(input) = input else {
        return Passing::plain(false, learns());
    };
    let uri = parts.uri.as_deref().unwrap_or_default();
    let mut cached = Box::new(CachedRequest {
        name: format!("mcp:{}/{}", shared.identity.name, request.method()),
        request: request.clone(),
        context: context.clone(),
        scope: client.scope,
        input,
        domains: shared.invalidation.of_hinted(method, uri),
        ttl: Some(MAX_HINTED),
        plan: WitnessPlan::default(),
        rule: Rule::Hinted {
            fallback,
            is_shared: false,
        },
        learns_for,
        wants_logs: parts.wants_logs,
    });
    // Only the answer says if it may be shared.
    if is_modern && cached.has_entry(shared, &Scope::Global).await {
        cached.scope = Scope::Global;
        cached.rule = Rule::Hinted {
            fallback,
            is_shared: true,
        };
    }
    Treatment::Cache(cached)
}

fn input(
    shared: &Shared,
    parts: &RequestParts<'_>,
    client: &ClientState,
    tool: Option<(&ToolEntry, Option<&ServerInfo>)>,
    method: &str,
    context: &RequestContext,
) -> Result<Canonical, String> {
    if shared.secret_set.occurs_in(parts.params.as_bytes()) {
        return Err("the request holds a secret".to_owned());
    }
    // A new process may be another version, and remembers nothing of the old one. The server was identified before its
    // first process.
    let depends_on_process = client.ends > 0
        || shared.identity.is_program && (tool.is_none() || !shared.policy.stateless);
    let process = depends_on_process.then(|| format!("{} {}", shared.instance, client.ends));
    let key = KeyParts {
        method,
        process: process.as_deref(),
        server: &shared.keyed_identity,
        server_info: tool
            .and_then(|(_, info)| info)
            .or(client.server_info.as_deref()),
        definition: tool.map(|(tool, _)| tool.definition),
        policy: match tool {
            Some((tool, _)) => tool.policy,
            None => shared.hinted_policy,
        },
        version: &client.version,
        capabilities: client.capabilities,
        roots: client.roots,
        headers: &context.headers,
    };
    let input = request_key::input(parts, &key, &shared.secret_set);
    input.map_err(|error| error.to_string())
}

/// Returns a ticket for a call that is passed on, which accounts for it in the ledger.
fn bypass(
    shared: &Shared,
    request: &Frame,
    context: &RequestContext,
    scope: &Scope,
    reason: String,
) -> Ticket {
    let parts = RequestParts::read(request.params()).unwrap_or_default();
    let tool = parts.name.as_deref().unwrap_or("?");
    let name = format!("mcp:{}/{tool}", shared.identity.name);
    let arguments = parts.arguments.unwrap_or("null");
    let input = match Canonical::json(arguments.as_bytes()) {
        Ok(input) if !shared.secret_set.occurs_in(arguments.as_bytes()) => input,
        _ => Canonical::value(&Value::Null),
    };
    let call = Call {
        kind: CallKind::Request,
        scope,
        name: &name,
        input: &input,
    };
    let policy = Policy {
        hit: HitPolicy {
            session: context.session.clone(),
            ..HitPolicy::default()
        },
        run: RunPolicy::default(),
    };
    shared
        .cache
        .bypass(&call, &policy, Reason::Declined(reason))
}

async fn tool_call(
    shared: &Arc<Shared>,
    request: &Frame,
    context: &RequestContext,
    may_list: MayList,
) -> Treatment {
    let parts = match RequestParts::read(request.params()) {
        Ok(parts) => parts,
        Err(error) => {
            return Passing::write(format!("its parameters cannot be read: {error}"));
        }
    };
    let Some(name) = parts.name.as_deref() else {
        return Passing::write("it has no name of a tool");
    };
    let client = match shared.client(&parts, context) {
        Ok(client) => client,
        Err(reason) => return Passing::write(reason),
    };
    let client_name = client.name();
    let listed = match shared.definitions.get(&client_name, name) {
        Some(listed) => Some(listed),
        None if shared.policy.tool(name).is_none() => {
            return Passing::write("no entry of the policy names the tool");
        }
        None if may_list == MayList::No => return Treatment::List,
        None => {
            let make = |definition: &ToolDefinition| shared.warned_entry(definition);
            let other = |frame: Frame| {
                shared.notice(&frame);
                shared.pass_unattached(frame);
            };
            let listing = Listing {
                upstream: &*shared.upstream,
                context: RequestContext {
                    headers: credentials::for_own_request(&context.headers, "tools/list"),
                    ..context.clone()
                },
                meta: parts.own_meta(),
                make: &make,
                other: &other,
            };
            let listed = shared
                .definitions
                .get_or_list(&client_name, name, listing)
                .await;
            shared.warn_of_unknown_tools(&client_name);
            listed
        }
    };
    let Some((tool, server_info)) = listed.as_ref().and_then(|listed| {
        let tool = listed.get(name)?;
        Some((Arc::clone(tool), listed.server_info.clone()))
    }) else {
        return Passing::write("the server does not list the tool");
    };
    let policy = match &tool.decision {
        ToolDecision::Write { reason, .. } => return Passing::write(reason.as_str()),
        ToolDecision::Read { reason, .. } => {
            return Passing::tool_call(false, client.scope, reason.as_str());
        }
        ToolDecision::Cache(CachedTool { policy }) => policy,
    };
    let read = |reason: String| Passing::tool_call(false, client.scope.clone(), reason);
    if parts.is_continuation {
        return read("it continues an earlier call".to_owned());
    }
    if parts.is_task {
        return read("it asks for a task".to_owned());
    }
    let plan = match WitnessPlan::new(policy, parts.arguments, &shared.file_place()) {
        Ok(plan) => plan,
        Err(reason) => return read(reason),
    };
    let of_tool = Some((&*tool, server_info.as_deref()));
    let input = match input(shared, &parts, &client, of_tool, request.method(), context) {
        Ok(input) => input,
        Err(reason) => return read(format!("no key: {reason}")),
    };
    Treatment::Cache(Box::new(CachedRequest {
        name: tool.call_name.clone(),
        request: request.clone(),
        context: context.clone(),
        scope: client.scope,
        input,
        domains: tool.domains.clone(),
        ttl: policy.ttl,
        plan,
        rule: Rule::Tool {
            allow_error_text: policy.allow_error_text,
        },
        learns_for: None,
        wants_logs: parts.wants_logs || !client.is_modern,
    }))
}
