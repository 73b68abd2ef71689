//! Clients whose requests carry values that differ between two equal runs, such as sessions. A profile says which: they
//! are left out of keys, and sent all the same.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use cachalot_core::config::{Located, Named, Settings, Values};
use cachalot_core::text::truncate;
use cachalot_core::{Problem, tree};
use cachalot_model::wire::members::Effect;
use cachalot_model::wire::shared_members;
use http::{HeaderMap, HeaderName};

use crate::error_body::ErrorBody;
use crate::text_pattern::TextPattern;

const BUILT_IN: &str = include_str!("../data/clients.yaml");
/// The header in which a request names the profile.
const HEADER: &str = "x-cachalot-profile";

/// Maximum length of the name of a sub-agent that is recorded, in characters.
const MAX_SUB_AGENT: usize = 64;

/// What is known of the requests of a client.
#[derive(Debug, Clone, Default, Settings)]
#[settings(name = "a client", check = check)]
pub(crate) struct ClientProfile {
    /// Headers by which its requests are recognized, with the beginnings of their values. One of them is enough.
    pub(crate) recognize: BTreeMap<String, String>,
    /// Headers that name the session of a request, which is a run.
    pub(crate) session_headers: Vec<String>,
    /// Headers that only requests of sub-agents have, each with the header that names the sub-agent.
    pub(crate) sub_agents: BTreeMap<String, String>,
    /// Headers that are in no key; `*` at the end stands for any text.
    pub(crate) ignored_headers: Vec<String>,
    /// JSON Pointers to members of the body that are in no key; `*` stands for each item of a list.
    pub(crate) ignored_members: Vec<Located<String>>,
    /// The IDs of the client's own inputs of Responses are in no key.
    pub(crate) own_item_ids: bool,
    /// It sends its requests by POST at once if a WebSocket gets status 426: only these are stored and counted.
    pub(crate) posts_without_websocket: bool,
    /// Lines of texts that differ between two runs, by name. They are in the key unless `ignore` names them.
    pub(crate) texts: Vec<Named<VaryingText>>,
    /// Names of `texts` that are in no key. A model reads them: a stored answer may be about another date.
    pub(crate) ignore: Vec<Located<String>>,
    /// The same, as the user of a command says.
    #[setting(skip)]
    ignored_texts: Vec<String>,
    /// Stores the sampled answers of the client, and replays them, as for an agent of its name. Default: false.
    pub(crate) replay: bool,
}

/// A line of a text that differs between two runs.
#[derive(Debug, Clone, Settings)]
#[settings(name = "a text", check = check_text)]
pub(crate) struct VaryingText {
    /// The tools in whose results the line is. Without any, it is in messages and instructions.
    pub(crate) tools: Vec<String>,
    /// The whole line, with placeholders: `{date}`, `{hex}`, `{long_date}`, `{number}`, `{path}`, `{short_date}`, `{time}`, `{us_date}`, `{uuid}`.
    pub(crate) line: String,
    #[setting(skip)]
    pub(crate) pattern: Option<TextPattern>,
}

impl VaryingText {
    /// Returns true for a text in which the line may be: in the result of a tool, or elsewhere.
    pub(crate) fn is_in(&self, tool: Option<&str>) -> bool {
        match tool {
            Some(tool) => self.tools.iter().any(|known| known == tool),
            None => self.tools.is_empty(),
        }
    }

    /// Returns true if a line of the text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let pattern = self.pattern.as_ref();
        pattern.is_some_and(|pattern| pattern.is_in(text))
    }

    /// Returns a text with the placeholders in all lines that match; `None` if no line does.
    pub(crate) fn replaced_in(&self, text: &str) -> Option<String> {
        self.pattern.as_ref()?.replaced_in(text)
    }
}

/// The file of the program.
#[derive(Debug, Default, Settings)]
#[settings(name = "the clients")]
struct ClientsFile {
    /// The clients, by name.
    clients: Vec<Named<ClientProfile>>,
}

/// A client, whose name is that of its profile.
pub(crate) type Client = Named<ClientProfile>;

/// The clients that a gateway knows: those of its file come first.
#[derive(Debug, Clone)]
pub(crate) struct Clients(Arc<[Arc<Client>]>);

