//! The reasons why the price of a request depends on more than its model and its tokens.

use serde_json::Value;

use super::members::{find_in, find_member, is_client_data, normalized};
use super::{Endpoint, Object, chat, embeddings, gemini, messages, responses};

impl Endpoint {
    /// Returns true if a part of the request is no text.
    pub(crate) fn has_media(self, body: &Value) -> bool {
        let is_skipped = |name: &str| is_client_data(self, name);
        let is_media = |name: &str| MEDIA.contains(&normalized(name).as_str());
        let find = |name: &str, value: &Value| {
            let kind = value.as_str().filter(|_| normalized(name) == "type");
            (is_media(name) || kind.is_some_and(is_media)).then_some(())
        };
        find_member(body, &is_skipped, &find).is_some()
    }

    /// Returns the reason why the cost of a request depends on more than its tokens: a tool that the provider runs, a
    /// tier of service, a member that is not known.
    pub(crate) fn extra_charge(self, body: &Value) -> Option<String> {
        let empty = Object::new();
        let body = body.as_object().unwrap_or(&empty);
        let lookup = match self {
            Self::Chat => chat::lookup(body),
            Self::Responses => responses::lookup(body),
            Self::Messages | Self::CountTokens => messages::lookup(body),
            Self::Gemini => gemini::lookup(body).or_else(|| gemini::unknown_parameter(body)),
            Self::Embeddings => embeddings::lookup(body),
            Self::Models => None,
            Self::Other => Some("the endpoint is passed through".into()),
        };
        let tier = |member: &str, usual: &[&str]| match body.get(member) {
            None | Some(Value::Null) => None,
            Some(Value::String(tier)) if usual.contains(&tier.as_str()) => None,
            Some(_) => Some(format!("`{member}` may have a price of its own")),
        };
        lookup
            .or_else(|| {
                tier(
                    "service_tier",
                    &["auto", "default", "flex", "standard_only"],
                )
            })
            .or_else(|| tier("speed", &["standard"]))
            .or_else(|| tier("inference_geo", &["global"]))
            // Predicted tokens that are not used are charged as output.
            .or_else(|| tier("prediction", &[]))
            .or_else(|| other_model(self, body))
            .or_else(|| part_price(self, body))
    }
}

/// Members that name a model, normalized.
const MODELS: [&str; 5] = [
    "model",
    "modelid",
    "modelname",
    "models",
    "modelselectionconfig",
];

/// Values of the member `type`, wherever it occurs, of requests whose tokens are those of texts, images and documents.
/// Another one may be of a medium with a price of its own.
const TYPES: [&str; 94] = [
    "adaptive",
    "all",
    "allowed_tools",
    "any",
    "apply_patch",
    "apply_patch_call",
    "apply_patch_call_output",
    "auto",
    "base64",
    "between_tools",
    "browser_state",
    "char_location",
    "clear_thinking_20251015",
    "clear_tool_uses_20250919",
    "click",
    "computer_call",
    "computer_call_output",
    "computer_screenshot",
    "computer_use_preview",
    "content",
    "content_block_location",
    "create_file",
    "custom",
    "custom_tool_call",
    "custom_tool_call_output",
    "delete_file",
    "direct",
    "disabled",
    "document",
    "double_click",
    "download_completed",
    "download_failed",
    "download_started",
    "drag",
    "enabled",
    "ephemeral",
    "exec",
    "exit",
    "file",
    "function",
    "function_call",
    "function_call_output",
    "grammar",
    "image",
    "image_url",
    "input_file",
    "input_image",
    "input_text",
    "input_tokens",
    "item_reference",
    "json_object",
    "json_schema",
    "keypress",
    "local",
    "local_shell",
    "local_shell_call",
    "local_shell_call_output",
    "message",
    "move",
    "none",
    "output_text",
    "page_location",
    "reasoning",
    "reasoning.encrypted",
    "reasoning.summary",
    "reasoning.text",
    "reasoning_text",
    "redacted_thinking",
    "refusal",
    "regex",
    "screenshot",
    "scroll",
    "search_result",
    "search_result_location",
    "shell_call",
    "shell_call_output",
    "summary_text",
    "tab_opened",
    "text",
    "thinking",
    "thinking_turns",
    "timeout",
    "tokens",
    "tool",
    "tool_reference",
    "tool_result",
    "tool_use",
    "tool_uses",
    "type",
    "update_file",
    "url",
    "url_citation",
    "wait",
    "web_search_result_location",
];

