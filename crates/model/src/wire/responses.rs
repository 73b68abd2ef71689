//! OpenAI Responses, without state at the provider.
//!
//! Every request contains the whole conversation as items. No request refers to an earlier response, and
//! `store` is false, so reasoning arrives encrypted and is sent back unchanged. An item of an answer
//! becomes one item of the next request, with all its fields; each item is a separate piece.
//!
//! - The system text is a developer message.
//! - A message item of an answer becomes text blocks, one for each part. The other fields of the item
//!   (`id`, `status`, `phase`) are kept under `item` in the fields of its blocks, so that the blocks can be
//!   joined to one item again.
//! - The format has no flag for a failed tool, so the text of its result begins with `Error: `.
//! - The format has no stop sequences. They are sent as `stop` nevertheless: an error of the server is
//!   better than an ignored setting.

use serde_json::json;

use crate::error::Error;
use crate::wire::{Rendered, openai};
use crate::{Reply, ToolDefinition};

mod answer;
pub(super) mod message;
mod partial_items;
mod stream;
mod tail;

pub(super) use answer::reported as usage;
pub(super) use stream::ResponsesStreamReader;
pub(super) use tail::tail;

/// The field of a text block's extra with the fields of its item except the content.
const ITEM: &str = "item";

/// Renders a tool.
pub(super) fn tool(tool: &ToolDefinition) -> Rendered {
    let ToolDefinition {
        name,
        description,
        parameters,
    } = tool;
    openai::rendered(json!({
        "type": "function",
        "name": name,
        "description": description,
        "parameters": parameters,
        "strict": false,
    }))
}

/// Parses a whole answer.
pub(super) fn reply(body: &[u8]) -> Result<Reply, Error> {
    answer::reply(openai::parse(body, "the body")?)
}