impl Clients {
    /// Returns the clients of the program.
    pub(crate) fn built_in() -> &'static Self {
        static CLIENTS: LazyLock<Clients> = LazyLock::new(|| {
            let mut problems = Vec::new();
            let root = tree::parse("clients.yaml", BUILT_IN);
            let file = root
                .ok()
                .and_then(|root| ClientsFile::read(&root, &mut problems));
            debug_assert!(problems.is_empty() && file.is_some(), "{problems:?}");
            Clients(
                file.unwrap_or_default()
                    .clients
                    .into_iter()
                    .map(Arc::new)
                    .collect(),
            )
        });
        &CLIENTS
    }

    /// Returns the clients of a file and those of the program. A client of the program that the file names, too, gets
    /// what the file says in addition.
    pub(crate) fn with(declared: &[Client]) -> Self {
        let mut all = declared.to_vec();
        for built_in in Self::built_in().0.iter() {
            match all.iter_mut().find(|client| client.name == built_in.name) {
                Some(client) => client.value.add(&built_in.value),
                None => all.push(Client::clone(built_in)),
            }
        }
        Self(all.into_iter().map(Arc::new).collect())
    }

    /// Returns the clients without the texts of these names in keys.
    pub(crate) fn ignoring(&self, texts: &[String]) -> Self {
        let clients = self.0.iter().map(|client| {
            let mut client = Client::clone(client);
            client.value.ignored_texts = texts.to_vec();
            Arc::new(client)
        });
        Self(clients.collect())
    }

    /// Returns the client that the request names in `x-cachalot-profile`; if replay is asked for, also the one that a
    /// command runs, that of the agent's name, or the one whose requests are like this one.
    ///
    /// # Errors
    /// The response to a client that names an unknown profile.
    pub(crate) fn of_request(
        &self,
        headers: &HeaderMap,
        agent: Option<&str>,
        of_command: Option<&str>,
    ) -> Result<Option<&Arc<Client>>, ErrorBody> {
        let Some(name) = headers.get(HEADER) else {
            let mut names = of_command.into_iter().chain(agent);
            let mut named = || names.find_map(|name| self.named(name));
            return Ok(agent.and_then(|_| named().or_else(|| self.recognized(headers))));
        };
        let found = name.to_str().ok().and_then(|name| self.named(name));
        found.map(Some).ok_or_else(|| {
            let names = self.0.iter().map(|client| format!("`{}`", client.name));
            let names: Vec<String> = names.collect();
            let message = format!("{HEADER}: expected one of {}", names.join(", "));
            ErrorBody::bad_request("malformed_header", message)
        })
    }

    /// Returns the name of the client whose requests are like this one, if the operator wants its answers replayed.
    pub(crate) fn replayed(&self, headers: &HeaderMap) -> Option<&str> {
        let client = self
            .recognized(headers)
            .filter(|client| client.value.replay);
        client.map(|client| client.name.as_str())
    }

    /// Returns true for the client of a WebSocket that sends its requests by POST at once if it gets none.
    pub(crate) fn posts_without_websocket(&self, headers: &HeaderMap) -> bool {
        let client = self.recognized(headers);
        client.is_some_and(|client| client.value.posts_without_websocket)
    }

    /// Returns the session that a request names in a header of any client.
    pub(crate) fn session(&self, headers: &HeaderMap) -> Option<String> {
        let clients = self.0.iter();
        let mut names = clients.flat_map(|client| &client.value.session_headers);
        names.find_map(|name| Some(headers.get(name.as_str())?.to_str().ok()?.to_owned()))
    }

    /// Returns the name of the sub-agent that a request is of, as a header of any client says.
    pub(crate) fn sub_agent(&self, headers: &HeaderMap) -> Option<String> {
        let clients = self.0.iter();
        let mut declared = clients.flat_map(|client| &client.value.sub_agents);
        declared.find_map(|(header, name)| {
            headers.get(header.as_str())?;
            let name = headers.get(name.as_str())?.to_str().ok()?;
            Some(truncate(name, MAX_SUB_AGENT).into_owned())
        })
    }

    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|client| client.name.as_str()).collect()
    }

    fn named(&self, name: &str) -> Option<&Arc<Client>> {
        self.0.iter().find(|client| client.name == name)
    }

    fn recognized(&self, headers: &HeaderMap) -> Option<&Arc<Client>> {
        self.0.iter().find(|client| {
            client.value.recognize.iter().any(|(name, beginning)| {
                let value = headers.get(name.as_str());
                value.is_some_and(|value| value.as_bytes().starts_with(beginning.as_bytes()))
            })
        })
    }
}

