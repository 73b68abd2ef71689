//! Selection of tools by patterns of their names.

use globset::{Glob, GlobSet, GlobSetBuilder};

/// Patterns of names. A pattern with a leading `!` excludes the names that it matches. The others include
/// names; if there are none, all names are included.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    patterns: Vec<String>,
    taken: GlobSet,
    left_out: GlobSet,
}

impl Filter {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// The first invalid pattern, and the reason.
    pub fn new(patterns: &[impl AsRef<str>]) -> Result<Self, (String, String)> {
        let (mut taken, mut left_out) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let fault = |error: globset::Error| (pattern.to_owned(), error.kind().to_string());
            match pattern.strip_prefix('!') {
                Some(pattern) => left_out.add(Glob::new(pattern).map_err(fault)?),
                None => taken.add(Glob::new(pattern).map_err(fault)?),
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
            taken: build(&taken)?,
            left_out: build(&left_out)?,
        })
    }

    /// True if something with these names is selected.
    #[must_use]
    pub fn takes(&self, names: &[&str]) -> bool {
        let meets = |set: &GlobSet| names.iter().any(|name| set.is_match(name));
        (self.taken.is_empty() || meets(&self.taken)) && !meets(&self.left_out)
    }

    /// The patterns.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl Eq for Filter {}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn patterns_take_and_leave_out() {
        let takes = |patterns: &[&str], name: &str| Filter::new(patterns).unwrap().takes(&[name]);
        assert!(takes(&[], "anything"));
        assert!(takes(&["read_*", "grep"], "read_file"));
        assert!(!takes(&["read_*", "grep"], "write_file"));
        assert!(takes(&["!write_*"], "read_file"));
        assert!(!takes(&["!write_*"], "write_file"));
        assert!(!takes(&["*", "!write_*"], "write_file"));
        assert!(Filter::new(&["long"]).unwrap().takes(&["other", "long"]));
        assert_eq!(Filter::new(&["a["]).unwrap_err().0, "a[");
    }
}
