//! Selection of tools by patterns of their names.

use cachalot_core::Problem;
use cachalot_core::config::{Custom, ParameterKind as Kind, SettingValue};
use cachalot_core::tree::Node;
use globset::{Glob, GlobSet, GlobSetBuilder};

/// Patterns of names. A pattern with a leading `!` excludes the names that it matches. The others include
/// names; if there are none, all names are included.
#[derive(Debug, Clone, Default)]
pub struct NameFilter {
    patterns: Vec<String>,
    included: GlobSet,
    excluded: GlobSet,
}

impl NameFilter {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// The first invalid pattern, and the reason.
    pub fn new(patterns: &[impl AsRef<str>]) -> Result<Self, (String, String)> {
        let (mut included, mut excluded) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let fault = |error: globset::Error| (pattern.to_owned(), error.kind().to_string());
            match pattern.strip_prefix('!') {
                Some(pattern) => excluded.add(Glob::new(pattern).map_err(fault)?),
                None => included.add(Glob::new(pattern).map_err(fault)?),
            };
        }
        let build = |set: &GlobSetBuilder| {
            set.build()
                .map_err(|error| (String::new(), error.kind().to_string()))
        };
        Ok(Self {
            patterns: patterns
                .iter()
                .map(|pattern| pattern.as_ref().to_owned())
                .collect(),
            included: build(&included)?,
            excluded: build(&excluded)?,
        })
    }

    /// True if something with these names is selected.
    #[must_use]
    pub fn selects(&self, names: &[&str]) -> bool {
        let meets = |set: &GlobSet| names.iter().any(|name| set.is_match(name));
        (self.included.is_empty() || meets(&self.included)) && !meets(&self.excluded)
    }

    /// The patterns.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }
}

impl SettingValue for NameFilter {
    const KIND: Kind = Kind::Custom(&PATTERNS);

    fn from_node(node: &Node, _: Kind, _: &mut Vec<Problem>) -> Option<Self> {
        let patterns: Vec<&str> = node.as_list()?.iter().filter_map(Node::as_text).collect();
        Self::new(&patterns).ok()
    }
}

/// A list of patterns of names.
static PATTERNS: Custom = Custom {
    schema: Some(|| Kind::Texts.schema(false)),
    check: |entry, problems| {
        Kind::Texts.check(entry, problems);
        let patterns = entry.value.as_list().unwrap_or_default().iter();
        let patterns: Vec<&str> = patterns.filter_map(Node::as_text).collect();
        problems.extend(check_patterns(&patterns, &entry.value, &entry.key));
    },
};

/// Returns the problem of the first invalid pattern in `key`.
#[must_use]
pub fn check_patterns(patterns: &[&str], node: &Node, key: &str) -> Option<Problem> {
    let (pattern, why) = NameFilter::new(patterns).err()?;
    let message = format!("`{pattern}` in `{key}` is no pattern: {why}");
    let problem = Problem::new("bad-pattern", message).at(&node.head());
    Some(problem.help("`*` stands for any characters, `?` for one, `{a,b}` for either"))
}

impl PartialEq for NameFilter {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl Eq for NameFilter {}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn patterns_include_and_exclude_names() {
        let selects =
            |patterns: &[&str], name: &str| NameFilter::new(patterns).unwrap().selects(&[name]);
        assert!(selects(&[], "anything"));
        assert!(selects(&["read_*", "grep"], "read_file"));
        assert!(!selects(&["read_*", "grep"], "write_file"));
        assert!(selects(&["!write_*"], "read_file"));
        assert!(!selects(&["!write_*"], "write_file"));
        assert!(!selects(&["*", "!write_*"], "write_file"));
        assert!(
            NameFilter::new(&["long"])
                .unwrap()
                .selects(&["other", "long"])
        );
        assert_eq!(NameFilter::new(&["a["]).unwrap_err().0, "a[");
    }
}
