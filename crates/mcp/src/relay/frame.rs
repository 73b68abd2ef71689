//! One JSON-RPC message, as bytes with the places of its parts.

mod envelope;
mod one_line;
mod places;
mod replacements;
mod scan;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::json::{JsonError, Scanner};

use self::envelope::Found;
use self::places::Places;
use self::replacements::Replacements;
use super::{CacheAccount, HttpAnswer};

/// The error of bytes that are no JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes are not UTF-8.
    #[error("not UTF-8 at byte {0}")]
    NotUtf8(usize),
    /// The bytes are not JSON.
    #[error(transparent)]
    NotJson(#[from] JsonError),
    /// The message is an array of messages, which no revision but 2025-03-26 has.
    #[error("a batch of messages, which is not supported: send each message on its own")]
    Batch,
    /// A member of the envelope is there twice, and receivers could take different ones.
    #[error("the member `{0}` is there twice")]
    Duplicate(&'static str),
    /// The message has neither a method nor a result nor an error, or several of them.
    #[error("neither a request, nor a notification, nor a response")]
    NoKind,
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A request, with an id and a method.
    Request,
    /// A notification: a method without an id.
    Notification,
    /// A response: a result or an error.
    Response,
}

/// One JSON-RPC message, as it was received. Cheap to clone. Members that are not known stay where they are.
#[derive(Debug, Clone)]
pub struct Frame {
    bytes: Bytes,
    kind: FrameKind,
    /// The decoded method.
    method: Option<Box<str>>,
    places: Places,
    http_answer: Option<Arc<HttpAnswer>>,
    cache_account: Option<Arc<CacheAccount>>,
    has_unknown_effect: bool,
}

/// Ids that one hop replaces. Each is JSON; `None` keeps the bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Renames<'a> {
    /// The id of a request or a response.
    pub id: Option<&'a str>,
    /// The progress token of a request, or of a notification of progress.
    pub progress_token: Option<&'a str>,
    /// The id of the request that `notifications/cancelled` is about.
    pub request_id: Option<&'a str>,
    /// The id of the request that opened the subscription of a notification or response.
    pub subscription_id: Option<&'a str>,
}

