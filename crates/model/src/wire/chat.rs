//! OpenAI Chat Completions, as implemented by OpenAI, Azure, OpenRouter, LiteLLM, Ollama, vLLM, DeepSeek,
//! xAI, Groq, Mistral and many others.
//!
//! Differences between the servers:
//!
//! - The output limit is `max_completion_tokens` for OpenAI's own models and `max_tokens` for all others; a
//!   field of either name in [`Parameters::extra`](crate::Parameters::extra) replaces it.
//! - The format has no flag for a failed tool, so the text of its result begins with `Error: `.
//! - Tool results are text. Their images go into a user message after the results, each with a line that
//!   names the result it belongs to; the result contains a reference in place of the image.
//! - Reasoning arrives as `reasoning_content`, `reasoning` or `reasoning_details`, or as parts of the
//!   content (Mistral). It is sent back unchanged, including an empty `reasoning_content`, which DeepSeek
//!   requires.
//! - Tool calls may arrive without an id, without an index, whole or in pieces, or all with the index 0. A
//!   call without an id gets one that depends only on the answer.
//! - The finish reason may be `stop` although the answer calls tools.
//!
//! Only the first of several choices is read.

use serde_json::json;

use crate::ToolDefinition;
use crate::wire::{Rendered, openai};

mod answer;
mod calls;
mod content;
pub(super) mod message;
mod reasoning;
mod stream;
mod tail;

pub(super) use answer::{reported as usage, whole as reply};
pub(super) use stream::ChatStreamReader;
pub(super) use tail::tail;

/// Renders a tool.
pub(super) fn tool(tool: &ToolDefinition) -> Rendered {
    let ToolDefinition {
        name,
        description,
        parameters,
    } = tool;
    let function = json!({"name": name, "description": description, "parameters": parameters});
    openai::rendered(json!({"type": "function", "function": function}))
}
