//! Converts the answers of servers to content for a model.

use std::time::Duration;

use cachalot_core::SecretSet;
use cachalot_model::{Block, Image, ImageSource};
use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, ReadResourceResult, ResourceContents, Role,
};

use cachalot_tools::ToolOutput;

use super::exact_numbers;
use super::raw_message::AnswerNotes;

/// Collects content with secrets masked, up to a maximum size of text.
pub(super) struct ContentCollector<'a> {
    secret_set: &'a SecretSet,
    /// Number of bytes of text that still fit.
    room: usize,
    /// Number of bytes that did not fit.
    left_out: usize,
    blocks: Vec<Block>,
}

impl<'a> ContentCollector<'a> {
    pub(super) fn new(secret_set: &'a SecretSet, room: usize) -> Self {
        Self {
            secret_set,
            room,
            left_out: 0,
            blocks: Vec::new(),
        }
    }

    fn text(&mut self, text: &str) {
        // Masked before it is cut, because a part of a secret would not be recognized.
        let text = self.secret_set.redact(text);
        let end = text.floor_char_boundary(self.room);
        // Nothing follows a text that was cut.
        self.room = if end == text.len() {
            self.room - end
        } else {
            0
        };
        self.left_out += text.len() - end;
        if end > 0 || text.is_empty() {
            self.blocks.push(Block::text(&text[..end]));
        }
    }

    fn image(&mut self, media_type: &str, base64: String) {
        self.blocks.push(Block::Image(Image {
            source: ImageSource::Inline {
                media_type: media_type.to_owned(),
                base64,
            },
            extra: cachalot_model::Extra::new(),
        }));
    }

    fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.text(&text.text),
            ContentBlock::Image(image) => self.image(&image.mime_type, image.data),
            ContentBlock::Audio(audio) => self.binary("audio", Some(&audio.mime_type), &audio.data),
            ContentBlock::Resource(embedded) => self.resource(embedded.resource, true),
            ContentBlock::ResourceLink(link) => {
                let described = link
                    .description
                    .map_or_else(String::new, |text| format!(": {text}"));
                self.text(&format!(
                    "[resource `{}` at {}{described}]",
                    link.name, link.uri
                ));
            }
            _ => self.text("[content of a kind that is not known here]"),
        }
    }

    /// If `named`, adds the URI of a text, to identify it among other content.
    fn resource(&mut self, resource: ResourceContents, named: bool) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                if named {
                    self.text(&format!("[{uri}]\n{text}"))
                } else {
                    self.text(&text)
                }
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => match mime_type.as_deref() {
                Some(image) if image.starts_with("image/") => self.image(image, blob),
                other => self.binary(&uri, other, &blob),
            },
            _ => self.text("[a resource of a kind that is not known here]"),
        }
    }

    fn binary(&mut self, what: &str, media_type: Option<&str>, base64: &str) {
        let media_type = media_type.unwrap_or("unknown type");
        let bytes = base64.trim_end_matches('=').len() * 3 / 4;
        self.text(&format!("[{what}: {media_type}, {bytes} bytes, not shown]"));
    }

    fn finish(mut self) -> ToolOutput {
        if self.left_out > 0 {
            self.blocks.push(Block::text(format!(
                "[… {} bytes left out: ask for less]",
                self.left_out
            )));
        }
        if self.blocks.is_empty() {
            self.blocks.push(Block::text("[no content]"));
        }
        self.blocks.into()
    }
}

/// Adds the hints about caching to an output. Without a scope that the server states, it is private if it is
/// `personal`.
fn with_hints(output: ToolOutput, notes: AnswerNotes, personal: bool) -> ToolOutput {
    ToolOutput {
        lifetime: match notes.not_storable {
            // Nothing that is built from it may be cached either.
            Some(_) => Some(Duration::ZERO),
            None => notes.ttl_ms.map(Duration::from_millis),
        },
        private: notes.private.unwrap_or(personal),
        not_storable: notes.not_storable,
        ..output
    }
}

/// Forbids to cache an output, unless that is forbidden already.
pub(super) fn not_storable(output: ToolOutput, why: &str) -> ToolOutput {
    ToolOutput {
        lifetime: Some(Duration::ZERO),
        not_storable: output.not_storable.or_else(|| Some(why.to_owned())),
        ..output
    }
}

/// Adds the hints about caching to the output of a tool or a prompt. The protocol has hints for resources
/// only, so here `public` does not make a `personal` output public.
fn with_strict_hints(output: ToolOutput, notes: AnswerNotes, personal: bool) -> ToolOutput {
    let private = Some(personal || notes.private == Some(true));
    with_hints(output, AnswerNotes { private, ..notes }, personal)
}

