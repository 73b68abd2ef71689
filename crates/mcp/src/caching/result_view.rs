//! The parts of a result that decide if it may be stored, and where a mark is spliced in.

use std::ops::Range;

use cachalot_core::json::{self, JsonError};

use crate::json_members::{members, text_value};
use crate::relay::CACHE_MARK;

/// The member of `_meta` of a result that belongs to a task.
const RELATED_TASK: &[u8] = b"io.modelcontextprotocol/related-task";
const SERVER_INFO: &[u8] = b"io.modelcontextprotocol/serverInfo";

/// The place at which the mark is spliced into a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkPlace {
    /// Nowhere: there is a mark of another proxy.
    None,
    /// After the brace of `_meta`, before its first member.
    InMeta,
    /// Between the braces of an empty `_meta`.
    InEmptyMeta,
    /// After the brace of the result, before its first member.
    BeforeMembers,
    /// Between the braces of an empty result.
    InEmptyResult,
}

/// `cacheScope` of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheScope {
    Public,
    Private,
    Unreadable,
}

/// The parts of a result.
#[derive(Debug)]
pub(super) struct ResultView<'a> {
    pub(super) is_error: bool,
    /// False if `resultType` says that the result is not the final one.
    pub(super) is_complete: bool,
    pub(super) is_task: bool,
    /// The first text of `content`.
    pub(super) first_text: Option<String>,
    /// `ttlMs`, in its spelling, and its place.
    pub(super) ttl: Option<(&'a str, Range<usize>)>,
    pub(super) scope: Option<CacheScope>,
    pub(super) next_cursor: Option<&'a str>,
    pub(super) tools: Option<&'a str>,
    /// `serverInfo` in `_meta`.
    pub(super) server_info: Option<&'a str>,
    pub(super) mark_place: MarkPlace,
    pub(super) mark_at: usize,
    /// True if a member that matters is there twice.
    pub(super) is_ambiguous: bool,
}

impl<'a> ResultView<'a> {
    /// Reads a result.
    ///
    /// # Errors
    /// If it is no JSON object.
    pub(super) fn read(result: &'a str) -> Result<Self, JsonError> {
        let mut view = Self {
            is_error: false,
            is_complete: true,
            is_task: false,
            first_text: None,
            ttl: None,
            scope: None,
            next_cursor: None,
            tools: None,
            server_info: None,
            mark_place: MarkPlace::InEmptyResult,
            mark_at: 1,
            is_ambiguous: false,
        };
        let mut meta: Option<Range<usize>> = None;
        let mut seen = Vec::new();
        members(result, |key, place| {
            let value = result.get(place.clone()).unwrap_or_default();
            view.mark_place = MarkPlace::BeforeMembers;
            let is_known = match key {
                b"isError" => {
                    view.is_error = value != "false";
                    true
                }
                b"resultType" => {
                    view.is_complete = text_value(value).as_deref() == Some("complete");
                    true
                }
                b"task" | b"taskId" => {
                    view.is_task = true;
                    false
                }
                b"content" => {
                    view.first_text = first_text(value);
                    true
                }
                b"ttlMs" => {
                    view.ttl = Some((value, place));
                    true
                }
                b"cacheScope" => {
                    view.scope = Some(match text_value(value).as_deref() {
                        Some("public") => CacheScope::Public,
                        Some("private") => CacheScope::Private,
                        _ => CacheScope::Unreadable,
                    });
                    true
                }
                b"nextCursor" => {
                    view.next_cursor = Some(value);
                    true
                }
                b"tools" => {
                    view.tools = Some(value);
                    true
                }
                b"_meta" => {
                    meta = Some(place);
                    true
                }
                _ => false,
            };
            if is_known {
                view.is_ambiguous |= seen.iter().any(|known| known == key);
                seen.push(key.to_vec());
            }
        })?;
        // White space before the brace of the result is not part of its place.
        if let Some(meta) = meta {
            let text = result.get(meta.clone()).unwrap_or_default();
            view.mark_at = meta.start + 1;
            view.mark_place = MarkPlace::InEmptyMeta;
            members(text, |key, place| {
                if view.mark_place == MarkPlace::InEmptyMeta {
                    view.mark_place = MarkPlace::InMeta;
                }
                if key == CACHE_MARK.as_bytes() {
                    view.mark_place = MarkPlace::None;
                } else if key == RELATED_TASK {
                    view.is_task = true;
                } else if key == SERVER_INFO {
                    view.server_info = text.get(place);
                }
            })?;
        }
        Ok(view)
    }

    /// Returns true if the first text looks like a failure that the server does not declare.
    pub(super) fn begins_like_an_error(&self) -> bool {
        let text = self.first_text.as_deref().unwrap_or_default().trim_start();
        ["error", "failed"].iter().any(|word| {
            text.get(..word.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(word))
        })
    }
}

/// Returns the text of the first item of `content`, if it is a text.
fn first_text(content: &str) -> Option<String> {
    let first = *json::elements(content).first()?;
    json::member(first, "text").and_then(text_value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_result() {
        let text = r#"{"content":[{"type":"text","text":"\u0045rror: no"}],"ttlMs":60000,"cacheScope":"public","_meta":{"a":1}}"#;
        let view = ResultView::read(text).unwrap();
        assert!(view.begins_like_an_error() && !view.is_error && view.is_complete);
        let (ttl, place) = view.ttl.clone().unwrap();
        assert_eq!((ttl, &text[place]), ("60000", "60000"));
        assert_eq!(view.scope, Some(CacheScope::Public));
        assert_eq!(view.mark_place, MarkPlace::InMeta);
        assert!(text[view.mark_at..].starts_with("\"a\""));
        let place = |text| ResultView::read(text).unwrap().mark_place;
        assert_eq!(place("{}"), MarkPlace::InEmptyResult);
        assert_eq!(place(r#"{"a":1}"#), MarkPlace::BeforeMembers);
        assert_eq!(place(r#"{"_meta":{}}"#), MarkPlace::InEmptyMeta);
        assert_eq!(
            place(r#"{"_meta":{"dev.cachalot/cache":{}}}"#),
            MarkPlace::None
        );
        let is = |text| ResultView::read(text).unwrap();
        assert!(is(r#"{"is\u0045rror":true}"#).is_error);
        assert!(is(r#"{"isError":1}"#).is_error);
        assert!(!is(r#"{"isError":false}"#).is_error);
        assert!(!is(r#"{"resultType":"input_required"}"#).is_complete);
        assert!(is(r#"{"task":{"taskId":"1"}}"#).is_task);
        assert!(is(r#"{"ttlMs":1,"ttlMs":2}"#).is_ambiguous);
        assert!(ResultView::read("[]").is_err());
        assert!(ResultView::read(r#"{"_meta":1}"#).is_err());
    }
}
