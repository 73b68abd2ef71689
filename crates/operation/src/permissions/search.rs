//! Files that a search must not read.

use std::path::Path;

use super::pattern::Pattern;
use super::subject::{Subjects, below};
use super::{Operation, Permissions};
use crate::Workspace;

/// The files that a search passes over, because a rule denies them or wants them asked about.
#[derive(Debug, Clone, Default)]
pub struct SearchFilter {
    /// A file is passed over if all patterns of one of these match it.
    rules: Vec<Vec<Pattern>>,
}

impl SearchFilter {
    /// Whether a file or directory below the one that is searched is passed over. The path is absolute
    /// and leads through no link.
    #[must_use]
    pub fn hides(&self, path: &Path, workspace: &Workspace) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let (lies, absolute) = (below(workspace.root(), path), path.to_string_lossy());
        let matches = |pattern: &Pattern| {
            pattern.matches_any_case(&lies) || pattern.matches_any_case(&absolute)
        };
        self.rules
            .iter()
            .any(|patterns| patterns.iter().all(matches))
    }

    /// Whether it passes over nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl Permissions {
    /// The files that a search must not read. The directory that it starts in is judged like any path
    /// ([`Permissions::judge`]).
    #[must_use]
    pub fn search_filter(&self, operation: &Operation<'_>, workspace: &Workspace) -> SearchFilter {
        let call = Subjects::of(operation, workspace);
        let rules = self.deny.iter().chain(&self.ask);
        SearchFilter {
            rules: rules
                .map(|rule| {
                    rule.searched(&call)
                        .into_iter()
                        .cloned()
                        .collect::<Vec<_>>()
                })
                .filter(|patterns| !patterns.is_empty())
                .collect(),
        }
    }

    /// The rules that can hide files from searches of a tool. Results of searches under other rules
    /// are other results: this is part of their key.
    #[must_use]
    pub fn search_rules(&self, tool: &str) -> Vec<&str> {
        let rules = self.deny.iter().chain(&self.ask);
        let mut texts: Vec<&str> = rules
            .filter(|rule| rule.is_for(tool) && rule.has_paths())
            .map(|rule| rule.text())
            .collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    }
}
