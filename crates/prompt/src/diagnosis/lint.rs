//! What will break a prefix, told before it is sent.

use cachalot_model::wire::MarkerTime;
use serde::Serialize;

use super::detect::{has_long_key, text};
use super::volatile::{Volatile, find};
use super::{LikelyCause, Rules};
use crate::chain::Level;
use crate::foreign::{MarkerPlace, Request};
use crate::plan::MOST_MARKS;

/// Something that will keep a prefix from being read, or a request from being taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it would be called in a diagnosis.
    pub cause: LikelyCause,
    /// `tools`, `system`, `messages` or `parameters`.
    pub level: &'static str,
    /// Which piece of its level, from 0.
    pub index: usize,
    /// The word that is likely to change, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
    /// Where that stands, in bytes of the piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
}

/// The words of a text that are likely to differ the next time, with the places of the first of each
/// kind.
#[must_use]
pub fn lint_text(text: &str) -> Vec<(LikelyCause, usize, &str)> {
    let mut found: Vec<(LikelyCause, usize, &str)> = Vec::new();
    for (kind, range) in find(text) {
        let cause = match kind {
            Volatile::Time => LikelyCause::Timestamp,
            Volatile::Date => LikelyCause::Date,
            Volatile::Identifier => LikelyCause::Identifier,
        };
        if found.iter().all(|(other, ..)| *other != cause) {
            found.push((cause, range.start, &text[range]));
        }
    }
    found
}

/// Checks one request: its markers, its length, and the words in its tools and system text that are
/// likely to differ the next time. In the order of the pieces; what is about the whole stands last.
#[must_use]
pub fn lint(request: &Request, rules: &Rules) -> Vec<Finding> {
    let mut findings = words(request);
    findings.extend(markers(request));
    let whole = |cause, level| Finding {
        cause,
        level,
        index: 0,
        word: None,
        offset: None,
    };
    if has_long_key(&request.tail) {
        findings.push(whole(LikelyCause::CacheKeyTooLong, "parameters"));
    }
    let tokens = request.prompt.bytes() / 4;
    let short = rules.minimum.is_some_and(|minimum| tokens < minimum);
    if short {
        findings.push(whole(LikelyCause::BelowMinimum, "messages"));
    } else if rules.lookback.is_some() && request.markers.is_empty() {
        findings.push(whole(LikelyCause::NoMarkers, "messages"));
    }
    findings
}

fn words(request: &Request) -> Vec<Finding> {
    let nodes = request.prompt.nodes();
    let frozen = nodes.iter().filter(|node| node.level != Level::Message);
    let found = frozen.flat_map(|node| {
        let (level, index) = place(request, node.depth);
        lint_text(text(node))
            .into_iter()
            .map(move |(cause, at, word)| Finding {
                cause,
                level,
                index,
                word: Some(word.to_owned()),
                offset: Some(at),
            })
    });
    found.collect()
}

/// The level of a piece, and which of its level it is.
fn place(request: &Request, depth: u32) -> (&'static str, usize) {
    let nodes = request.prompt.nodes();
    let level = nodes
        .get(depth as usize)
        .map_or(Level::Message, |node| node.level);
    let before = nodes.iter().take(depth as usize);
    let index = before.filter(|node| node.level == level).count();
    let level = match level {
        Level::Tool => "tools",
        Level::System => "system",
        Level::Message => "messages",
    };
    (level, index)
}

fn markers(request: &Request) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |cause, depth| {
        let (level, index) = place(request, depth);
        findings.push(Finding {
            cause,
            level,
            index,
            word: None,
            offset: None,
        });
    };
    if let Some(marker) = request.markers.get(MOST_MARKS) {
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
