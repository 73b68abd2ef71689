//! Generated parts of a document.

use std::io;

/// The end of a part.
const END: &str = "<!-- end -->";

/// The reason why a document cannot be written.
#[derive(Debug)]
pub(crate) enum DocumentError {
    /// It cannot be read or written.
    Io(io::Error),
    /// It has no part of this name.
    NoPart(String),
    /// A part is not what the code declares.
    Stale,
}

impl From<io::Error> for DocumentError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl std::fmt::Display for DocumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NoPart(name) => write!(
                f,
                "there is no part between `{}` and `{END}`",
                beginning(name)
            ),
            Self::Stale => f.write_str("run `cargo run -p cachalot-docs`"),
        }
    }
}

fn beginning(name: &str) -> String {
    format!("<!-- generated: {name} -->")
}

/// Replaces the part that stands between `<!-- generated: NAME -->` and `<!-- end -->`, each on a line of its own.
/// `part` returns the new text for the old one.
///
/// # Errors
/// There is no such part.
pub(crate) fn replace(
    text: &str,
    name: &str,
    part: impl FnOnce(&str) -> String,
) -> Result<String, DocumentError> {
    let beginning = format!("{}\n", beginning(name));
    let missing = || DocumentError::NoPart(name.to_owned());
    let (before, rest) = text.split_once(&beginning).ok_or_else(missing)?;
    let (old, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{beginning}\n{}\n{END}{after}", part(old)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_is_replaced() {
        let text = "a\n<!-- generated: one -->\n\nold\n\n<!-- end -->\nb\n";
        let new = replace(text, "one", |old| {
            assert_eq!(old, "\nold\n\n");
            "new\n".to_owned()
        });
        assert_eq!(
            new.unwrap(),
            "a\n<!-- generated: one -->\n\nnew\n\n<!-- end -->\nb\n"
        );
        let missing = replace(text, "two", str::to_owned);
        assert!(matches!(missing, Err(DocumentError::NoPart(name)) if name == "two"));
    }
}
