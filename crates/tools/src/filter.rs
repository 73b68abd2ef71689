//! Selection of tools by patterns of their names.

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
