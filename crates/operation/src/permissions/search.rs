//! The files that a search must not read.

use std::path::Path;

use super::analyzed_request::{AnalyzedRequest, relative_to_root};
use super::pattern::Pattern;
use super::{AccessRequest, Permissions};
use crate::Workspace;

/// The files that a search skips because a deny or ask rule matches them.
#[derive(Debug, Clone, Default)]
pub struct SearchFilter {
    /// A file is skipped if all patterns of one of these lists match it.
    rules: Vec<Vec<Pattern>>,
}

impl SearchFilter {
    /// True if a file or directory below the searched one is skipped. `path` must be absolute and
    /// without links.
    #[must_use]
    pub fn hides(&self, path: &Path, workspace: &Workspace) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let (relative_path, absolute) = (
            relative_to_root(workspace.root(), path),
            path.to_string_lossy(),
        );
        let matches = |pattern: &Pattern| {
            pattern.matches_any_case(&relative_path) || pattern.matches_any_case(&absolute)
        };
        self.rules
            .iter()
            .any(|patterns| patterns.iter().all(matches))
    }
}

impl Permissions {
    /// Returns the files that a search must not read. The start directory of the search is judged like
    /// any other path ([`Permissions::judge`]).
    #[must_use]
    pub fn search_filter(
        &self,
        request: &AccessRequest<'_>,
        workspace: &Workspace,
    ) -> SearchFilter {
        let call = AnalyzedRequest::new(request, workspace);
        let rules = self.deny.iter().chain(&self.ask);
        SearchFilter {
            rules: rules
                .map(|rule| {
                    rule.search_patterns(&call)
                        .into_iter()
                        .cloned()
                        .collect::<Vec<_>>()
                })
                .filter(|patterns| !patterns.is_empty())
                .collect(),
        }
    }

    /// Returns the files that no program which this tool starts may read: those of deny rules with a path, whatever else
    /// they say.
    #[must_use]
    pub fn denied_files(&self, tool: &str) -> SearchFilter {
        let rules = self.deny.iter().filter(|rule| rule.applies_to(tool));
        let patterns = rules.map(|rule| rule.path_patterns().cloned().collect::<Vec<_>>());
        SearchFilter {
            rules: patterns.filter(|patterns| !patterns.is_empty()).collect(),
        }
    }

    /// The rules that may hide files from searches of a tool. They affect the result of a search and are
    /// therefore part of its cache key.
    #[must_use]
    pub fn search_rules(&self, tool: &str) -> Vec<&str> {
        let rules = self.deny.iter().chain(&self.ask);
        let mut texts: Vec<&str> = rules
            .filter(|rule| rule.applies_to(tool) && rule.has_path_argument())
            .map(|rule| rule.text())
            .collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    }
}
