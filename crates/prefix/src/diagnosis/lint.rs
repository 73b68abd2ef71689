//! Linting: findings that will cause a prefix break, before the request is sent.

use std::ops::Range;

use cachalot_core::secret::find_credentials;
use cachalot_model::wire::MarkerTime;
use serde::Serialize;

use super::detect::has_long_key;
use super::site::text;
use super::volatile::{VolatileKind, find};
use super::{LikelyCause, Rules};
use crate::request::{MarkerPlace, Request, is_deferred};
use cachalot_prompt::Level;
use cachalot_prompt::MAX_MARKERS;
use cachalot_prompt::normal;

/// A finding: something that will prevent a prefix from being read, or a request from being accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LintFinding {
    /// The cause that a diagnosis would name.
    pub cause: LikelyCause,
    /// `tools`, `system`, `messages` or `parameters`.
    pub level: &'static str,
    /// Index of the piece within its level, from 0.
    pub index: usize,
    /// The word that is likely to change, if the finding is about one. Credentials are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
    /// The byte position of the word within the piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// True for a fault; false for information.
    pub is_fault: bool,
}

/// A part of a text that may differ in the next request, or should not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuspectText<'a> {
    /// The cause that a diagnosis would name.
    pub cause: LikelyCause,
    /// The position in bytes.
    pub offset: usize,
    /// The word; `None` for a credential, which is not shown.
    pub word: Option<&'a str>,
    /// True for a fault. If false, the text does not indicate that the word will change.
    pub is_fault: bool,
}

/// Finds words in a text that are likely to differ in the next request, and credentials: the first of each
/// cause, preferring faults.
#[must_use]
pub fn lint_text(text: &str) -> Vec<SuspectText<'_>> {
    let made_up = |range: &Range<usize>| text[range.clone()].bytes().any(|b| b.is_ascii_digit());
    let credentials: Vec<Range<usize>> =
        find_credentials(text).into_iter().filter(made_up).collect();
    let first = credentials.first().map(|range| SuspectText {
        cause: LikelyCause::Credential,
        offset: range.start,
        word: None,
        is_fault: true,
    });
    let mut found: Vec<SuspectText<'_>> = first.into_iter().collect();
    for word in find(text) {
        let range = word.range;
        let hidden = |secret: &Range<usize>| range.start < secret.end && secret.start < range.end;
        if credentials.iter().any(hidden) {
            continue;
        }
        let suspect = SuspectText {
            cause: match word.kind {
                VolatileKind::Time => LikelyCause::Timestamp,
                VolatileKind::Date => LikelyCause::Date,
                VolatileKind::Identifier => LikelyCause::Identifier,
            },
            offset: range.start,
            word: Some(&text[range]),
            is_fault: word.is_current,
        };
        match found.iter_mut().find(|other| other.cause == suspect.cause) {
            Some(other) if suspect.is_fault && !other.is_fault => *other = suspect,
            Some(_) => {}
            None => found.push(suspect),
        }
    }
    found.sort_by_key(|suspect| suspect.offset);
    found
}

/// Checks one request: its markers, its length, and the words in its tools and system text that are likely to
/// differ in the next request. Findings are in the order of the pieces; those about the whole request come
/// last.
///
/// Words and length are taken from the [normal form](cachalot_prompt::normal), which is what the provider
/// reads; offsets refer to the piece as the client wrote it.
#[must_use]
pub fn lint(request: &Request, rules: &Rules) -> Vec<LintFinding> {
    let mut findings = words(request);
    findings.extend(markers(request));
    let whole = |cause, level| LintFinding {
        cause,
        level,
        index: 0,
        word: None,
        offset: None,
        is_fault: cause != LikelyCause::BelowMinimum,
    };
    if has_long_key(&request.tail) {
        findings.push(whole(LikelyCause::CacheKeyTooLong, "parameters"));
    }
    let tokens = request.compared.prompt.bytes() / 4;
    let short = rules.minimum.is_some_and(|minimum| tokens < minimum);
    if short {
        findings.push(whole(LikelyCause::BelowMinimum, "messages"));
    } else if rules.lookback.is_some() && request.markers.is_empty() {
        findings.push(whole(LikelyCause::NoMarkers, "messages"));
    } else if rules.explicit_only && request.markers.is_empty() {
        findings.push(whole(LikelyCause::ExplicitWithoutBreakpoints, "parameters"));
    }
    findings
}

fn words(request: &Request) -> Vec<LintFinding> {
    let nodes = request.prompt.nodes();
    let read = nodes.iter().filter(|node| match node.level {
        Level::Tool => !is_deferred(&node.bytes),
        level => level != Level::Message,
    });
    let found = read.flat_map(|node| {
        let (level, index) = place(request, node.depth);
        let normal = normal::piece(request.format, node.level, &node.bytes);
        let normal = normal.and_then(|normal| String::from_utf8(normal.bytes).ok());
        let read = normal.as_deref().unwrap_or(text(node));
        let suspects = lint_text(read).into_iter();
        let findings = suspects.map(|suspect| LintFinding {
            cause: suspect.cause,
            level,
            index,
            word: suspect.word.map(str::to_owned),
            offset: written_at(text(node), read, &suspect),
            is_fault: suspect.is_fault,
        });
        findings.collect::<Vec<_>>()
    });
    found.collect()
}

/// Returns the position of a suspect of the normal form in the piece as written; `None` if it is written with
/// escapes.
fn written_at(written: &str, read: &str, suspect: &SuspectText<'_>) -> Option<usize> {
    /// Number of characters that distinguish a credential from others.
    const TELLING: usize = 12;
    let rest = read.get(suspect.offset..)?;
    let end = rest
        .char_indices()
        .nth(TELLING)
        .map_or(rest.len(), |(end, _)| end);
    written.find(suspect.word.unwrap_or(&rest[..end]))
}

/// Returns the level of a piece and its index within that level.
fn place(request: &Request, depth: u32) -> (&'static str, usize) {
    let nodes = request.prompt.nodes();
    let level = nodes
        .get(depth as usize)
        .map_or(Level::Message, |node| node.level);
    let before = nodes.iter().take(depth as usize);
    let index = before.filter(|node| node.level == level).count();
    (level.name(), index)
}

fn markers(request: &Request) -> Vec<LintFinding> {
    let mut findings = Vec::new();
    let mut find = |cause, depth| {
        let (level, index) = place(request, depth);
        findings.push(LintFinding {
            cause,
            level,
            index,
            word: None,
            offset: None,
            is_fault: true,
        });
    };
    if let Some(marker) = request.markers.get(MAX_MARKERS) {
        find(LikelyCause::TooManyMarkers, marker.node);
    }
    let mut short = false;
    for marker in &request.markers {
        if matches!(
            marker.place,
            MarkerPlace::EmptyText | MarkerPlace::Reasoning
        ) {
            find(LikelyCause::MarkerOnEmptyText, marker.node);
        }
        if short && marker.time == MarkerTime::OneHour {
            find(LikelyCause::ShortBeforeLong, marker.node);
        }
        short |= marker.time == MarkerTime::FiveMinutes;
    }
    findings
}
