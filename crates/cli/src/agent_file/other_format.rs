//! Files in another format than the expected one: those of other programs, and those of other commands.

use std::ffi::OsStr;
use std::path::Path;

use cachalot_core::Problem;
use cachalot_core::tree::{self, Node};
use cachalot_hooks::Dialect;

use super::Kind;

/// The formats that commands of this program expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Agents or a workflow.
    Agent,
    /// The configuration of a gateway.
    Gateway,
    /// A policy of the MCP proxy.
    McpPolicy,
    /// A script of the simulator.
    Script,
}

/// A format that is recognized.
struct Format {
    /// Its name, with an article.
    name: &'static str,
    /// What to do with the file, which stands in place of `FILE`.
    help: &'static str,
    /// The command that expects it.
    expected: Option<Expected>,
    is_it: fn(&Content<'_>) -> bool,
}

/// The content of a file.
struct Content<'a> {
    /// The name, without its directories.
    name: &'a str,
    extension: &'a str,
    text: &'a str,
    /// The content, if it is YAML or JSON.
    root: Option<Node>,
}

impl Content<'_> {
    fn get(&self, key: &str) -> Option<&Node> {
        self.root.as_ref()?.get(key)
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    fn has_map(&self, key: &str) -> bool {
        self.get(key).is_some_and(|node| node.as_map().is_some())
    }

    fn schema_contains(&self, part: &str) -> bool {
        let schema = self.get("$schema").and_then(Node::as_text);
        schema.is_some_and(|schema| schema.contains(part))
    }

    /// Returns the problem of an agent, or of a node, that is the whole file.
    fn misplaced(&self) -> Option<Problem> {
        const OF_AGENTS: [&str; 4] = ["model", "instruction", "instruction_file", "toolsets"];
        const OF_NODES: [&str; 4] = ["steps", "uses", "with", "run"];
        if self.has("agents") || self.has("nodes") {
            return None;
        }
        let mut entries = self.root.as_ref()?.as_map()?.iter();
        let (entry, is_of_agent) = entries.find_map(|entry| {
            let key = entry.key.as_str();
            let is_of_agent = OF_AGENTS.contains(&key);
            (is_of_agent || OF_NODES.contains(&key)).then_some((entry, is_of_agent))
        })?;
        let (owner, help) = if is_of_agent {
            (
                "an agent",
                "write the keys of the agent below its name: `agents: {root: {model: …, instruction: …}}`",
            )
        } else {
            (
                "a node",
                "write the keys of each node in the list `nodes`: `nodes: [{name: greet, uses: …, with: …}]`",
            )
        };
        let message = format!("`{}` is a key of {owner}, and the file has none", entry.key);
        let problem = Problem::new("missing-key", message).at(&entry.key_place);
        Some(problem.help(help))
    }

    /// Returns the values of the root, or of a key of it.
    fn values(node: Option<&Node>) -> impl Iterator<Item = &Node> {
        let entries = node.and_then(Node::as_map).unwrap_or_default();
        entries.iter().map(|entry| &entry.value)
    }

    /// True for events of hooks of this runtime.
    fn has_events(&self, dialect: Dialect) -> bool {
        let events = self.get("hooks").and_then(Node::as_map).unwrap_or_default();
        events.iter().any(|event| dialect.has_event(&event.key))
    }
}

