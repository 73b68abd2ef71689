//! The server that a request is for.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::merge::{Entry, List};
use super::owners::{Owner, Owners};
use crate::relay::{Frame, FrameKind};

/// JSON-RPC error codes.
const INVALID_PARAMS: i64 = -32_602;
const RESOURCE_NOT_FOUND: i64 = -32_002;

/// The type of content that names a resource, which no list has to have.
const RESOURCE_LINK: &str = "resource_link";

/// The names, URIs and tasks of several servers.
pub(super) struct Routes {
    servers: Vec<String>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By the name that clients use: the server, and the name that it uses.
    tools: HashMap<String, (usize, String)>,
    prompts: HashMap<String, (usize, String)>,
    resources: HashMap<String, usize>,
    /// Templates of URIs, with the text before their first variable.
    templates: Vec<(String, usize)>,
    tasks: Owners,
    /// URIs that results name.
    links: Owners,
}

/// What a request names.
enum Subject {
    Tool(String),
    Prompt(String),
    Resource(String),
    Task(String),
    /// Nothing, although the method requires this.
    Missing(&'static str),
    /// Nothing that the proxy knows of.
    Nothing,
}

impl Routes {
    pub(super) fn new(servers: Vec<String>) -> Self {
        Self {
            servers,
            known: Mutex::default(),
        }
    }

    /// Replaces what is known from a list.
    pub(super) fn learn(&self, list: List, entries: &[Entry]) {
        let mut known = self.known.lock();
        let names = |entries: &[Entry]| -> HashMap<String, (usize, String)> {
            let rows = entries
                .iter()
                .map(|entry| (entry.shown.clone(), (entry.server, entry.name.clone())));
            rows.collect()
        };
        match list {
            List::Tools => known.tools = names(entries),
            List::Prompts => known.prompts = names(entries),
            List::Resources => {
                known.resources.clear();
                for entry in entries {
                    known
                        .resources
                        .entry(entry.name.clone())
                        .or_insert(entry.server);
                }
            }
            List::Templates => {
                let templates = entries.iter().map(|entry| {
                    let start = entry.name.split('{').next().unwrap_or_default();
                    (start.to_owned(), entry.server)
                });
                known.templates = templates.collect();
            }
            List::Tasks => {
                for entry in entries {
                    known.tasks.add(entry.name.clone(), entry.server);
                }
            }
        }
    }

    /// Notes the server of what a response names: a task, in either revision, and resources that it links to.
    pub(super) fn learn_result(&self, server: usize, message: &Frame) {
        if message.kind() != FrameKind::Response {
            return;
        }
        let task = message.result_member("taskId").map(str::to_owned);
        let task = task.or_else(|| {
            let task: serde_json::Value =
                serde_json::from_str(message.result_member("task")?).ok()?;
            Some(task["taskId"].to_string())
        });
        let task = task.and_then(|task| serde_json::from_str::<String>(&task).ok());
        let links = links(message);
        if task.is_none() && links.is_empty() {
            return;
        }
        let mut known = self.known.lock();
        if let Some(task) = task {
            known.tasks.add(task, server);
        }
        for uri in links {
            known.links.add(uri, server);
        }
    }

    /// Returns true if the server of a request is known, or will not be known from lists.
    pub(super) fn knows(&self, request: &Frame) -> bool {
        let known = self.known.lock();
        match subject(request) {
            Subject::Tool(name) => known.tools.contains_key(&name),
            Subject::Prompt(name) => known.prompts.contains_key(&name),
            Subject::Resource(uri) => known.owner_of(&uri) != Owner::None,
            Subject::Task(_) | Subject::Missing(_) | Subject::Nothing => true,
        }
    }

