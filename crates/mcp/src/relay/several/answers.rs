//! Requests of the proxy to one server.

use cachalot_core::json::{OBJECT, Scanner};
use tokio::sync::mpsc;

use super::message_queue::MessageQueue;
use crate::relay::program::CONNECTION_CLOSED;
use crate::relay::{Frame, FrameKind, RequestContext};

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 1_000;

/// A server that is asked.
pub(super) struct Asked<'a> {
    /// Its number.
    pub(super) member: usize,
    pub(super) queue: &'a MessageQueue,
    /// Takes its messages that are no response, with its number.
    pub(super) others: &'a mpsc::UnboundedSender<(usize, Frame)>,
}

impl Asked<'_> {
    /// Sends a request and returns its response.
    pub(super) async fn response(&self, request: Frame, context: RequestContext) -> Frame {
        let id = request.id().unwrap_or("null").to_owned();
        if let Ok(mut exchange) = self.queue.request(request, context).await {
            while let Some(message) = exchange.next().await {
                if message.kind() == FrameKind::Response {
                    return message;
                }
                // An error means that the response is not awaited, either.
                let _ = self.others.send((self.member, message));
            }
        }
        Frame::error_response(&id, CONNECTION_CLOSED, "the server did not answer")
    }

    /// Returns the pages of a list; the last one may be an error.
    pub(super) async fn pages(
        &self,
        method: &str,
        request: &Frame,
        context: &RequestContext,
    ) -> Vec<Frame> {
        let id = request.id().unwrap_or("null");
        // The circumstances of the client's request, such as its revision, hold for this one.
        let meta = request.param("_meta").map(without_progress_token);
        let mut cursor: Option<String> = None;
        let mut pages = Vec::new();
        while pages.len() < MAX_PAGES {
            let mut params = Vec::new();
            params.extend(cursor.take().map(|cursor| format!(r#""cursor":{cursor}"#)));
            params.extend(meta.as_ref().map(|meta| format!(r#""_meta":{meta}"#)));
            let asked = Frame::request(id, method, &format!("{{{}}}", params.join(",")));
            let page = self.response(asked, context.clone()).await;
            let next = page.result_member("nextCursor");
            cursor = next.filter(|next| *next != "null").map(str::to_owned);
            pages.push(page);
            if cursor.is_none() {
                break;
            }
        }
        pages
    }
}

/// Returns `_meta` without the token by which progress is reported: that of several requests is not that of one. The
/// other members keep their bytes.
fn without_progress_token(meta: &str) -> String {
    let mut kept = Vec::new();
    let mut scanner = Scanner::new(meta.as_bytes());
    let mut unescaped = Vec::new();
    let mut read = || {
        let mut more = scanner.open(&OBJECT)?;
        while more {
            scanner.peek();
            let start = scanner.at();
            let is_token = scanner.key(&mut unescaped)? == b"progressToken";
            scanner.value()?;
            if !is_token {
                kept.push(&meta[start..scanner.at()]);
            }
            more = scanner.more(&OBJECT)?;
        }
        Ok::<_, cachalot_core::json::JsonError>(())
    };
    match read() {
        Ok(()) => format!("{{{}}}", kept.join(",")),
        // Something else than an object has no token.
        Err(_) => meta.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_progress_token_is_removed() {
        for (meta, expected) in [
            (r#"{"a": 1.10,"b":"\u0041"}"#, r#"{"a": 1.10,"b":"\u0041"}"#),
            (r#"{"progressToken":1}"#, "{}"),
            (
                r#"{ "a":[1, 2], "progress\u0054oken" : "x" ,"b":{"progressToken":1}}"#,
                r#"{"a":[1, 2],"b":{"progressToken":1}}"#,
            ),
            ("7", "7"),
        ] {
            assert_eq!(without_progress_token(meta), expected, "{meta}");
        }
    }
}
