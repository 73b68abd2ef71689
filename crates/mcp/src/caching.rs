//! The cache of the MCP proxy: an [`Upstream`](crate::relay::Upstream) that answers some requests from the engine, and
//! passes all others on to the server.
//!
//! Time to live, single-flight, validation, isolation and accounting are the engine's. What may be stored is the
//! policy's ([`crate::proxy_policy`]). This module knows the messages: what a request depends on, which answers may be
//! stored, and what invalidates them.

mod client_roots;
mod command_words;
mod credentials;
mod definitions;
mod differences;
mod identity;
mod in_flight;
mod invalidation;
mod judgment;
mod layer;
mod mark;
mod methods;
mod open_tasks;
mod pass;
mod reasons;
mod recorded_call;
mod request_key;
mod request_parts;
mod result_view;
mod run;
mod server_info;
mod session_order;
mod sessions;
mod shared;
mod stored_response;
mod upstream;
mod witness_plan;

pub use differences::plain_differences;
pub use identity::ServerIdentity;
pub use layer::{CachingLayer, CachingOptions};
pub use reasons::{is_of_another_call, plain_reason};
pub use recorded_call::{is_of_one_session, may_have_changed_something, proxy_call};
pub use upstream::CachingUpstream;

use crate::relay::Frame;

/// Returns the reason why the response to a call of a tool would not be stored; `None` if it would be.
pub(crate) fn refusal_of_response(response: &Frame) -> Option<String> {
    let rule = judgment::Rule::Tool {
        allow_error_text: false,
    };
    let judgment = judgment::Judgment::new(response, &rule, u64::MAX);
    judgment.storable.err().map(|reason| reason.to_string())
}