    /// Returns the server of a request, and the request with the name that the server uses.
    ///
    /// # Errors
    /// The response to a request for what no server is known to have: permissions of clients name tools with their
    /// prefix, so no server may get a call that has none.
    pub(super) fn route(&self, request: &Frame) -> Result<(usize, Frame), Box<Frame>> {
        let refused = |code, why: &str| {
            let id = request.id().unwrap_or("null");
            Err(Box::new(Frame::error_response(id, code, why)))
        };
        let unknown = |what: &str, name: &str| format!("unknown {what}: {name}");
        let known = self.known.lock();
        let (kind, found) = match subject(request) {
            Subject::Tool(name) => (
                "tool",
                self.named(&known.tools, &name)
                    .ok_or_else(|| unknown("tool", &name)),
            ),
            Subject::Prompt(name) => (
                "prompt",
                self.named(&known.prompts, &name)
                    .ok_or_else(|| unknown("prompt", &name)),
            ),
            Subject::Resource(uri) => {
                return match known.owner_of(&uri) {
                    Owner::One(server) => Ok((server, request.clone())),
                    Owner::Ambiguous(first, second) => refused(
                        INVALID_PARAMS,
                        &self.ambiguous("resource", &uri, first, second),
                    ),
                    Owner::None => {
                        let code = match request.protocol_version() {
                            Some(_) => INVALID_PARAMS,
                            None => RESOURCE_NOT_FOUND,
                        };
                        refused(code, &unknown("resource", &uri))
                    }
                };
            }
            Subject::Task(task) => {
                return match known.tasks.of(&task) {
                    Owner::One(server) => Ok((server, request.clone())),
                    Owner::Ambiguous(first, second) => refused(
                        INVALID_PARAMS,
                        &self.ambiguous("task", &task, first, second),
                    ),
                    Owner::None => refused(INVALID_PARAMS, &unknown("task", &task)),
                };
            }
            Subject::Missing(what) => ("", Err(format!("the request names no {what}"))),
            Subject::Nothing => return Ok((0, request.clone())),
        };
        let (server, name) = match found {
            Ok(found) => found,
            Err(why) => return refused(INVALID_PARAMS, &why),
        };
        let place = match request.method() {
            "completion/complete" => request
                .param_place("ref")
                .and_then(|place| request.member_place(place, "name")),
            _ => request.param_place("name"),
        };
        let Some(place) = place else {
            return refused(INVALID_PARAMS, &format!("the request names no {kind}"));
        };
        let name = serde_json::Value::from(name).to_string();
        Ok((server, request.clone().replaced(vec![(place, &name)])))
    }

    fn ambiguous(&self, what: &str, name: &str, first: usize, second: usize) -> String {
        let server = |number: usize| self.servers.get(number).map_or("", String::as_str);
        format!(
            "the {what} `{name}` may be of `{}` or of `{}`: both have given this identifier",
            server(first),
            server(second)
        )
    }

    /// Returns the server of a name with a prefix, and the name that it uses.
    fn named(
        &self,
        known: &HashMap<String, (usize, String)>,
        name: &str,
    ) -> Option<(usize, String)> {
        if let Some(found) = known.get(name) {
            return Some(found.clone());
        }
        // Not in a list: servers may have tools that they do not list.
        let prefixed = self
            .servers
            .iter()
            .enumerate()
            .filter_map(|(number, server)| {
                let own = name.strip_prefix(&super::merge::prefix(server))?;
                Some((number, server.len(), own.to_owned()))
            });
        let longest = prefixed.max_by_key(|(_, length, _)| *length);
        longest.map(|(server, _, own)| (server, own))
    }
}

impl Known {
    fn owner_of(&self, uri: &str) -> Owner {
        if let Some(server) = self.resources.get(uri) {
            return Owner::One(*server);
        }
        let linked = self.links.of(uri);
        if linked != Owner::None {
            return linked;
        }
        // The longest match; of several, that of the first server.
        let matches = self
            .templates
            .iter()
            .filter(|(start, _)| uri.starts_with(start.as_str()));
        let best = matches.max_by_key(|(start, server)| (start.len(), std::cmp::Reverse(*server)));
        best.map_or(Owner::None, |(_, server)| Owner::One(*server))
    }
}

/// Returns the URIs of the resources that the content of a result links to.
fn links(message: &Frame) -> Vec<String> {
    let Some(result) = message.result().filter(|result| {
        memchr::memmem::find(result.as_bytes(), RESOURCE_LINK.as_bytes()).is_some()
    }) else {
        return Vec::new();
    };
    let result: serde_json::Value = serde_json::from_str(result).unwrap_or_default();
    let content = result["content"].as_array().into_iter().flatten();
    let messages = result["messages"].as_array().into_iter().flatten();
    let all = content.chain(messages.map(|message| &message["content"]));
    let links = all.filter(|block| block["type"] == RESOURCE_LINK);
    links
        .filter_map(|block| block["uri"].as_str().map(str::to_owned))
        .collect()
}

fn subject(request: &Frame) -> Subject {
    let text = |member: &str| request.text_param(member);
    match request.method() {
        "tools/call" => text("name").map_or(Subject::Missing("tool"), Subject::Tool),
        "prompts/get" => text("name").map_or(Subject::Missing("prompt"), Subject::Prompt),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            text("uri").map_or(Subject::Missing("resource"), Subject::Resource)
        }
        "completion/complete" => {
            let reference: serde_json::Value =
                serde_json::from_str(request.param("ref").unwrap_or("null")).unwrap_or_default();
            match (reference["name"].as_str(), reference["uri"].as_str()) {
                (Some(name), _) => Subject::Prompt(name.to_owned()),
                (None, Some(uri)) => Subject::Resource(uri.to_owned()),
                (None, None) => Subject::Missing("prompt or resource"),
            }
        }
        method if method.starts_with("tasks/") => {
            text("taskId").map_or(Subject::Missing("task"), Subject::Task)
        }
        _ => Subject::Nothing,
    }
}
