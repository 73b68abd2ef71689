//! Several servers that clients see as one. Names of tools and prompts get the name of their server as a prefix.

mod answers;
mod merge;
mod message_queue;
mod owners;
mod routes;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use self::answers::Asked;
use self::message_queue::MessageQueue;
use self::routes::Routes;
use super::calls::LISTEN;
use super::connection::{Close, Connection, Connector};
use super::{Exchange, ExchangeSender, Frame, FrameKind, Renames, RequestContext, Upstream};
use crate::Reporter;

/// Methods of requests that are for all servers, in addition to those of lists.
const FOR_ALL: [&str; 5] = [
    "initialize",
    "logging/setLevel",
    "ping",
    "server/discover",
    LISTEN,
];

/// Messages that wait to be read.
const WAITING: usize = 64;

/// Maximum number of requests of servers that wait for the client's response.
const MAX_SERVER_REQUESTS: usize = 4_096;

/// Opens connections to several servers at the same time.
pub struct SeveralConnector {
    /// The servers by name, in the order in which their lists are merged.
    pub servers: Vec<(String, Arc<dyn Connector>)>,
    /// Receives warnings about servers that fail.
    pub reporter: Arc<dyn Reporter>,
}

#[async_trait]
impl Connector for SeveralConnector {
    async fn connect(&self, session: Option<Arc<str>>) -> Result<Connection, String> {
        let opening = self.servers.iter().map(async |(name, connector)| {
            let opened = connector.connect(session.clone()).await;
            (name.clone(), opened)
        });
        let mut members = Vec::new();
        let mut failures = Vec::new();
        for (name, opened) in join_all(opening).await {
            match opened {
                Ok(connection) => members.push(Member::new(name, connection)),
                Err(why) => {
                    self.reporter
                        .warning(&format!("{why}; the other servers work"));
                    failures.push(why);
                }
            }
        }
        if members.is_empty() {
            return Err(failures.join("; "));
        }
        let several = Arc::new(Several::new(members, Arc::clone(&self.reporter)));
        Ok(Connection {
            upstream: several.clone(),
            closer: several,
        })
    }
}

/// A server of several.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) connection: Connection,
    /// All messages to it, so that they keep their order.
    queue: MessageQueue,
}

impl Member {
    fn new(name: String, connection: Connection) -> Self {
        Self {
            queue: MessageQueue::new(name.clone(), Arc::clone(&connection.upstream)),
            name,
            connection,
        }
    }

    fn asked<'a>(
        &'a self,
        member: usize,
        others: &'a mpsc::UnboundedSender<(usize, Frame)>,
    ) -> Asked<'a> {
        Asked {
            member,
            queue: &self.queue,
            others,
        }
    }
}

/// Several servers behind one connection.
struct Several {
    shared: Arc<Shared>,
    unattached: Mutex<Option<mpsc::Receiver<Frame>>>,
}

struct Shared {
    members: Vec<Member>,
    reporter: Arc<dyn Reporter>,
    routes: Routes,
    next: AtomicU64,
    /// Requests of servers by the ids that the client sees: the server, and its id.
    server_requests: Mutex<HashMap<u64, (usize, Box<str>)>>,
    unattached: mpsc::Sender<Frame>,
}

