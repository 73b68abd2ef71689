//! The policy file: its declared keys, and their values.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::config::{
    Custom, Named, ParameterKind, Row, SettingValue as _, Settings, Values, Word as _,
};
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{self, MapEntry, Node};
use cachalot_model::DURATION;
use globset::{Glob, GlobMatcher};
use serde_json::{Value, json};

/// The policy of the MCP proxy: which answers of servers are stored.
#[derive(Debug, Clone, Default, Settings)]
#[settings(name = "a policy of the MCP proxy")]
pub struct ProxyPolicy {
    /// The servers, by name; `*` in a name stands for any text. The first entry that matches applies.
    #[setting(required)]
    pub servers: Option<Vec<Named<ServerPolicy>>>,
}

/// The policy of one server.
#[derive(Debug, Clone, Default, Settings)]
#[settings(name = "the policy of a server", check = check_server)]
pub struct ServerPolicy {
    /// Declares that the answers of the server depend neither on the session nor on what its process remembers. Without
    /// it, answers of a server of protocol revision 2025-11-25 or older are stored for one session only, and those of a
    /// server that is started as a program for one process only.
    pub stateless: bool,
    /// Stores lists, resources and discovery for the time that the server states (`ttlMs`), at most 24 hours.
    #[setting(default = true)]
    pub hints: bool,
    /// The directory that relative paths among the arguments start at, relative to the working directory of the server.
    /// Without it, calls with relative paths are not stored, because a server may resolve them in its own way.
    pub relative_to: Option<PathBuf>,
    /// The tools, by name; `*` in a name stands for any text. A name without `*` comes before all others, then the first
    /// entry that matches applies. An entry without `ttl`, `paths` and `also` stores nothing: it only says that the tool
    /// changes nothing, so that its calls do not invalidate answers.
    pub tools: Vec<Named<ToolPolicy>>,
    /// The resources of a server that states no times.
    pub resources: Option<ResourcePolicy>,
}

/// The policy of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Settings)]
#[settings(name = "the policy of a tool", check = check_tool)]
pub struct ToolPolicy {
    /// The time for which an answer is stored. Without it, an answer is stored until a file of `paths` or `also` changes,
    /// or another call invalidates it.
    #[setting(kind = DURATION)]
    pub ttl: Option<Duration>,
    /// Declares that the tool changes nothing, for a server that does not say so. It never overrides a server that
    /// declares the opposite.
    pub assume_read_only: bool,
    /// Stores answers although the tool is known to depend on time, chance or hidden state.
    pub force: bool,
    /// Stores answers whose text begins with `Error` or `Failed`.
    pub allow_error_text: bool,
    /// Arguments that name files of this machine, each with what the answer depends on: `file` (the content of a file),
    /// `listing` (the names in a directory), `names` (all names below a directory) or `tree` (all names and contents
    /// below a directory). An answer is served only while these are unchanged. For servers that are started as a program.
    #[setting(kind = PATH_KINDS)]
    pub paths: BTreeMap<String, String>,
    /// Further files that the answers depend on, with the same words. `{ARGUMENT}` stands for the value of an argument.
    #[setting(kind = PATH_KINDS)]
    pub also: BTreeMap<String, String>,
    /// URIs of resources that the answers depend on: an update of one that the server announces invalidates them. `*`
    /// stands for all.
    pub resources: Vec<String>,
}

/// The policy of resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Settings)]
#[settings(name = "`resources`")]
pub struct ResourcePolicy {
    /// The time for which the answer to `resources/read` is stored if the server states none.
    #[setting(kind = DURATION)]
    pub ttl: Option<Duration>,
}

/// Aspects of a path that an answer depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
#[settings(name = "what an answer depends on")]
pub enum PathKind {
    /// The content of a file, or the names in a directory.
    File,
    /// The names in a directory.
    Listing,
    /// All names below a directory.
    Names,
    /// All names and contents below a directory.
    Tree,
}

/// A mapping to words of [`PathKind`].
const PATH_KINDS: ParameterKind = ParameterKind::Custom(&Custom {
    schema: Some(
        || json!({"type": "object", "additionalProperties": PathKind::KIND.schema(false)}),
    ),
    check: check_path_kinds,
});

