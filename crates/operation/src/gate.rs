//! The gate: the allow-list of the tools that a fork may use.
//!
//! A fork shows its model every tool that its parent shows, because the tools are the beginning of the prefix
//! that both share. The gate restricts the tools that it may use, and is checked where calls are executed: a
//! call that the gate denies is not passed to hooks, permissions, or anything that could answer it from a
//! cache, and the tool does not run.

use std::collections::BTreeSet;
use std::sync::Arc;

use cachalot_core::text::head;

/// Maximum number of characters of a tool name invented by a model that are shown.
const SHOWN: usize = 80;

/// An allow-list of tools, carried in the [`crate::ToolContext`] of every call. Clones share it.
///
/// A gate can only become narrower: see [`Gate::within`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// The name of the restricted agent, as in `the review`.
    holder: Arc<str>,
    allowed: Arc<BTreeSet<String>>,
}

impl Gate {
    /// Creates a gate that lets `holder` (`the review`, as denials name it) use these tools only.
    pub fn new<T: Into<String>>(
        holder: impl Into<Arc<str>>,
        allowed: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            holder: holder.into(),
            allowed: Arc::new(allowed.into_iter().map(Into::into).collect()),
        }
    }

    /// Returns the intersection of this gate and an outer one. Work on behalf of a gated fork gets no more
    /// tools than the fork.
    #[must_use]
    pub fn within(&self, outer: Option<&Self>) -> Self {
        let Some(outer) = outer else {
            return self.clone();
        };
        Self {
            holder: Arc::clone(&self.holder),
            allowed: Arc::new(&*self.allowed & &*outer.allowed),
        }
    }

    /// The name of the restricted agent, as in `the review`.
    #[must_use]
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// True if a tool of exactly this name may be used.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        self.allowed.contains(tool)
    }

    /// The names of the tools that may be used.
    pub fn allowed(&self) -> impl Iterator<Item = &str> {
        self.allowed.iter().map(String::as_str)
    }

    /// Cuts the name of a tool for display: a model may write a name of any length.
    #[must_use]
    pub fn shown(tool: &str) -> &str {
        head(tool, SHOWN)
    }

    /// Returns the message for the model about a call that the gate denies; `None` if it allows it.
    #[must_use]
    pub fn denial(&self, tool: &str) -> Option<String> {
        if self.allows(tool) {
            return None;
        }
        let shown = Self::shown(tool);
        Some(format!(
            "`{shown}` did not run: {} may not use it. {} Do not call it again.",
            self.holder,
            self.rule()
        ))
    }

    /// The allowed tools, as a sentence for the model.
    #[must_use]
    pub fn rule(&self) -> String {
        if self.allowed.is_empty() {
            return "No tool may be used here.".to_owned();
        }
        let names: Vec<String> = self.allowed().map(|name| format!("`{name}`")).collect();
        format!("Only these tools may be used here: {}.", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_allows_listed_tools_and_explains_denials() {
        let gate = Gate::new("the review", ["memory", "read_file"]);
        assert!(gate.denial("memory").is_none());
        let denial = gate.denial("shell").unwrap_or_default();
        for part in [
            "`shell`",
            "the review",
            "`memory`, `read_file`",
            "Do not call it again",
        ] {
            assert!(denial.contains(part), "{part} is not in {denial}");
        }
        assert!(!gate.allows("Memory") && !gate.allows("memory "));
    }

    #[test]
    fn nested_gate_is_the_intersection() {
        let outer = Gate::new("the fork", ["memory", "grep"]);
        let inner = Gate::new("the agent", ["grep", "shell"]).within(Some(&outer));
        assert_eq!(inner.allowed().collect::<Vec<_>>(), ["grep"]);
        assert_eq!(inner.within(None), inner);
        let none = Gate::new("x", Vec::<String>::new());
        assert!(none.rule().starts_with("No tool"));
    }
}