/// The formats, the most specific ones first.
#[rustfmt::skip]
const FORMATS: &[Format] = &[
    Format {
        name: "a configuration of nanobot",
        help: "`cachalot chat FILE` runs its agent",
        expected: None,
        is_it: |file| file.get("agents").is_some_and(|agents| agents.get("defaults").is_some())
            && ["channels", "providers", "gateway", "tools"].iter().any(|key| file.has_map(key)),
    },
    Format {
        name: "a settings file of Claude Code",
        help: "`cachalot chat --hooks FILE` runs its hooks; write its rules as `permissions:` of an agent file; `cachalot exec -- claude` runs Claude Code itself behind the cache",
        expected: None,
        is_it: |file| file.schema_contains("claude-code-settings")
            || (matches!(file.name, "settings.json" | "settings.local.json") && (file.has_map("permissions") || file.has_events(Dialect::Claude)))
            || (file.has_events(Dialect::Claude) && !file.has_events(Dialect::DockerAgent)),
    },
    Format {
        name: "a configuration of MCP servers",
        help: "write each server below `mcps:` of an agent file, and name it in an agent: `toolsets: [{type: mcp, ref: NAME}]`",
        expected: None,
        is_it: |file| file.has_map("mcpServers")
            || (file.name == "mcp.json" && file.has_map("servers")),
    },
    Format {
        name: "a configuration of opencode",
        help: "write its model and its agents below `agents:`; `cachalot exec -- opencode` runs opencode itself behind the cache",
        expected: None,
        is_it: |file| file.schema_contains("opencode.ai"),
    },
    Format {
        name: "a configuration of Codex",
        help: "`cachalot chat --hooks FILE` runs its hooks; `cachalot exec -- codex` runs Codex itself behind the cache",
        expected: None,
        is_it: |file| file.extension == "toml"
            && ["[mcp_servers", "approval_policy", "sandbox_mode", "model_provider", "[features]"].iter().any(|part| file.text.contains(part)),
    },
    Format {
        name: "a TOML file",
        help: "write agents and workflows in YAML: `cachalot init` makes a first file",
        expected: None,
        is_it: |file| file.extension == "toml",
    },
    Format {
        name: "a skill",
        help: "agents find it with `toolsets: [{type: skills}]` in `skills/NAME/SKILL.md` of the workspace",
        expected: None,
        is_it: |file| file.name == "SKILL.md",
    },
    Format {
        name: "an agent in Markdown, as of Claude Code",
        help: "write an agent with `model: …` and `instruction_file: FILE`",
        expected: None,
        is_it: |file| file.extension == "md",
    },
    Format {
        name: "a log of requests or a transcript",
        help: "`cachalot prefix analyze FILE` looks for breaks of its prefixes, and `cachalot spend FILE` sums up what a transcript has cost",
        expected: None,
        is_it: |file| file.extension == "jsonl" || file.extension == "ndjson",
    },
    Format {
        name: "a script of the simulator",
        help: "`cachalot simulate --script FILE` answers as it says",
        expected: Some(Expected::Script),
        is_it: |file| file.get("rules").and_then(Node::as_list).is_some_and(|rules| rules.iter().any(|rule| rule.get("steps").is_some())),
    },
    Format {
        name: "a catalog of models",
        help: "`CACHALOT_MODELS=FILE` adds it to the built-in one, which `cachalot models` lists",
        expected: None,
        is_it: |file| Content::values(file.get("models")).all(|provider| provider.get("model").is_none())
            && Content::values(file.get("models")).flat_map(|provider| Content::values(Some(provider)))
                .any(|model| ["input", "output", "context", "cache_read"].iter().any(|key| model.get(key).is_some())),
    },
    Format {
        name: "a configuration of LiteLLM",
        help: "docs/gateway.md has the keys of `cachalot serve --config`, among them `upstreams`, `keys` and `cache`",
        expected: None,
        is_it: |file| file.has("model_list"),
    },
    Format {
        name: "a file of hooks",
        help: "`cachalot chat --hooks FILE` runs them, and `cachalot hooks test --hooks FILE --input INPUT EVENT` tries them",
        expected: None,
        is_it: |file| file.has_map("hooks"),
    },
    Format {
        name: "a Compose file",
        help: "name an agent file: `cachalot init` makes a first one",
        expected: None,
        is_it: |file| Content::values(file.get("services")).any(|service| service.get("image").is_some() || service.get("build").is_some()),
    },
    Format {
        name: "a workflow of GitHub Actions",
        help: "a workflow of Cachalot has `nodes`: `cachalot init` makes a first file",
        expected: None,
        is_it: |file| Content::values(file.get("jobs")).any(|job| job.get("runs-on").is_some() || job.get("uses").is_some()),
    },
    Format {
        name: "a file of agents of CrewAI",
        help: "write each below `agents:`, with `model: …`, and its role, goal and backstory as `instruction: …`",
        expected: None,
        is_it: |file| Content::values(file.root.as_ref()).any(|agent| agent.get("role").is_some() && agent.get("goal").is_some()),
    },
    Format {
        name: "a package of Node.js",
        help: "name an agent file: `cachalot init` makes a first one",
        expected: None,
        is_it: |file| file.name == "package.json",
    },
    Format {
        name: "a configuration of the gateway",
        help: "`cachalot serve --config FILE` starts the gateway",
        expected: Some(Expected::Gateway),
        is_it: |file| file.root.as_ref().is_some_and(|root| Kind::from_root(root) == Kind::Gateway),
    },
    Format {
        name: "a policy of the MCP proxy",
        help: "`cachalot mcp --policy FILE -- COMMAND` puts the proxy in front of a server",
        expected: Some(Expected::McpPolicy),
        is_it: |file| file.root.as_ref().is_some_and(|root| Kind::from_root(root) == Kind::McpPolicy),
    },
    Format {
        name: "an agent file",
        help: "`cachalot chat FILE` talks to its agents, and `cachalot run FILE` runs its nodes",
        expected: Some(Expected::Agent),
        is_it: |file| file.has("nodes") || file.has_map("agents"),
    },
];

