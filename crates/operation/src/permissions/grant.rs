//! The rule that an "always" approval adds.

use cachalot_core::SourceSpan;

use super::analyzed_request::{AnalyzedRequest, host, relative_to_root};
use super::pattern::{SHELL_SYNTAX, escaped};
use super::rule::{self, Rule};
use super::{AccessRequest, Permissions};
use crate::Workspace;
use crate::resource_access::CommandText;

/// A permission that a user grants for calls like the one that needed approval. Never wider than the
/// pattern that the user sees.
#[derive(Debug, Clone)]
pub struct PermissionGrant {
    rule: Rule,
}

impl PartialEq for PermissionGrant {
    fn eq(&self, other: &Self) -> bool {
        self.rule() == other.rule()
    }
}

impl Permissions {
    /// Returns the permission that an "always" approval grants for calls like this one: the prefix of a
    /// command (`git push *`), the path of a file, the host of a URL, or else the tool, with its action
    /// if it has one. `None` if no pattern covers this call without also covering something that the
    /// user did not see.
    #[must_use]
    pub fn derive_grant(
        request: &AccessRequest<'_>,
        workspace: &Workspace,
    ) -> Option<PermissionGrant> {
        let call = AnalyzedRequest::new(request, workspace);
        let text = pattern(&call)?;
        let place = SourceSpan {
            file: "always".into(),
            line: 1,
            column: 1,
            start: 0,
            len: 0,
        };
        let remembered = PermissionGrant {
            rule: rule::parse(&text, &place).ok()?,
        };
        // A pattern that does not cover its own call would cause the same question again.
        remembered.covers_call(&call).then_some(remembered)
    }
}

impl PermissionGrant {
    /// The rule, as written under `allow`.
    #[must_use]
    pub fn rule(&self) -> &str {
        self.rule.text()
    }

    /// True if it covers a call.
    #[must_use]
    pub fn covers(&self, request: &AccessRequest<'_>, workspace: &Workspace) -> bool {
        self.covers_call(&AnalyzedRequest::new(request, workspace))
    }

    fn covers_call(&self, call: &AnalyzedRequest<'_>) -> bool {
        self.rule.always_matches(call, &|_| false)
    }
}

fn pattern(call: &AnalyzedRequest<'_>) -> Option<String> {
    let request = call.request;
    let tool = request.tool;
    let resource_access = request.resource_access;
    match (call.commands.as_slice(), resource_access.urls.as_slice()) {
        ([taken], []) if resource_access.paths().next().is_none() => {
            let text = match &taken.command.text {
                CommandText::Line(line) => line.clone(),
                // Different lists of words may have the same text.
                CommandText::Program(words) => {
                    let is_plain = |word: &String| {
                        !word.is_empty()
                            && !word.contains(char::is_whitespace)
                            && !word.contains(SHELL_SYNTAX)
                    };
                    words.iter().all(is_plain).then(|| words.join(" "))?
                }
            };
            Some(format!("{tool}:command={}", command_rule(call, &text)))
        }
        ([], [url]) => {
            let host = host(url)?;
            resource_access
                .paths()
                .next()
                .is_none()
                .then(|| format!("{tool}:host={}", escaped(&host)))
        }
        ([], []) => {
            let mut paths: Vec<String> = resource_access
                .paths()
                .map(|path| relative_to_root(call.workspace.root(), path))
                .collect();
            paths.sort();
            paths.dedup();
            match paths.as_slice() {
                [] => {
                    let text = |name: &str| request.arguments.get(name)?.as_str();
                    let part = ["action", "agent"]
                        .iter()
                        .find_map(|name| Some(format!(":{name}={}", escaped(text(name)?))));
                    Some(format!("{tool}{}", part.unwrap_or_default()))
                }
                [path] => Some(format!("{tool}:path={}", escaped(path))),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The pattern of a command: its program and subcommand if these determine what it does, otherwise the
/// exact command.
fn command_rule(call: &AnalyzedRequest<'_>, text: &str) -> String {
    let prefix = call.commands[0].script.prefix();
    // Quotes and white space may have other spellings.
    let rest = prefix
        .as_deref()
        .and_then(|prefix| text.strip_prefix(prefix));
    match (prefix, rest) {
        (Some(prefix), Some(rest)) if rest.starts_with(' ') => format!("{} *", escaped(&prefix)),
        _ => escaped(text),
    }
}