/// Returns the reason why the request may select another model than the one that it names.
fn other_model(endpoint: Endpoint, body: &Object) -> Option<String> {
    let is_model = |name: &str| MODELS.contains(&normalized(name).as_str());
    let named =
        |name: &str, value: &Value| (is_model(name) && !value.is_null()).then(|| name.to_owned());
    let is_skipped = |name: &str| is_client_data(endpoint, name);
    // Gemini's is in the path.
    let is_own = |name: &str| name == "model" && endpoint != Endpoint::Gemini;
    let others = body.iter().filter(|(name, _)| !is_own(name));
    let found = find_in(others, &is_skipped, &named);
    found.map(|name| format!("the member `{name}` may select another model"))
}

/// Members and types of parts of a request whose tokens do not depend on their bytes, normalized.
const MEDIA: [&str; 9] = [
    "audio",
    "document",
    "file",
    "filedata",
    "image",
    "imageurl",
    "inlinedata",
    "inputfile",
    "inputimage",
];

/// Returns the reason why a part of the request may have another price than a text or an image.
fn part_price(endpoint: Endpoint, body: &Object) -> Option<String> {
    let own_price = |name: &str, value: &Value| {
        let is_unknown = match normalized(name).as_str() {
            "audio" | "audiourl" | "documenturl" | "inputaudio" | "inputvideo" | "video"
            | "videometadata" | "videourl" => !value.is_null(),
            "modalities" | "responsemodalities" => {
                let is_text = |kind: &Value| {
                    let kind = kind.as_str();
                    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("text"))
                };
                let kinds = value.as_array();
                !value.is_null() && !kinds.is_some_and(|kinds| kinds.iter().all(is_text))
            }
            "mimetype" => !value.as_str().is_some_and(is_text_or_image),
            // A video, if it is at YouTube.
            "fileuri" => !value.is_null(),
            "inlinedata" | "filedata" => value
                .as_object()
                .is_some_and(|data| !data.keys().any(|name| normalized(name) == "mimetype")),
            "type" => {
                let kind = value.as_str();
                !kind.is_some_and(|kind| TYPES.contains(&kind))
            }
            _ => false,
        };
        is_unknown.then(|| format!("`{name}` is of a kind that may have a price of its own"))
    };
    let is_skipped = |name: &str| is_client_data(endpoint, name);
    // Tools are judged by their own types.
    let others = body.iter().filter(|(name, _)| *name != "tools");
    find_in(others, &is_skipped, &own_price)
}