impl Frame {
    /// Reads the envelope of a message.
    ///
    /// # Errors
    /// If the bytes are not one JSON-RPC message.
    pub fn parse(bytes: Bytes) -> Result<Self, FrameError> {
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| FrameError::NotUtf8(error.valid_up_to()))?;
        if Scanner::new(text.as_bytes()).peek() == Some(b'[') {
            return Err(FrameError::Batch);
        }
        let mut found = Found::read(text)?;
        if let Some(name) = found.duplicate {
            return Err(FrameError::Duplicate(name));
        }
        let method: Option<Box<str>> = match found.method.clone() {
            Some(method) => Some(
                serde_json::from_str::<Cow<'_, str>>(&text[method])
                    .map_err(|_| FrameError::NoKind)?
                    .into(),
            ),
            None => None,
        };
        // Some servers write the member that a response does not have as null.
        let is_null = |place: &Option<Range<usize>>| {
            place.clone().is_some_and(|place| &text[place] == "null")
        };
        if found.result.is_some() && is_null(&found.error) {
            found.error = None;
        } else if found.error.is_some() && is_null(&found.result) {
            found.result = None;
        }
        let is_answer = found.result.is_some() || found.error.is_some();
        let kind = match (&method, &found.id, is_answer) {
            (Some(_), Some(_), false) => FrameKind::Request,
            (Some(_), None, false) => FrameKind::Notification,
            (None, _, true) if found.result.is_none() || found.error.is_none() => {
                FrameKind::Response
            }
            _ => return Err(FrameError::NoKind),
        };
        let places = found.places(kind, method.as_deref().unwrap_or_default());
        Ok(Self {
            bytes,
            kind,
            method,
            places,
            http_answer: None,
            cache_account: None,
            has_unknown_effect: false,
        })
    }

    /// Creates a response with a result.
    #[must_use]
    pub fn response(id: &str, result: &str) -> Self {
        Self::own(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ))
    }

    /// Creates a response with an error.
    #[must_use]
    pub fn error_response(id: &str, code: i64, message: &str) -> Self {
        let error = serde_json::json!({"code": code, "message": message});
        Self::own(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
    }

    /// Creates a response with an error, which is JSON.
    #[must_use]
    pub fn raw_error_response(id: &str, error: &str) -> Self {
        Self::own(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
    }

    /// Creates a request. `params` is JSON.
    #[must_use]
    pub fn request(id: &str, method: &str, params: &str) -> Self {
        let method = serde_json::Value::from(method);
        Self::own(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#
        ))
    }

    /// Creates a notification. `params` is JSON.
    #[must_use]
    pub fn notification(method: &str, params: &str) -> Self {
        let method = serde_json::Value::from(method);
        Self::own(format!(
            r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#
        ))
    }

    /// Creates a response from bytes whose places are known: for answers that were parsed before they were stored. The
    /// places must be those of the members `id` and `result`.
    pub(crate) fn known_response(bytes: Bytes, id: Range<usize>, result: Range<usize>) -> Self {
        Self {
            bytes,
            kind: FrameKind::Response,
            method: None,
            places: Places {
                id: Some(id),
                result: Some(result),
                ..Places::default()
            },
            http_answer: None,
            cache_account: None,
            has_unknown_effect: false,
        }
    }

    /// The places of the id and of the result of a response that has both.
    pub(crate) fn response_places(&self) -> Option<(Range<usize>, Range<usize>)> {
        Some((self.places.id.clone()?, self.places.result.clone()?))
    }

    /// Reads a message that this process has written. The parts are JSON by the contract of the constructors; a part
    /// that is not leaves a notification without a meaning, which no receiver acts on.
    fn own(text: String) -> Self {
        Self::parse(text.into()).unwrap_or_else(|_| Self {
            bytes: Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/none"}"#),
            kind: FrameKind::Notification,
            method: Some("notifications/none".into()),
            places: Places::default(),
            http_answer: None,
            cache_account: None,
            has_unknown_effect: false,
        })
    }

    /// Attaches the HTTP response that the message arrived in, so that an HTTP client gets its status and headers.
    #[must_use]
    pub fn with_http_answer(mut self, answer: HttpAnswer) -> Self {
        self.http_answer = Some(Arc::new(answer));
        self
    }

    /// The HTTP response that the message arrived in, if its status or headers matter to the client.
    #[must_use]
    pub fn http_answer(&self) -> Option<&HttpAnswer> {
        self.http_answer.as_deref()
    }

    /// Marks the response to a request that the server may still work on: the connection to it broke.
    #[must_use]
    pub fn with_unknown_effect(mut self) -> Self {
        self.has_unknown_effect = true;
        self
    }

    /// True if the server may still work on the request that this responds to.
    #[must_use]
    pub fn has_unknown_effect(&self) -> bool {
        self.has_unknown_effect
    }

    /// Attaches the account of a cache, for the line that is printed of the call.
    #[must_use]
    pub(crate) fn with_cache_account(mut self, account: CacheAccount) -> Self {
        self.cache_account = Some(Arc::new(account));
        self
    }

    /// The account of a cache that did not answer the call.
    #[must_use]
    pub fn cache_account(&self) -> Option<&Arc<CacheAccount>> {
        self.cache_account.as_ref()
    }

    /// The bytes of the message.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The kind of the message.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The method of a request or notification, decoded; empty for a response.
    #[must_use]
    pub fn method(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }

    /// The id, in its spelling.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.part(&self.places.id)
    }

    /// The parameters, in their spelling.
    #[must_use]
    pub fn params(&self) -> Option<&str> {
        self.part(&self.places.params)
    }

    /// The result of a response, in its spelling.
    #[must_use]
    pub fn result(&self) -> Option<&str> {
        self.part(&self.places.result)
    }

    /// The error of a response, in its spelling.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.part(&self.places.error)
    }

    /// The progress token of a request, or of a notification of progress, in its spelling.
    #[must_use]
    pub fn progress_token(&self) -> Option<&str> {
        self.part(&self.places.progress_token)
    }

    /// The code of the error of a response; `None` if it is no integer.
    #[must_use]
    pub fn error_code(&self) -> Option<i64> {
        let code = self.member_place(self.places.error.clone()?, "code");
        self.part(&code)?.parse().ok()
    }

    /// The id of the request that `notifications/cancelled` is about, in its spelling.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.part(&self.places.request_id)
    }

    /// The id of the request that opened the subscription of the message, in its spelling.
    #[must_use]
    pub fn subscription_id(&self) -> Option<&str> {
        self.part(&self.places.subscription_id)
    }

    /// The protocol revision in `_meta` of the parameters, in its spelling. Only revisions without sessions have it.
    #[must_use]
    pub fn protocol_version(&self) -> Option<&str> {
        self.part(&self.places.protocol_version)
    }

    /// Returns the message with another id, and with another progress token where it has one. Everything else keeps
    /// its bytes. Both are JSON.
    #[must_use]
    pub fn with_ids(&self, id: Option<&str>, progress_token: Option<&str>) -> Self {
        self.renamed(Renames {
            id,
            progress_token,
            ..Renames::default()
        })
    }

    /// Returns the message with other ids, where it has them. Everything else keeps its bytes.
    #[must_use]
    pub fn renamed(&self, renames: Renames<'_>) -> Self {
        self.clone().into_renamed(renames)
    }

    /// Turns the message into one with other ids, where it has them. A large message that nothing else refers to is not
    /// copied.
    #[must_use]
    pub fn into_renamed(self, renames: Renames<'_>) -> Self {
        let places = &self.places;
        let pairs = [
            (&places.id, renames.id),
            (&places.progress_token, renames.progress_token),
            (&places.request_id, renames.request_id),
            (&places.subscription_id, renames.subscription_id),
        ];
        let pairs = pairs.into_iter();
        let replacements = pairs.filter_map(|(place, new)| Some((place.clone()?, new?)));
        let replacements = replacements.collect();
        self.replaced(replacements)
    }

    /// Turns the message into one with other bytes at places that do not overlap. The method and the kind stay the same.
    pub(super) fn replaced(self, replacements: Vec<(Range<usize>, &str)>) -> Self {
        let Some(replacements) = Replacements::new(&self.bytes, replacements) else {
            return self;
        };
        Self {
            places: self.places.map(|place| replacements.moved(place)),
            bytes: replacements.apply(self.bytes),
            ..self
        }
    }

    /// Returns the place of a member of the parameters; `None` if there is none or it is there twice.
    pub(super) fn param_place(&self, member: &str) -> Option<Range<usize>> {
        self.member_place(self.places.params.clone()?, member)
    }

    /// Returns the place of a member of the object at a place; `None` if there is none or it is there twice.
    pub(super) fn member_place(&self, object: Range<usize>, member: &str) -> Option<Range<usize>> {
        let place = scan::member(&self.bytes[object.clone()], member)?;
        Some(object.start + place.start..object.start + place.end)
    }

    /// Returns the place of the result.
    pub(super) fn result_place(&self) -> Option<Range<usize>> {
        self.places.result.clone()
    }

    /// Returns a parameter, in its spelling; `None` if there is none or it is there twice.
    #[must_use]
    pub fn param(&self, member: &str) -> Option<&str> {
        self.part(&self.param_place(member))
    }

    /// Returns a parameter that is a string, decoded; `None` if it is none or is there twice.
    #[must_use]
    pub fn text_param(&self, member: &str) -> Option<String> {
        serde_json::from_str(self.param(member)?).ok()
    }

    /// Returns a member of `_meta` of the parameters, in its spelling; `None` if there is none or it is there twice.
    #[must_use]
    pub fn params_meta(&self, member: &str) -> Option<&str> {
        let meta = self.param_place("_meta")?;
        self.part(&self.member_place(meta, member))
    }

    /// Returns a member of the result, in its spelling; `None` if there is none or it is there twice.
    #[must_use]
    pub fn result_member(&self, member: &str) -> Option<&str> {
        self.part(&self.member_place(self.places.result.clone()?, member))
    }

    /// Returns a member of `_meta` of the result, in its spelling; `None` if there is none or it is there twice.
    #[must_use]
    pub fn result_meta(&self, member: &str) -> Option<&str> {
        let meta = self.member_place(self.places.result.clone()?, "_meta")?;
        self.part(&self.member_place(meta, member))
    }

    /// Returns the message on one line: white space that ends a line becomes a space. A line end within a string, which
    /// is no JSON but which some readers accept, becomes its escape.
    #[must_use]
    pub fn on_one_line(&self) -> Bytes {
        one_line::on_one_line(&self.bytes)
    }

    fn part(&self, range: &Option<Range<usize>>) -> Option<&str> {
        // Checked by `parse`.
        std::str::from_utf8(&self.bytes[range.clone()?]).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn ids_and_progress_tokens_are_all_that_changes() {
        let text = r#" {"x":1.10,"params":{"a":123456789012345678901,"_meta":{"progressToken" : "p","y":null}},"method":"tools\/call","id": 7 }"#;
        let request = frame(text);
        assert_eq!(request.kind(), FrameKind::Request);
        assert_eq!(request.method(), "tools/call");
        assert_eq!(request.id(), Some("7"));
        assert_eq!(request.progress_token(), Some("\"p\""));
        let renamed = request.with_ids(Some("\"next\""), Some("9"));
        assert_eq!(renamed.id(), Some("\"next\""));
        let back = renamed.with_ids(Some("7"), Some("\"p\""));
        assert_eq!(back.bytes(), request.bytes());
        assert_eq!(back.bytes(), text.as_bytes());
    }

    #[test]
    fn kinds_of_messages() {
        assert_eq!(
            frame(
                r#"{"method":"notifications/progress","params":{"progressToken":3,"progress":1}}"#
            )
            .progress_token(),
            Some("3")
        );
        let answer = frame(r#"{"id":1,"result":{},"error":null}"#);
        assert!(answer.error().is_none() && answer.result().is_some());
        let refusal = frame(r#"{"id":1,"result":null,"error":{"code":1}}"#);
        assert!(refusal.result().is_none() && refusal.error().is_some());
        assert_eq!(
            frame(r#"{"id":null,"error":{"code":1}}"#).kind(),
            FrameKind::Response
        );
        for text in [
            "[]",
            "{}",
            "",
            "1",
            r#"{"id":1,"id":2,"method":"a"}"#,
            r#"{"id":1,"result":1,"error":1}"#,
            // Receivers decode names, so an escape must not hide a member or its duplicate.
            r#"{"id":1,"method":"a","\u006dethod":"b"}"#,
            r#"{"id":1,"result":1,"\u0065rror":1}"#,
            r#"{"id":1,"method":"a","params":{"_meta":{"progressToken":1,"progress\u0054oken":2}}}"#,
            r#"{"id":1,"method":"a","params":{"_meta":{},"\u005fmeta":{}}}"#,
        ] {
            assert!(
                Frame::parse(Bytes::copy_from_slice(text.as_bytes())).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn escaped_names_are_those_of_the_protocol() {
        let request = frame(
            r#"{"\u0069d":1,"\u006dethod":"tools/call","params":{"\u005fmeta":{"progress\u0054oken":5}}}"#,
        );
        assert_eq!(request.kind(), FrameKind::Request);
        assert_eq!(request.method(), "tools/call");
        assert_eq!(request.progress_token(), Some("5"));
        // A name that cannot be decoded is none of the protocol's, and passes.
        let odd = r#"{"\ud800":1,"id":1,"method":"a"}"#;
        assert_eq!(frame(odd).bytes(), odd.as_bytes());
    }

    #[test]
    fn cancellations_and_subscriptions_are_renamed() {
        let cancelled =
            frame(r#"{"method":"notifications/cancelled","params":{"requestId": 5,"reason":"x"}}"#);
        assert_eq!(cancelled.request_id(), Some("5"));
        let renamed = cancelled.renamed(Renames {
            request_id: Some("\"abc\""),
            ..Renames::default()
        });
        assert_eq!(
            renamed.bytes(),
            r#"{"method":"notifications/cancelled","params":{"requestId": "abc","reason":"x"}}"#
        );
        let ended = frame(
            r#"{"id":5,"result":{"a":1,"_meta":{"io.modelcontextprotocol/subscriptionId":5}}}"#,
        );
        let renamed = ended.renamed(Renames {
            id: Some("77"),
            subscription_id: Some("77"),
            ..Renames::default()
        });
        assert_eq!(renamed.subscription_id(), Some("77"));
        assert_eq!(
            renamed.result(),
            Some(r#"{"a":1,"_meta":{"io.modelcontextprotocol/subscriptionId":77}}"#)
        );
        // The member of another method is none of ours.
        let other = frame(r#"{"method":"vendor/x","params":{"requestId":5,"progressToken":1}}"#);
        assert_eq!((other.request_id(), other.progress_token()), (None, None));
    }

    proptest::proptest! {
        #[test]
        fn renaming_is_what_parsing_the_renamed_message_finds(
            (id, token, other) in ("[1-9][0-9]{0,24}|\"[a-z]{0,9}\"", "[1-9][0-9]{0,8}|\"[a-z]{0,9}\"", "[ -~]{0,30}"),
            shape in 0..6_usize,
            spaces in "[ \n\t]{0,3}",
        ) {
            let other = serde_json::Value::from(other);
            let text = match shape {
                0 => format!(r#"{{"x":{other},{spaces}"id":{spaces}7,"method":"a","params":{{"o":{other},"_meta":{{"progressToken":{spaces}1,"z":[{other}]}}}}}}"#),
                1 => format!(r#"{{"params":{{"_meta":{{"progressToken":1}}{spaces}}},"method":{other},"id":7{spaces}}}"#),
                2 => format!(r#"{{"method":"notifications/progress","params":{{"progressToken":1,"m":{other}}}}}"#),
                3 => format!(r#"{{"result":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":7}},"o":{other}}},"id":7}}"#),
                4 => format!(r#"{{"error":{{"code":1,"data":{other}}},"id":{spaces}7}}"#),
                _ => format!(r#"{{"method":"notifications/cancelled","params":{{{spaces}"requestId":7,"o":{other}}}}}"#),
            };
            let before = frame(&text);
            let renamed = before.renamed(Renames {
                id: Some(&id),
                progress_token: Some(&token),
                request_id: Some(&id),
                subscription_id: Some(&id),
            });
            let again = Frame::parse(renamed.bytes().clone()).unwrap();
            proptest::prop_assert_eq!(again.kind(), before.kind());
            proptest::prop_assert_eq!(again.method(), before.method());
            for part in [Frame::id, Frame::params, Frame::result, Frame::error, Frame::progress_token, Frame::request_id, Frame::subscription_id] {
                proptest::prop_assert_eq!(part(&again), part(&renamed));
            }
            let back = again.renamed(Renames {
                id: Some("7"),
                progress_token: Some("1"),
                request_id: Some("7"),
                subscription_id: Some("7"),
            });
            proptest::prop_assert_eq!(back.bytes(), text.as_bytes());
        }
    }
}
