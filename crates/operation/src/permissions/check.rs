//! Detects rules without effect: they name a tool or an argument that does not exist.

use cachalot_core::Problem;
use cachalot_core::suggest::{did_you_mean, nearest};

use super::Permissions;
use super::rule::Rule;

/// A tool and its arguments, as rules may name them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSignature {
    /// The name of the tool.
    pub name: String,
    /// The names of its arguments.
    pub arguments: Vec<String>,
}

/// Arguments that stand for resources that a call accesses.
const RESOURCE_ARGUMENTS: [&str; 9] = [
    "path",
    "paths",
    "file",
    "files",
    "directory",
    "command",
    "cmd",
    "url",
    "host",
];

/// The prefix of the names of MCP tools.
const MCP_PREFIX: &str = "mcp_";

impl Permissions {
    /// Returns problems for rules that can match no call, because they name a tool or an argument that
    /// none of these tools has. Tools of MCP servers are unknown before the server is connected: with
    /// `has_servers`, a rule that may refer to one is no problem ([`Permissions::check_server`] checks
    /// it later).
    #[must_use]
    pub fn check(&self, tools: &[ToolSignature], has_servers: bool) -> Vec<Problem> {
        let rules = self.allow.iter().chain(&self.ask).chain(&self.deny);
        rules
            .filter_map(|rule| {
                let rule_fault = rule_fault(rule, tools, has_servers)?;
                Some(
                    Problem::new(
                        "void-rule",
                        format!("the rule `{}` {}", rule.text(), rule_fault.what),
                    )
                    .at(rule.place())
                    .help(rule_fault.help),
                )
            })
            .collect()
    }

    /// Returns warnings about rules for tools of an MCP server. `tools` are the tools of all servers and
    /// of this program, `prefix` is the prefix of the server's tools (`mcp_github_`).
    #[must_use]
    pub fn check_server(&self, prefix: &str, tools: &[ToolSignature]) -> Vec<String> {
        let rules = self.allow.iter().chain(&self.ask).chain(&self.deny);
        rules
            .filter(|rule| rule.text().starts_with(prefix))
            .filter_map(|rule| {
                let rule_fault = rule_fault(rule, tools, false)?;
                Some(format!(
                    "the rule `{}` {}; {}",
                    rule.text(),
                    rule_fault.what,
                    rule_fault.help
                ))
            })
            .collect()
    }
}

/// Returns a rule, or if it names none of the `known` tools, its copies for the tools of servers with these
/// prefixes.
pub(super) fn for_servers(rule: Rule, prefixes: &[String], known: &[ToolSignature]) -> Vec<Rule> {
    let is_known = known.iter().any(|tool| rule.applies_to(&tool.name));
    // A misspelled name must not become that of a tool that no server has.
    let names = known.iter().map(|tool| &*tool.name);
    let is_misspelled = nearest(rule.tool().text(), names).is_some();
    let is_of_server = rule.tool().literal_start().starts_with(MCP_PREFIX);
    if is_known || is_misspelled || is_of_server || prefixes.is_empty() {
        return vec![rule];
    }
    let copies = prefixes.iter();
    copies
        .filter_map(|prefix| rule.with_tool_prefix(prefix))
        .collect()
}

struct RuleFault {
    what: String,
    help: String,
}

fn rule_fault(rule: &Rule, tools: &[ToolSignature], has_servers: bool) -> Option<RuleFault> {
    let start = rule.tool().literal_start();
    let is_of_server = start.starts_with(MCP_PREFIX);
    let may_be_of_server =
        is_of_server || (!rule.tool().is_literal() && MCP_PREFIX.starts_with(&start));
    let knows_servers = tools.iter().any(|tool| tool.name.starts_with(MCP_PREFIX));
    if (is_of_server && !knows_servers) || (may_be_of_server && has_servers) {
        return None;
    }
    let named: Vec<&ToolSignature> = tools
        .iter()
        .filter(|tool| rule.applies_to(&tool.name))
        .collect();
    if named.is_empty() {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let name = rule.tool().text();
        let mut help = did_you_mean(name, &names);
        if has_servers {
            let separator = if help.ends_with('?') { " For" } else { "; for" };
            help += &format!("{separator} a tool of an MCP server, write `{MCP_PREFIX}*_{name}`");
        }
        return Some(RuleFault {
            what: format!("names no tool: there is no `{name}`"),
            help,
        });
    }
    let has = |name: &str| {
        let has = |tool: &&ToolSignature| tool.arguments.iter().any(|argument| argument == name);
        named.iter().any(has) || is_resource_argument(name, &named)
    };
    let argument = rule.arguments().find(|name| !has(name))?;
    let mut names: Vec<&str> = named
        .iter()
        .flat_map(|tool| tool.arguments.iter().map(String::as_str))
        .collect();
    names.extend(
        RESOURCE_ARGUMENTS
            .iter()
            .filter(|name| is_resource_argument(name, &named)),
    );
    names.sort_unstable();
    names.dedup();
    let tool = match named.as_slice() {
        [tool] => format!("`{}` has no argument `{argument}`", tool.name),
        _ => format!("no tool that it names has an argument `{argument}`"),
    };
    Some(RuleFault {
        what: format!("is about no call: {tool}"),
        help: did_you_mean(argument, &names),
    })
}

/// True if calls of one of these tools may access the resources that an argument stands for.
fn is_resource_argument(name: &str, tools: &[&ToolSignature]) -> bool {
    let (arguments, tool_prefix): (&[&str], _) = match name {
        "path" | "paths" | "file" | "files" | "directory" => (
            &[
                "path",
                "paths",
                "file",
                "files",
                "directory",
                "patch",
                "command",
                "location",
            ],
            Some("skill"),
        ),
        "command" | "cmd" => (&["command", "cmd"], None),
        "url" | "host" => (&["url", "command"], None),
        _ => return false,
    };
    tools.iter().any(|tool| {
        let mut own = tool.arguments.iter().map(String::as_str);
        own.any(|argument| arguments.contains(&argument))
            || tool.name.starts_with(MCP_PREFIX)
            || tool_prefix.is_some_and(|prefix| tool.name.starts_with(prefix))
    })
}