impl ClientProfile {
    fn add(&mut self, other: &Self) {
        if self.recognize.is_empty() {
            self.recognize.clone_from(&other.recognize);
        }
        self.session_headers
            .extend_from_slice(&other.session_headers);
        self.sub_agents.extend(other.sub_agents.clone());
        self.ignored_headers
            .extend_from_slice(&other.ignored_headers);
        self.ignored_members
            .extend_from_slice(&other.ignored_members);
        self.own_item_ids |= other.own_item_ids;
        self.posts_without_websocket |= other.posts_without_websocket;
        self.texts.extend_from_slice(&other.texts);
    }

    /// Returns true if the header is no part of the key.
    pub(crate) fn leaves_out(&self, header: &HeaderName) -> bool {
        let name = header.as_str();
        self.ignored_headers
            .iter()
            .any(|known| match known.strip_suffix('*') {
                Some(beginning) => name.starts_with(&beginning.to_ascii_lowercase()),
                None => name.eq_ignore_ascii_case(known),
            })
    }

    /// Returns true if the text of this name is in no key.
    pub(crate) fn ignores(&self, text: &str) -> bool {
        let of_file = self.ignore.iter().map(|name| &name.value);
        of_file.chain(&self.ignored_texts).any(|name| name == text)
    }
}

/// Returns the names of the texts of a client of the program that differ between two runs and are in the key: what
/// [`CommandRun::ignored_texts`](crate::CommandRun) may name. Empty for an unknown client.
#[must_use]
pub fn varying_texts(client: &str) -> Vec<&'static str> {
    let client = Clients::built_in().named(client);
    let texts = client.into_iter().flat_map(|client| &client.value.texts);
    texts.map(|text| text.name.as_str()).collect()
}

/// Checks what depends on the clients of the program.
pub(crate) fn check_clients(clients: &[Client], problems: &mut Vec<Problem>) {
    let all = Clients::with(clients);
    for client in clients {
        let texts = all.named(&client.name).map(|all| &all.value.texts);
        let names: Vec<&str> = texts
            .into_iter()
            .flatten()
            .map(|text| text.name.as_str())
            .collect();
        for ignored in &client.value.ignore {
            if !names.contains(&ignored.value.as_str()) {
                let message = format!(
                    "`{}` is none of the `texts` of `{}`",
                    ignored.value, client.name
                );
                let problem = Problem::new("bad-value", message).at(&ignored.place);
                problems.push(problem.help(match names.as_slice() {
                    [] => "declare it under `texts`".to_owned(),
                    names => format!("these are known: {}", names.join(", ")),
                }));
            }
        }
    }
}

fn check(client: &ClientProfile, _: Values<'_>, problems: &mut Vec<Problem>) {
    for pointer in &client.ignored_members {
        if let Some(reason) = why_no_member(&pointer.value) {
            let problem = Problem::new("bad-value", reason).at(&pointer.place);
            problems.push(problem.help("for example `/metadata/session`"));
        }
    }
}

/// Returns the reason why a pointer names no member that may be left out of keys.
fn why_no_member(pointer: &str) -> Option<String> {
    let Some((first, last)) = pointer.strip_prefix('/').map(|path| {
        let first = path.split('/').next().unwrap_or_default();
        (first, path.rsplit('/').next().unwrap_or_default())
    }) else {
        return Some(format!(
            "`{pointer}` is no JSON Pointer: it begins with no `/`"
        ));
    };
    if last.is_empty() || last == "*" || last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(format!("`{pointer}` names no member of an object"));
    }
    let facts = |name: &str| {
        let tables = shared_members::all();
        let found = tables.flat_map(|table| [table.of_request(name), table.anywhere.get(name)]);
        found.flatten().map(|facts| facts.does).collect::<Vec<_>>()
    };
    let has_effect = facts(first).iter().any(|does| *does != Effect::Nothing);
    let is_whole = first.len() + 1 == pointer.len();
    if is_whole && has_effect {
        return Some(format!("`{first}` changes answers or their cost"));
    }
    // Within what a model reads, only members that are known to do nothing.
    let does_nothing = facts(last).contains(&Effect::Nothing);
    (has_effect && !does_nothing).then(|| {
        format!("`{last}` is not known to do nothing, and a model may read what is in `{first}`")
    })
}

fn check_text(text: &mut VaryingText, values: Values<'_>, problems: &mut Vec<Problem>) {
    match TextPattern::parse(&text.line) {
        Ok(pattern) => text.pattern = Some(pattern),
        Err(error) => {
            let message = format!("`{}`: {error}", text.line);
            problems.push(Problem::new("bad-value", message).at(&values.place("line")));
        }
    }
}