impl Several {
    fn new(members: Vec<Member>, reporter: Arc<dyn Reporter>) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let names = members.iter().map(|member| member.name.clone());
        let shared = Arc::new(Shared {
            routes: Routes::new(names.collect()),
            members,
            reporter,
            next: AtomicU64::new(0),
            server_requests: Mutex::default(),
            unattached: sender,
        });
        for (number, member) in shared.members.iter().enumerate() {
            let Some(mut messages) = member.connection.upstream.take_unattached() else {
                continue;
            };
            let shared = Arc::downgrade(&shared);
            tokio::spawn(async move {
                while let Some(message) = messages.recv().await {
                    let Some(shared) = shared.upgrade() else {
                        return;
                    };
                    let message = shared.for_client(number, message);
                    let sender = shared.unattached.clone();
                    drop(shared);
                    if sender.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }
        Self {
            shared,
            unattached: Mutex::new(Some(receiver)),
        }
    }
}

#[async_trait]
impl Upstream for Several {
    async fn request(&self, request: Frame, context: RequestContext) -> Exchange {
        let shared = Arc::clone(&self.shared);
        // In the queue of its server before this returns, so that messages to a server keep their order.
        let sent = if shared.knows_server(&request) {
            match shared.send(&request, context.clone()) {
                Ok(sent) => Some(sent),
                Err(refusal) => return Exchange::answered(*refusal),
            }
        } else {
            None
        };
        let (sender, exchange) = Exchange::new();
        tokio::spawn(async move {
            let answering = async {
                match sent {
                    Some((member, sent)) => shared.pass(member, sent, &sender).await,
                    None => shared.answer(request, context, &sender).await,
                }
            };
            tokio::select! {
                () = answering => {}
                // Dropping the exchanges with the servers cancels them, also those that wait to be sent.
                () = sender.cancelled() => {}
            }
        });
        exchange
    }

    async fn notify(&self, message: Frame, context: RequestContext) {
        let shared = &self.shared;
        if message.kind() == FrameKind::Response {
            let number = message.id().and_then(|id| id.parse().ok());
            let asked =
                number.and_then(|number: u64| shared.server_requests.lock().remove(&number));
            if let Some((member, id)) = asked {
                let response = message.with_ids(Some(&id), None);
                shared.notify(&shared.members[member], response, context);
            }
            return;
        }
        for member in &shared.members {
            // A cancellation is passed on by the server that has the request; the others do not know it.
            let is_withdrawn = message
                .request_id()
                .is_some_and(|id| member.queue.withdraw(id, context.session.as_ref()));
            if !is_withdrawn {
                shared.notify(member, message.clone(), context.clone());
            }
        }
    }

    fn take_unattached(&self) -> Option<mpsc::Receiver<Frame>> {
        self.unattached.lock().take()
    }

    fn losses(&self) -> u64 {
        let members = self.shared.members.iter();
        let losses = members.map(|member| member.connection.upstream.losses());
        losses.fold(0, u64::saturating_add)
    }
}

#[async_trait]
impl Close for Several {
    async fn close(&self) {
        let members = self.shared.members.iter();
        join_all(members.map(|member| member.connection.closer.close())).await;
    }
}

impl Shared {
    /// Gives a request of a server an id that no other server uses.
    fn for_client(&self, member: usize, message: Frame) -> Frame {
        let (FrameKind::Request, Some(id)) = (message.kind(), message.id()) else {
            let cancelled = message.request_id().and_then(|id| {
                let asked = self.server_requests.lock();
                let found = asked
                    .iter()
                    .find(|(_, known)| **known == (member, id.into()));
                found.map(|(number, _)| number.to_string())
            });
            return message.renamed(Renames {
                request_id: cancelled.as_deref(),
                ..Renames::default()
            });
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut asked = self.server_requests.lock();
        if asked.len() >= MAX_SERVER_REQUESTS
            && let Some(oldest) = asked.keys().min().copied()
        {
            asked.remove(&oldest);
        }
        asked.insert(number, (member, id.into()));
        drop(asked);
        message.with_ids(Some(&number.to_string()), None)
    }

    /// Returns true for a request to one server, if no list is needed to find it.
    fn knows_server(&self, request: &Frame) -> bool {
        let method = request.method();
        let is_for_all = FOR_ALL.contains(&method) || merge::List::of_method(method).is_some();
        !is_for_all && self.routes.knows(request)
    }

    /// Sends a notification or a response to a server.
    fn notify(&self, member: &Member, message: Frame, context: RequestContext) {
        let Some(dropped) = member.queue.notify(message, context) else {
            return;
        };
        let what = match dropped.method() {
            "" => "a response",
            method => method,
        };
        self.reporter.warning(&format!(
            "the MCP server `{}` does not accept messages: {what} of the client was dropped",
            member.name
        ));
    }

    /// Sends a request to its server. Returns the number of the server, and the receiver of the exchange.
    ///
    /// # Errors
    /// The response to a request that is for no server.
    fn send(
        &self,
        request: &Frame,
        context: RequestContext,
    ) -> Result<(usize, oneshot::Receiver<Exchange>), Box<Frame>> {
        let (member, request) = self.routes.route(request)?;
        Ok((member, self.members[member].queue.request(request, context)))
    }

    /// Passes the messages of a server on.
    async fn pass(
        &self,
        member: usize,
        sent: oneshot::Receiver<Exchange>,
        sender: &ExchangeSender,
    ) {
        let Ok(mut exchange) = sent.await else {
            // The client has cancelled it.
            return;
        };
        while let Some(message) = exchange.next().await {
            self.routes.learn_result(member, &message);
            if !sender.send(self.for_client(member, message)) {
                return;
            }
        }
    }

    async fn answer(&self, request: Frame, context: RequestContext, sender: &ExchangeSender) {
        let method = request.method().to_owned();
        match method.as_str() {
            "initialize" | "server/discover" => {
                let answers = self.ask_all(&request, &context, sender).await;
                let merged = merge::introductions(&request, answers, self.reporter.as_ref());
                sender.send(merged);
            }
            "ping" => {
                let id = request.id().unwrap_or("null");
                sender.send(Frame::response(id, "{}"));
            }
            "logging/setLevel" => {
                let answers = self.ask_all(&request, &context, sender).await;
                // Servers without logging refuse it.
                let accepted = answers.iter().find(|(_, answer)| answer.error().is_none());
                if let Some((_, answer)) = accepted.or(answers.first()) {
                    sender.send(answer.clone());
                }
            }
            LISTEN => self.listen(request, context, sender).await,
            _ => {
                if let Some(list) = merge::List::of_method(&method) {
                    let merged = self.list(list, &request, &context, sender).await;
                    sender.send(merged);
                } else {
                    self.route(request, context, sender).await;
                }
            }
        }
    }

    /// Finds the server of a request with the lists of all servers, and passes the request on.
    async fn route(&self, request: Frame, context: RequestContext, sender: &ExchangeSender) {
        // The client has an older list, or asks without one.
        for list in merge::List::naming(request.method()) {
            self.list(*list, &request, &context, sender).await;
        }
        match self.send(&request, context) {
            Ok((member, sent)) => self.pass(member, sent, sender).await,
            Err(refusal) => {
                sender.send(*refusal);
            }
        }
    }

    /// Sends a request to every server. Returns the responses by server.
    async fn ask_all(
        &self,
        request: &Frame,
        context: &RequestContext,
        sender: &ExchangeSender,
    ) -> Vec<(String, Frame)> {
        let (others, received) = mpsc::unbounded_channel();
        let asking = self.members.iter().enumerate();
        let asking = asking.map(async |(number, member)| {
            let asked = member.asked(number, &others);
            let answer = asked.response(request.clone(), context.clone()).await;
            (member.name.clone(), answer)
        });
        self.passing_others(join_all(asking), received, request, sender)
            .await
    }

    /// Merges a list: all pages of all servers.
    async fn list(
        &self,
        list: merge::List,
        request: &Frame,
        context: &RequestContext,
        sender: &ExchangeSender,
    ) -> Frame {
        if request.method() == list.method() && request.param("cursor").is_some() {
            let id = request.id().unwrap_or("null");
            let why = "lists of several servers have one page, so there is no such cursor";
            return Frame::error_response(id, -32_602, why);
        }
        let (others, received) = mpsc::unbounded_channel();
        let listing = self.members.iter().enumerate();
        let listing = listing.map(async |(number, member)| {
            let asked = member.asked(number, &others);
            asked.pages(list.method(), request, context).await
        });
        let pages = self
            .passing_others(join_all(listing), received, request, sender)
            .await;
        let names = self.members.iter().map(|member| member.name.as_str());
        let merged = merge::list(list, request, names.zip(pages), self.reporter.as_ref());
        self.routes.learn(list, &merged.entries);
        merged.response
    }

    /// Passes on what servers send before they answer requests of the proxy, while it waits for the answers: a server
    /// may wait for the client, for example for its roots.
    async fn passing_others<T>(
        &self,
        work: impl Future<Output = T>,
        mut others: mpsc::UnboundedReceiver<(usize, Frame)>,
        request: &Frame,
        sender: &ExchangeSender,
    ) -> T {
        tokio::pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                Some((member, message)) = others.recv() => {
                    self.pass_other(member, message, request, sender).await;
                }
                done = &mut work => break done,
            }
        };
        while let Ok((member, message)) = others.try_recv() {
            self.pass_other(member, message, request, sender).await;
        }
        done
    }

    async fn pass_other(
        &self,
        member: usize,
        message: Frame,
        request: &Frame,
        sender: &ExchangeSender,
    ) {
        // The progress of several servers is not that of one.
        if message.method() == "notifications/progress" {
            return;
        }
        let message = self.for_client(member, message);
        if request.protocol_version().is_some() {
            // Revisions without sessions have messages of requests only.
            sender.send(message);
        } else {
            // An error means that the client is gone.
            let _ = self.unattached.send(message).await;
        }
    }

    /// Opens subscriptions at every server, and passes their announcements on as those of one.
    async fn listen(&self, request: Frame, context: RequestContext, sender: &ExchangeSender) {
        let members = self.members.iter();
        let opening = members.map(|member| member.queue.request(request.clone(), context.clone()));
        let exchanges = join_all(opening).await.into_iter().flatten();
        let (merged, mut messages) = mpsc::channel(WAITING);
        for mut exchange in exchanges {
            let merged = merged.clone();
            tokio::spawn(async move {
                loop {
                    tokio::select! {
                        message = exchange.next() => match message {
                            Some(message) => {
                                if merged.send(message).await.is_err() {
                                    return;
                                }
                            }
                            None => return,
                        },
                        () = merged.closed() => return,
                    }
                }
            });
        }
        drop(merged);
        let mut acknowledged = Vec::new();
        let mut early = Vec::new();
        let mut responses = Vec::new();
        while acknowledged.len() + responses.len() < self.members.len() {
            match messages.recv().await {
                Some(message) if message.method() == "notifications/subscriptions/acknowledged" => {
                    acknowledged.push(message);
                }
                Some(message) if message.kind() == FrameKind::Response => responses.push(message),
                Some(message) => early.push(message),
                None => break,
            }
        }
        if let Some(acknowledgment) = merge::acknowledgments(&acknowledged) {
            sender.send(acknowledgment);
            for message in early {
                sender.send(message);
            }
            while let Some(message) = messages.recv().await {
                if message.kind() == FrameKind::Response {
                    responses.push(message);
                } else if !sender.send(message) {
                    return;
                }
            }
        }
        // All have ended, or refused.
        let ended = responses.iter().find(|response| response.error().is_none());
        if let Some(response) = ended.or(responses.first()) {
            sender.send(response.clone());
        }
    }
}