/// Returns true for a media type whose tokens have the price of texts.
fn is_text_or_image(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    let is_listed = ["application/json", "application/pdf"].contains(&kind.as_str());
    is_listed || kind.starts_with("image/") || kind.starts_with("text/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_extra(endpoint: Endpoint, body: &Value) -> bool {
        endpoint.extra_charge(body).is_some()
    }

    fn part(part: &Value) -> Value {
        json!({"model": "m", "messages": [{"role": "user", "content": [part]}]})
    }

    fn gemini(part: &Value) -> Value {
        json!({"contents": [{"role": "user", "parts": [part]}]})
    }

    #[test]
    fn only_texts_and_images_have_the_price_of_the_model() {
        let schema = json!({"type": "object", "properties": {"model": {"type": "string"}}});
        for body in [
            part(&json!({"type": "text", "text": "video_url"})),
            part(&json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}})),
            part(&json!({"type": "tool_result", "content": [{"type": "text", "text": "x"}]})),
            part(&json!({"type": "tool_use", "caller": {"type": "direct"}})),
            json!({"model": "m", "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}],
                "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}, "tool_choice": {"type": "function"}}),
        ] {
            assert_eq!(Endpoint::Chat.extra_charge(&body), None, "{body}");
        }
        for kind in [
            "video_url",
            "audio_url",
            "file_url",
            "document_url",
            "input_video",
            "video",
            "media",
            "reference",
            "input_audio",
            "TEXT",
        ] {
            assert!(
                is_extra(Endpoint::Chat, &part(&json!({"type": kind}))),
                "{kind}"
            );
        }
        assert!(is_extra(Endpoint::Chat, &part(&json!({"type": ["text"]}))));
        assert!(is_extra(
            Endpoint::Chat,
            &part(&json!({"video_url": {"url": "https://a.example"}}))
        ));
        let management = json!({"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 1},
            "keep": {"type": "tool_uses", "value": 1}}]});
        let body = json!({"model": "m", "messages": [], "context_management": management});
        assert_eq!(Endpoint::Messages.extra_charge(&body), None);
        let used = json!({"type": "tool_use", "id": "t", "name": "f", "input": {"type": "video", "model": "x"}});
        assert!(!is_extra(Endpoint::Messages, &part(&used)));
        for data in [
            json!({"text": "x"}),
            json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
            json!({"functionResponse": {"name": "f", "response": {"type": "video", "mimeType": "audio/wav"}}}),
            json!({"functionCall": {"name": "f", "args": {"type": "video"}}}),
        ] {
            assert_eq!(
                Endpoint::Gemini.extra_charge(&gemini(&data)),
                None,
                "{data}"
            );
        }
        for data in [
            json!({"inlineData": {"mimeType": "AUDIO/wav", "data": "AA=="}}),
            json!({"inlineData": {"mimeType": " audio/wav", "data": "AA=="}}),
            json!({"inlineData": {"mimeType": "application/ogg", "data": "AA=="}}),
            json!({"inline_data": {"data": "AA=="}}),
            json!({"fileData": {"fileUri": "https://video.example/1", "mimeType": "text/plain"}}),
            json!({"text": "x", "videoMetadata": {"fps": 24}}),
            json!({"functionResponse": {"name": "f", "response": {}, "parts": [
                {"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}]}}),
        ] {
            assert!(is_extra(Endpoint::Gemini, &gemini(&data)), "{data}");
        }
    }

    #[test]
    fn media_are_found_in_all_spellings_and_not_in_data_of_the_client() {
        let image =
            part(&json!({"Type": "text", "Image_URL": {"url": "data:image/png;base64,AA=="}}));
        assert!(Endpoint::Chat.has_media(&image));
        assert!(Endpoint::Messages.has_media(&part(&json!({"type": "document", "source": {}}))));
        assert!(Endpoint::Gemini.has_media(&gemini(&json!({"inline_data": {}}))));
        let used =
            json!({"type": "tool_use", "id": "t", "name": "f", "input": {"file": "x", "image": 1}});
        assert!(!Endpoint::Messages.has_media(&part(&used)));
        let tool = json!({"name": "f", "input_schema": {"properties": {"document": {}}}, "input_examples": [{"file": "x"}]});
        assert!(!Endpoint::Messages.has_media(&json!({"tools": [tool]})));
    }

    #[test]
    fn members_that_may_select_another_model_are_found() {
        for generation in [
            json!({"model": "gemini-2.5-pro"}),
            json!({"routingConfig": {"manualMode": {"modelName": "gemini-2.5-pro"}}}),
            json!({"modelSelectionConfig": {"featureSelectionPreference": 1}}),
            json!({"unknown": 1}),
        ] {
            let body = json!({"contents": [], "generationConfig": generation});
            assert!(is_extra(Endpoint::Gemini, &body), "{body}");
        }
        assert!(is_extra(
            Endpoint::Gemini,
            &json!({"contents": [], "model": "models/x"})
        ));
        let usual = json!({"contents": [], "generationConfig": {"temperature": 0, "max_output_tokens": 5,
            "responseSchema": {"type": "OBJECT", "properties": {"model": {"type": "STRING"}}}}});
        assert_eq!(Endpoint::Gemini.extra_charge(&usual), None);
        let labels = json!({"contents": [], "labels": {"type": "batch", "model": "x"}});
        assert_eq!(Endpoint::Gemini.extra_charge(&labels), None);
        let tool = json!({"name": "f", "input_schema": {}, "model": "claude-opus-5"});
        let body = json!({"model": "m", "messages": [], "tools": [tool]});
        assert!(is_extra(Endpoint::Messages, &body));
        let tool = json!({"type": "function", "name": "f", "parameters": {}, "model": "gpt-5-pro"});
        let body = json!({"model": "m", "input": "x", "tools": [tool]});
        assert!(is_extra(Endpoint::Responses, &body));
    }
}
