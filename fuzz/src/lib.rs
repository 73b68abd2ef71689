//! Fuzz targets: parsers of external input, each with the properties that hold for every input.
//!
//! `scripts/fuzz` runs them with libFuzzer, the tests of this crate with the seeds in `corpus/`.

pub mod canonical_json;
pub mod cassette;
pub mod command;
pub mod event_stream;
pub mod foreign_request;
pub mod gateway_answer;
pub mod gateway_pieces;
pub mod gateway_recorded;
pub mod gateway_request;
pub mod hook_output;
pub mod hook_settings;
pub mod inline_code;
pub mod mcp_frame;
pub mod mcp_messages;
pub mod patch;
pub mod prepare;
pub mod sse;
pub mod stream;
pub mod transcripts;
pub mod yaml_tree;

/// A target: panics if a property does not hold for the input.
pub type Target = fn(&[u8]);

/// All targets, by name.
#[rustfmt::skip]
pub const TARGETS: [(&str, Target); 24] = [
    ("anthropic_stream", stream::anthropic_stream),
    ("canonical_json", canonical_json::check),
    ("cassette", cassette::check),
    ("chat_stream", stream::chat_stream),
    ("command", command::check),
    ("event_stream", event_stream::check),
    ("foreign_request", foreign_request::check),
    ("gateway_answer", gateway_answer::check),
    ("gateway_pieces", gateway_pieces::check),
    ("gateway_recorded", gateway_recorded::check),
    ("gateway_request", gateway_request::check),
    ("gemini_stream", stream::gemini_stream),
    ("hook_output", hook_output::check),
    ("hook_settings", hook_settings::check),
    ("inline_code", inline_code::check),
    ("interactions_stream", stream::interactions_stream),
    ("mcp_frame", mcp_frame::check),
    ("mcp_messages", mcp_messages::check),
    ("patch", patch::check),
    ("prepare", prepare::check),
    ("responses_stream", stream::responses_stream),
    ("sse", sse::check),
    ("transcripts", transcripts::check),
    ("yaml_tree", yaml_tree::check),
];

/// Returns the input as text: its beginning up to the first byte that is not UTF-8.
fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}