/// Returns the problems of a file in the expected format; or, if the file is in another one that is known, that as the
/// only problem. Warnings alone are returned as they are.
pub(crate) fn explained(
    problems: Vec<Problem>,
    expected: Expected,
    file: &str,
    text: &str,
) -> Vec<Problem> {
    if problems.iter().all(|problem| problem.is_warning) {
        return problems;
    }
    let path = Path::new(file);
    let (name, extension) = (path.file_name(), path.extension());
    let content = Content {
        name: name.and_then(OsStr::to_str).unwrap_or_default(),
        extension: extension.and_then(OsStr::to_str).unwrap_or_default(),
        text,
        root: tree::parse(file, text).ok(),
    };
    // A file with a key that only the expected format has is meant to be in it.
    let is_meant = match expected {
        Expected::Agent => {
            let agents = content.get("agents");
            content.has("nodes") || agents.is_some_and(|agents| agents.get("defaults").is_none())
        }
        Expected::Gateway => content.has("upstreams"),
        Expected::McpPolicy => content.has("servers"),
        Expected::Script => false,
    };
    let found = FORMATS.iter().find(|format| (format.is_it)(&content));
    let Some(format) = found.filter(|format| !is_meant && format.expected != Some(expected)) else {
        let misplaced = content.misplaced().filter(|_| expected == Expected::Agent);
        return misplaced.map_or(problems, |problem| vec![problem]);
    };
    let wanted = match expected {
        Expected::Agent => "an agent file",
        Expected::Gateway => "a configuration of the gateway",
        Expected::McpPolicy => "a policy of the MCP proxy",
        Expected::Script => "a script of the simulator",
    };
    let problem = Problem::new(
        "other-format",
        format!("{file} is {}, not {wanted}", format.name),
    );
    let problem = problem.help(format.help.replace("FILE", file));
    vec![match &content.root {
        Some(root) => problem.at(&root.head()),
        None => problem,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognized(expected: Expected, file: &str, text: &str) -> String {
        let other = Problem::new("unknown-key", "unknown key");
        let problems = explained(vec![other], expected, file, text);
        problems[0].message.clone()
    }

    #[test]
    fn files_of_other_programs_are_recognized() {
        for (file, text, name) in [
            (
                "config.json",
                r#"{"agents": {"defaults": {"model": "x"}}, "channels": {}}"#,
                "a configuration of nanobot",
            ),
            (
                ".claude/settings.json",
                r#"{"permissions": {"allow": []}}"#,
                "a settings file of Claude Code",
            ),
            (
                "x.json",
                r#"{"hooks": {"PreToolUse": []}}"#,
                "a settings file of Claude Code",
            ),
            (
                ".mcp.json",
                r#"{"mcpServers": {}}"#,
                "a configuration of MCP servers",
            ),
            (
                "config.toml",
                "approval_policy = \"never\"\n",
                "a configuration of Codex",
            ),
            ("Cargo.toml", "[package]\n", "a TOML file"),
            (
                "reviewer.md",
                "---\nname: reviewer\n---\nReview.\n",
                "an agent in Markdown, as of Claude Code",
            ),
            (
                "log.jsonl",
                "{\"model\": \"x\"}\n{}\n",
                "a log of requests or a transcript",
            ),
            (
                "script.yaml",
                "rules: [{user: x, steps: [{text: y}]}]",
                "a script of the simulator",
            ),
            (
                "models.yaml",
                "models: {openai: {gpt-4o: {input: 1}}}",
                "a catalog of models",
            ),
            ("hooks.yaml", "hooks: {pre_tool_use: []}", "a file of hooks"),
            (
                "ci.yaml",
                "on: push\njobs: {build: {runs-on: x}}",
                "a workflow of GitHub Actions",
            ),
            (
                "compose.yaml",
                "services: {web: {image: x}}",
                "a Compose file",
            ),
            (
                "gateway.yaml",
                "upstreams: {a: {}}",
                "a configuration of the gateway",
            ),
        ] {
            let expected = format!("{file} is {name}, not an agent file");
            assert_eq!(recognized(Expected::Agent, file, text), expected);
        }
    }

    #[test]
    fn files_of_another_command_are_recognized() {
        let agents = "agents: {root: {model: x}}";
        let workflow = "nodes: [{name: a}]";
        for text in [agents, workflow] {
            assert_eq!(
                recognized(Expected::Gateway, "a.yaml", text),
                "a.yaml is an agent file, not a configuration of the gateway"
            );
            assert_eq!(
                recognized(Expected::Script, "a.yaml", text),
                "a.yaml is an agent file, not a script of the simulator"
            );
        }
    }

    #[test]
    fn agent_or_node_that_is_the_whole_file_is_one_problem() {
        for (text, message) in [
            (
                "model: openai/gpt-4o\ninstruction: x",
                "`model` is a key of an agent, and the file has none",
            ),
            (
                "name: x\nsteps: []",
                "`steps` is a key of a node, and the file has none",
            ),
        ] {
            assert_eq!(recognized(Expected::Agent, "a.yaml", text), message);
        }
    }

    #[test]
    fn problems_of_the_expected_format_are_kept() {
        for (expected, text) in [
            (Expected::Agent, "agents: {root: {modle: x}}"),
            (
                Expected::Agent,
                "nodes: [{name: a}]\nhooks: {pre_tool_use: []}",
            ),
            (
                Expected::Agent,
                "models: {m: {model: gpt-4o, contxt: 1, cost: {input: 1, output: 1}}}",
            ),
            (Expected::Agent, "nodez: []"),
            (Expected::Agent, "agents: {root: {modle: x}}\nmodel: x"),
            (Expected::Gateway, "upstreams: {a: {}}"),
            (Expected::Gateway, "listen: 1"),
            (Expected::McpPolicy, "servers: {a: {tool: {}}}"),
            (Expected::Script, "rules: [{steps: [{txt: x}]}]"),
        ] {
            assert_eq!(
                recognized(expected, "a.yaml", text),
                "unknown key",
                "{text}"
            );
        }
        let warnings = vec![Problem::warning("no-effect", "x")];
        let kept = explained(warnings.clone(), Expected::Agent, "a.md", "");
        assert_eq!(kept, warnings);
    }
}
