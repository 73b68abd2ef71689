//! Renders tools, system text and messages as pieces of a request.

use serde_json::Value;

use crate::error::Error;
use crate::message::RESULT_NAME_NOTE;
use crate::messages::input;
use crate::messages::json::Json;
use crate::{Block, Extra, Format, Image, Message, Role, ToolDefinition, ToolResult, ToolUse};
use crate::{Rendered, extra, openai};

/// The field of a part with the signature of the preceding thoughts.
const SIGNATURE: &str = "thoughtSignature";

/// Placeholder signature for a call that Gemini did not make:
/// <https://ai.google.dev/gemini-api/docs/thought-signatures#faqs>.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Prefix of generated ids, for calls that arrived without one; such ids are not sent.
pub(super) const GENERATED_ID_PREFIX: &str = "call_gemini_";

/// Result of a failed tool without output.
const EMPTY_FAILURE_TEXT: &str = "The tool failed and said nothing.";

pub(crate) fn tool(tool: &ToolDefinition) -> Rendered {
    let mut json = Json::default();
    json.raw(r#"{"name":"#).string(&tool.name);
    if !tool.description.is_empty() {
        json.raw(r#","description":"#).string(&tool.description);
    }
    if !tool.parameters.is_null() {
        json.raw(r#","parametersJsonSchema":"#)
            .value(&tool.parameters);
    }
    json.raw("}");
    json.rendered(None)
}

pub(crate) fn system(text: &str) -> Rendered {
    let mut json = Json::default();
    json.raw(r#"{"text":"#).string(text).raw("}");
    json.rendered(None)
}

/// Renders a message; `None` if it has no content that can be sent.
pub(crate) fn message(
    message: &Message,
    wants_signatures: bool,
) -> Result<Option<Rendered>, Error> {
    let mut parts = Parts {
        json: Json::default(),
        written: 0,
        wants_signature: wants_signatures && message.role == Role::Assistant,
    };
    parts.json.raw(match message.role {
        Role::User => r#"{"role":"user","parts":["#,
        Role::Assistant => r#"{"role":"model","parts":["#,
    });
    for block in &message.content {
        parts.block(block)?;
    }
    // Images follow all results, because the provider matches results to calls before it reads the rest.
    for block in &message.content {
        if let Block::ToolResult(result) = block {
            parts.images(result);
        }
    }
    if parts.written == 0 {
        return Ok(None);
    }
    let mut json = parts.json;
    json.raw("]");
    let others = extra::fields(Format::Gemini, &message.extra);
    json.members(others, &["role", "parts"]).raw("}");
    Ok(Some(json.rendered(None)))
}

/// Writes parts.
struct Parts {
    json: Json,
    written: usize,
    /// True if the next function call needs a signature and may have none.
    wants_signature: bool,
}

impl Parts {
    fn begin(&mut self) -> &mut Json {
        if self.written > 0 {
            self.json.raw(",");
        }
        self.written += 1;
        &mut self.json
    }

    fn block(&mut self, block: &Block) -> Result<(), Error> {
        match block {
            Block::Text { text, extra } => self.text(text, extra),
            Block::Image(image) => self.image(image),
            Block::ToolUse(call) => self.call(call),
            Block::ToolResult(result) => return self.result(result),
            Block::Reasoning(reasoning) if reasoning.format == Format::Gemini => {
                self.begin().value(&reasoning.verbatim);
            }
            Block::Other {
                format: Format::Gemini,
                verbatim,
            } => {
                self.begin().value(verbatim);
            }
            Block::Reasoning(_) | Block::Other { .. } => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str, extra: &Extra) {
        if text.is_empty() && extra::field(Format::Gemini, extra, SIGNATURE).is_none() {
            return;
        }
        self.begin().raw(r#"{"text":"#).string(text);
        self.close(extra, &["text"]);
    }

    fn image(&mut self, image: &Image) {
        let json = self.begin();
        match image.source.inline() {
            Ok((media_type, base64)) => json
                .raw(r#"{"inlineData":{"mimeType":"#)
                .string(media_type)
                .raw(r#","data":"#)
                .string(base64),
            Err(url) => json.raw(r#"{"fileData":{"fileUri":"#).string(url),
        }
        .raw("}");
        self.close(&image.extra, &["inlineData", "fileData"]);
    }

    fn call(&mut self, call: &ToolUse) {
        let json = self.begin();
        json.raw(r#"{"functionCall":{"#);
        id(json, &call.id);
        json.raw(r#""name":"#).string(&call.name).raw(r#","args":"#);
        input(json, call.arguments.trim());
        json.raw("}");
        let is_own = extra::is_from(Format::Gemini, &call.extra);
        if std::mem::take(&mut self.wants_signature) && !is_own {
            self.json
                .raw(r#","thoughtSignature":"#)
                .string(NO_SIGNATURE);
        }
        self.close(&call.extra, &["functionCall"]);
    }

    fn result(&mut self, result: &ToolResult) -> Result<(), Error> {
        let mut texts = Vec::new();
        for block in &result.content {
            match block {
                Block::Text { text, .. } => texts.push(text.as_str()),
                Block::ToolUse(_) | Block::ToolResult(_) => {
                    return Err(openai::nested_call(&result.id));
                }
                Block::Image(_) | Block::Reasoning(_) | Block::Other { .. } => {}
            }
        }
        let text = texts.join("\n");
        let name = result.extra.get(RESULT_NAME_NOTE).and_then(Value::as_str);
        let json = self.begin();
        json.raw(r#"{"functionResponse":{"#);
        id(json, &result.id);
        json.raw(r#""name":"#)
            .string(name.unwrap_or(&result.id))
            .raw(r#","response":"#);
        match (result.is_error, text.is_empty()) {
            (true, true) => json.raw(r#"{"error":"#).string(EMPTY_FAILURE_TEXT),
            (true, false) => json.raw(r#"{"error":"#).string(&text),
            (false, _) => json.raw(r#"{"output":"#).string(&text),
        };
        json.raw("}}");
        self.close(&result.extra, &["functionResponse"]);
        Ok(())
    }

    /// Writes the images of a result, which a function response cannot contain.
    fn images(&mut self, result: &ToolResult) {
        for block in &result.content {
            if let Block::Image(image) = block {
                self.image(image);
            }
        }
    }

    fn close(&mut self, extra: &Extra, parameter_members: &[&str]) {
        self.json
            .members(extra::fields(Format::Gemini, extra), parameter_members)
            .raw("}");
    }
}

fn id(json: &mut Json, id: &str) {
    if !id.is_empty() && !id.starts_with(GENERATED_ID_PREFIX) {
        json.raw(r#""id":"#).string(id).raw(",");
    }
}
