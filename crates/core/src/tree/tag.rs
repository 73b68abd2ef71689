//! Explicit tags: those of the core schema apply, any other is a problem.

use saphyr_parser::Tag;

use super::{Node, NodeKind, scalar};
use crate::{Problem, SourceSpan};

const CORE: &str = "tag:yaml.org,2002:";

/// The type that a tag requires of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagType {
    /// No tag: the scalar is resolved by its spelling.
    Nothing,
    /// `!`: no required type, but a scalar is text.
    NoMeaning,
    Null,
    Boolean,
    Integer,
    Float,
    Text,
    List,
    Map,
}

impl TagType {
    /// Returns the requirement of `tag`; if the tag is unknown, the problem without its place.
    pub(super) fn from_tag(tag: &Tag) -> Result<Self, Problem> {
        let full = format!("{}{}", tag.handle, tag.suffix);
        if full == "!" {
            return Ok(Self::NoMeaning);
        }
        Ok(match full.strip_prefix(CORE) {
            Some("null") => Self::Null,
            Some("bool") => Self::Boolean,
            Some("int") => Self::Integer,
            Some("float") => Self::Float,
            Some("str") => Self::Text,
            Some("seq") => Self::List,
            Some("map") => Self::Map,
            other => {
                let shown = other.map_or_else(|| full.clone(), |suffix| format!("!!{suffix}"));
                return Err(Problem::new("unknown-tag", format!("unknown tag `{shown}`"))
                    .help("remove it; known are !!str, !!int, !!float, !!bool, !!null, !!seq and !!map"));
            }
        })
    }

    /// True if a scalar with this tag is resolved by its spelling.
    pub(super) fn is_default(self) -> bool {
        self == Self::Nothing
    }

    /// Resolves the scalar `text` with this tag; `None` if it does not have the required type.
    pub(super) fn read(self, text: &str) -> Option<Result<NodeKind, scalar::TooLarge>> {
        let looks_like = scalar::resolve(text);
        match self {
            Self::Nothing => Some(looks_like),
            Self::Text | Self::NoMeaning => Some(Ok(NodeKind::Text(text.to_owned()))),
            Self::Null => matches!(looks_like, Ok(NodeKind::Null)).then_some(looks_like),
            Self::Boolean => matches!(looks_like, Ok(NodeKind::Boolean(_))).then_some(looks_like),
            Self::Integer => scalar::integer(&without_leading_zeros(text)),
            Self::Float => match looks_like {
                Ok(NodeKind::Float(_)) => Some(looks_like),
                _ => scalar::float(&without_leading_zeros(text)),
            },
            Self::List | Self::Map => None,
        }
    }

    /// The problem of a list or mapping with a tag of another type; `None` if the tag fits.
    pub(super) fn on_collection(self, node: &Node) -> Option<Problem> {
        let fits = match self {
            Self::Nothing | Self::NoMeaning => true,
            Self::List => matches!(node.kind, NodeKind::List(_)),
            Self::Map => matches!(node.kind, NodeKind::Map(_)),
            _ => false,
        };
        (!fits).then(|| self.misplaced(&node.head(), node.kind_name()))
    }

    /// Creates the problem that a value cannot have this tag.
    pub(super) fn misplaced(self, place: &SourceSpan, found: &str) -> Problem {
        Problem::new(
            "wrong-type",
            format!("tagged {}, but it is {found}", self.name()),
        )
        .at(place)
        .help("change the tag or the value")
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nothing | Self::NoMeaning => "!",
            Self::Null => "!!null",
            Self::Boolean => "!!bool",
            Self::Integer => "!!int",
            Self::Float => "!!float",
            Self::Text => "!!str",
            Self::List => "!!seq",
            Self::Map => "!!map",
        }
    }
}

/// Removes leading zeros: with an explicit tag, `010` is a number.
fn without_leading_zeros(text: &str) -> String {
    let digits = text.trim_start_matches(['-', '+']);
    let sign = &text[..text.len() - digits.len()];
    if digits.starts_with("0x") || digits.starts_with("0o") {
        return text.to_owned();
    }
    let significant = digits.trim_start_matches('0');
    let zero = if significant.starts_with(|c: char| c.is_ascii_digit()) {
        ""
    } else {
        "0"
    };
    let zero = if digits.starts_with('0') { zero } else { "" };
    format!("{sign}{zero}{significant}")
}