impl ProxyPolicy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// All problems of the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Problem>> {
        Self::from_root(&tree::parse(file, text)?)
    }

    /// Reads a parsed policy file.
    ///
    /// # Errors
    /// All problems of the file.
    pub fn from_root(root: &Node) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let policy = Settings::read(root, &mut problems).unwrap_or_default();
        if problems.iter().all(|problem| problem.is_warning) {
            Ok(policy)
        } else {
            Err(problems)
        }
    }

    /// Returns the JSON Schema of policy files.
    #[must_use]
    pub fn schema() -> Value {
        let mut schema = Self::TABLE.schema(false);
        schema["$schema"] = Value::from("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = Value::from("Cachalot policy of the MCP proxy");
        schema
    }

    /// Returns the policy of a server. If `is_only` is set, the only entry of the file applies to a server with
    /// another name, too.
    #[must_use]
    pub fn server(&self, name: &str, is_only: bool) -> Option<&ServerPolicy> {
        let servers = self.servers.as_deref().unwrap_or_default();
        let exact = servers.iter().find(|server| server.name == name);
        let matching = || {
            let mut servers = servers.iter();
            servers.find(|server| pattern(&server.name).is_some_and(|it| it.is_match(name)))
        };
        let only = || match servers {
            [only] if is_only => Some(only),
            _ => None,
        };
        let found = exact.or_else(matching).or_else(only)?;
        Some(&found.value)
    }

    /// Returns the number of servers and of entries of tools.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let servers = self.servers.as_deref().unwrap_or_default();
        let tools = servers.iter().map(|server| server.value.tools.len()).sum();
        (servers.len(), tools)
    }
}

impl ServerPolicy {
    /// Returns the entry of a tool, and true if it names the tool exactly.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<(&ToolPolicy, bool)> {
        if let Some(exact) = self.tools.iter().find(|tool| tool.name == name) {
            return Some((&exact.value, true));
        }
        let mut tools = self.tools.iter();
        let found = tools.find(|tool| pattern(&tool.name).is_some_and(|it| it.is_match(name)));
        found.map(|found| (&found.value, false))
    }

    /// Returns the names of tools that stand for themselves only, in the order of the file.
    pub fn exact_names(&self) -> impl Iterator<Item = &str> {
        let names = self.tools.iter().map(|tool| tool.name.as_str());
        names.filter(|name| !name.contains(['*', '?']))
    }

    /// Returns true if no answer of the server is ever stored.
    #[must_use]
    pub fn stores_nothing(&self) -> bool {
        !self.hints
            && self.resources.as_ref().and_then(|it| it.ttl).is_none()
            && self.tools.iter().all(|tool| !tool.value.stores())
    }
}

impl ToolPolicy {
    /// Returns the names of the arguments that the paths of `also` contain.
    pub(crate) fn arguments_of_also(&self) -> impl Iterator<Item = &str> {
        self.also.keys().flat_map(|path| {
            let behind_braces = path.split('{').skip(1);
            behind_braces.filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
        })
    }

    /// Returns true if answers are stored.
    #[must_use]
    pub fn stores(&self) -> bool {
        self.ttl.is_some() || !self.paths.is_empty() || !self.also.is_empty()
    }
}

/// Returns the keys of a policy file, for the documentation.
#[must_use]
pub fn policy_keys() -> Vec<Row> {
    let mut rows = ServerPolicy::TABLE.rows("servers.NAME.", true);
    rows.extend(ToolPolicy::TABLE.rows("servers.NAME.tools.NAME.", true));
    rows
}

/// Returns the matcher of a name with `*`; `None` for a name without.
fn pattern(name: &str) -> Option<GlobMatcher> {
    if !name.contains(['*', '?']) {
        return None;
    }
    Glob::new(name).ok().map(|glob| glob.compile_matcher())
}

fn check_server(server: &ServerPolicy, values: Values<'_>, problems: &mut Vec<Problem>) {
    for entry in values.map("tools") {
        let name = &entry.key;
        if !name.contains(['*', '?']) {
            continue;
        }
        if let Err(error) = Glob::new(name) {
            let message = format!("`{name}` is no pattern: {}", error.kind());
            let problem = Problem::new("bad-value", message).at(&entry.key_place);
            problems.push(problem.help("write a name in which `*` stands for any text"));
        }
        let mut tools = server.tools.iter();
        if tools.any(|tool| tool.name == *name && tool.value.force) {
            let message = format!("`force` for all tools that match `{name}`");
            let problem = Problem::new("bad-value", message).at(&entry.key_place);
            problems.push(problem.help("name the one tool whose answers are to be stored"));
        }
    }
    if server.resources.as_ref().is_some_and(|it| it.ttl.is_none()) {
        let problem = Problem::new("missing-key", "`resources` needs `ttl`");
        let problem = problem.at(&values.place("resources"));
        problems.push(problem.help("for example `resources: {ttl: 5m}`"));
    }
}