/// Converts the result of a tool. Structured content is used only if there is no text.
pub(super) fn of_tool(
    result: CallToolResult,
    mut collector: ContentCollector<'_>,
    personal: bool,
) -> ToolOutput {
    let notes = AnswerNotes::of(result.meta.as_ref());
    let has_text = result
        .content
        .iter()
        .any(|block| matches!(block, ContentBlock::Text(text) if !text.text.is_empty()));
    let structured = result.structured_content.filter(|_| !has_text);
    let structured = structured.map(|structured| exact_numbers::shown(&structured));
    // Some servers return an image twice: as an image, and as base64 in the structured content.
    let structured = structured.filter(|text| !repeats(text, &result.content));
    for block in result.content {
        collector.block(block);
    }
    if let Some(structured) = structured {
        collector.text(&structured);
    }
    let output = ToolOutput {
        is_error: result.is_error.unwrap_or(false),
        ..collector.finish()
    };
    with_strict_hints(output, notes, personal)
}

/// True if a text contains the data of an image or audio block.
fn repeats(text: &str, content: &[ContentBlock]) -> bool {
    let mut data = content.iter().filter_map(|block| match block {
        ContentBlock::Image(image) => Some(image.data.as_str()),
        ContentBlock::Audio(audio) => Some(audio.data.as_str()),
        _ => None,
    });
    data.any(|data| !data.is_empty() && text.contains(data))
}

/// Converts the content of a resource. Without a scope that the server states, it is private if it is
/// `personal`.
pub(super) fn of_resource(
    result: ReadResourceResult,
    mut collector: ContentCollector<'_>,
    personal: bool,
) -> ToolOutput {
    let several = result.contents.len() > 1;
    for contents in result.contents {
        collector.resource(contents, several);
    }
    let notes = AnswerNotes::of(result.meta.as_ref());
    with_hints(collector.finish(), notes, personal)
}

/// Converts the messages of a prompt.
pub(super) fn of_prompt(
    result: GetPromptResult,
    mut collector: ContentCollector<'_>,
    personal: bool,
) -> ToolOutput {
    let notes = AnswerNotes::of(result.meta.as_ref());
    let plain = matches!(result.messages.as_slice(), [only] if only.role == Role::User);
    for message in result.messages {
        let role = match message.role {
            Role::Assistant => "assistant",
            _ => "user",
        };
        match message.content {
            ContentBlock::Text(text) if !plain => {
                collector.text(&format!("[{role}]\n{}", text.text))
            }
            content => collector.block(content),
        }
    }
    with_strict_hints(collector.finish(), notes, personal)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use cachalot_core::DigestKey;
    use serde_json::json;

    fn texts(blocks: &[Block]) -> Vec<&str> {
        blocks
            .iter()
            .map(|block| match block {
                Block::Text { text, .. } => text.as_str(),
                Block::Image(_) => "<image>",
                _ => "<other>",
            })
            .collect()
    }

    fn answered(result: serde_json::Value, room: usize) -> ToolOutput {
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        let secret_set = SecretSet::with_key(DigestKey::new([1; 32]));
        secret_set.learn("swordfish");
        of_tool(result, ContentCollector::new(&secret_set, room), false)
    }

    #[test]
    fn content_of_every_kind() {
        let output = answered(
            json!({ "content": [
                { "type": "text", "text": "the swordfish" },
                { "type": "image", "data": "AAAA", "mimeType": "image/png" },
                { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
                { "type": "resource", "resource": { "uri": "a://b", "text": "inside" } },
                { "type": "resource", "resource": { "uri": "a://c", "mimeType": "image/gif", "blob": "AAAA" } },
                { "type": "resource", "resource": { "uri": "a://d", "blob": "AAAA" } },
                { "type": "resource_link", "uri": "a://e", "name": "e", "description": "more" },
            ], "structuredContent": { "not": "shown" } }),
            1_000,
        );
        assert_eq!(
            texts(&output.content),
            [
                "the [secret]",
                "<image>",
                "[audio: audio/wav, 3 bytes, not shown]",
                "[a://b]\ninside",
                "<image>",
                "[a://d: unknown type, 3 bytes, not shown]",
                "[resource `e` at a://e: more]",
            ]
        );
        assert!(!output.is_error);
    }

    #[test]
    fn structured_content_is_used_without_text() {
        let output = answered(
            json!({ "structuredContent": { "b": 1, "a": [2.50] } }),
            1_000,
        );
        assert_eq!(texts(&output.content), [r#"{"b":1,"a":[2.5]}"#]);
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        for (structured, shown) in [
            (json!({ "content": [image] }), &["<image>"][..]),
            (json!({ "x": 1 }), &["<image>", r#"{"x":1}"#]),
        ] {
            let output = answered(
                json!({ "content": [image], "structuredContent": structured }),
                1_000,
            );
            assert_eq!(texts(&output.content), shown);
        }
        let output = answered(json!({ "content": [], "isError": true }), 1_000);
        assert_eq!(texts(&output.content), ["[no content]"]);
        assert!(output.is_error);
    }

    #[test]
    fn text_beyond_the_limit_is_cut() {
        let output = answered(
            json!({ "content": [{ "type": "text", "text": "aé".repeat(10) }, { "type": "text", "text": "never" }] }),
            5,
        );
        assert_eq!(
            texts(&output.content),
            ["aéa", "[… 31 bytes left out: ask for less]"]
        );
    }
}
