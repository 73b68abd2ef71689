//! The HTTP response that a message arrived in.

use bytes::Bytes;

/// The status, headers and body of an HTTP response that an HTTP client has to see: a refusal, or a request to log in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status code.
    pub status: u16,
    /// Headers that matter to the client, such as `WWW-Authenticate`, with lower-case names.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, if it is not the message itself.
    pub body: Option<Bytes>,
}