fn check_path_kinds(section: &MapEntry, problems: &mut Vec<Problem>) {
    ParameterKind::Object.check(section, problems);
    let words: Vec<&str> = PathKind::WORDS.iter().map(|(word, _)| *word).collect();
    for entry in section.value.as_map().unwrap_or_default() {
        let (path, key) = (&entry.key, &section.key);
        let word = entry.value.as_text();
        if word.and_then(PathKind::from_word).is_some() {
            continue;
        }
        let problem = match word {
            Some(word) => {
                let message = format!("`{path}` of `{key}` cannot be `{word}`");
                Problem::new("bad-value", message).help(did_you_mean(word, &words))
            }
            None => Problem::new("wrong-type", format!("`{path}` of `{key}` is no word"))
                .help(format!("write one of {}", words.join(", "))),
        };
        problems.push(problem.at(&entry.value.place));
    }
}

fn check_tool(tool: &ToolPolicy, values: Values<'_>, problems: &mut Vec<Problem>) {
    for path in tool.also.keys() {
        if path.matches('{').count() != path.matches('}').count() {
            let message = format!("`{path}` of `also` has a brace without its other one");
            let problem = Problem::new("bad-value", message).at(&values.place("also"));
            problems.push(problem.help("write the name of an argument as `{NAME}`"));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<&'static str> {
        let problems = ProxyPolicy::parse("policy.yaml", text).unwrap_err();
        problems.into_iter().map(|problem| problem.code).collect()
    }

    #[test]
    fn problems_of_a_file_are_reported_with_places_and_suggestions() {
        for (text, code) in [
            ("{}", "missing-key"),
            ("servers: {a: {tool: {}}}", "unknown-key"),
            ("servers: {a: {tools: {x: {tll: 1h}}}}", "unknown-key"),
            ("servers: {a: {tools: {x: {ttl: soon}}}}", "bad-value"),
            ("servers: {a: {tools: {x: {ttl: 0}}}}", "out-of-range"),
            (
                "servers: {a: {tools: {x: {paths: {path: content}}}}}",
                "bad-value",
            ),
            (
                "servers: {a: {tools: {x: {also: {config: content}}}}}",
                "bad-value",
            ),
            (
                "servers: {a: {tools: {x: {paths: {path: [file]}}}}}",
                "wrong-type",
            ),
            ("servers: {a: {tools: {x: {paths: [path]}}}}", "wrong-type"),
            (
                "servers: {a: {tools: {x: {also: {'{a/b': file}}}}}",
                "bad-value",
            ),
            ("servers: {a: {tools: {'[*': {ttl: 1h}}}}", "bad-value"),
            (
                "servers: {a: {tools: {'*': {ttl: 1h, force: true}}}}",
                "bad-value",
            ),
            ("servers: {a: {resources: {}}}", "missing-key"),
            ("servers: []", "wrong-type"),
        ] {
            assert_eq!(codes(text), [code], "{text}");
        }
        let problems =
            ProxyPolicy::parse("p", "servers: {a: {tools: {x: {tll: 1h}}}}").unwrap_err();
        assert!(problems[0].place.is_some());
        assert_eq!(problems[0].help.as_deref(), Some("did you mean `ttl`?"));
    }

    #[test]
    fn an_exact_name_comes_before_a_pattern() {
        let text = "servers: {files: {tools: {'read_*': {ttl: 1h}, '*': {ttl: 1m}, read_x: {ttl: 1s}}}, 'db-*': {}}";
        let policy = ProxyPolicy::parse("p", text).unwrap();
        let files = policy.server("files", false).unwrap();
        let ttl = |name| files.tool(name).unwrap().0.ttl.unwrap().as_secs();
        assert_eq!(ttl("read_x"), 1);
        assert_eq!(ttl("read_y"), 3_600);
        assert_eq!(ttl("other"), 60);
        assert!(policy.server("db-one", false).is_some());
        assert!(policy.server("other", true).is_none());
        let one = ProxyPolicy::parse("p", "servers: {files: {}}").unwrap();
        assert!(one.server("other", false).is_none());
        assert!(one.server("other", true).is_some());
    }

    #[test]
    fn the_schema_has_the_keys_of_tools() {
        let schema = ProxyPolicy::schema().to_string();
        for key in ["assume_read_only", "relative_to", "also", "stateless"] {
            assert!(schema.contains(key), "{key}");
        }
    }

    #[test]
    fn the_schema_has_the_words_of_paths() {
        let schema = ProxyPolicy::schema();
        let server = &schema["properties"]["servers"]["additionalProperties"];
        let tool = &server["properties"]["tools"]["additionalProperties"];
        let words: Vec<&str> = PathKind::WORDS.iter().map(|(word, _)| *word).collect();
        assert_eq!(words.len(), 4);
        for key in ["paths", "also"] {
            let values = &tool["properties"][key]["additionalProperties"];
            assert_eq!(values["enum"], json!(words), "{key}");
        }
    }
}
