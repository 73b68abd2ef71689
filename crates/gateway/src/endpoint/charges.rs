//! The reasons why the price of a request depends on more than its model and its tokens.

use cachalot_model::wire::shared_members::normalized;
use cachalot_model::wire::{Operation, SharedMembers};
use serde_json::Value;

use super::members::{client_data, find_in, find_member, items_of};
use super::{Endpoint, Object, Setting, UnknownCost, judging};

impl Endpoint {
    /// Returns true if a part of the request is no text.
    pub(crate) fn has_media(self, body: &Value) -> bool {
        let is_skipped = client_data(self);
        let is_media = |name: &str| SharedMembers::built_in().media.contains(&normalized(name));
        let find = |name: &str, value: &Value| {
            let kind = value.as_str().filter(|_| normalized(name) == "type");
            (is_media(name) || kind.is_some_and(is_media)).then_some(())
        };
        find_member(body, &is_skipped, &find).is_some()
    }

    /// Returns the reason why the cost of a request depends on more than its tokens: a tool that the provider runs, a
    /// tier of service, a member that is not known.
    pub(crate) fn extra_charge(self, body: &Value) -> Option<String> {
        let Some(members) = self.members() else {
            return match self {
                Self::Models => None,
                _ => Some("the endpoint is passed through".to_owned()),
            };
        };
        let empty = Object::new();
        let object = body.as_object().unwrap_or(&empty);
        self.lookup(members, object, &[], Setting::Anywhere)
            // Another tier or geography, predicted tokens, which are charged as output if they are not used.
            .or_else(|| judging::unusual(members, object))
            .or_else(|| self.other_model(body))
            .or_else(|| part_price(self, object))
    }

    /// Returns the reason why the request may select another model than the one that it names. Names that repeat that of
    /// the path are compared with it ([`Endpoint::differing_model`]).
    fn other_model(self, body: &Value) -> Option<String> {
        let is_model = |name: &str| SharedMembers::built_in().models.contains(&normalized(name));
        let named = |name: &str, value: &Value| {
            (is_model(name) && !value.is_null()).then(|| name.to_owned())
        };
        let is_skipped = client_data(self);
        let is_in_path = self.wire().is_some_and(|wire| wire.has_model_in_path());
        let is_embedding = self.operation() == Some(Operation::Embed);
        let find = |object: &Value| {
            let members = object.as_object().into_iter().flatten();
            let others = members.filter(|(name, _)| match name.as_str() {
                "model" => is_in_path && !is_embedding,
                // Searched one by one.
                "requests" => !(is_in_path && is_embedding),
                _ => true,
            });
            find_in(others, &is_skipped, &named)
        };
        let mut repeating = self.items_with_model(body);
        let found = find(body).or_else(|| repeating.find_map(find));
        found.map(|name| format!("the member `{name}` may select another model"))
    }

    /// Returns the reason why a request whose path names `model` is one to another model, too: a member that should repeat
    /// the name does not.
    pub(crate) fn differing_model(self, model: &str, body: &Value) -> Option<String> {
        let repeated = |name: &Value| {
            let name = name.as_str()?;
            Some(name.strip_prefix("models/").unwrap_or(name) == model)
        };
        let items = Vec::from_iter(self.items_with_model(body));
        let mut names = items.into_iter().filter_map(|item| item.get("model"));
        let is_other = |name: &&Value| !name.is_null() && repeated(name) != Some(true);
        let other = names.find(is_other)?;
        Some(format!(
            "the member `model` names another model than the path: {other}"
        ))
    }

    /// Returns the objects of a request for vectors that repeat the model of its path.
    fn items_with_model(self, body: &Value) -> impl Iterator<Item = &Value> {
        let wire = self
            .wire()
            .filter(|_| self.operation() == Some(Operation::Embed));
        let is_in_path = wire.is_some_and(|wire| wire.has_model_in_path());
        let body = Some(body).filter(|_| is_in_path);
        let requests = body.and_then(|body| body.get("requests"));
        // A server may take one object for a list of one.
        body.into_iter()
            .chain(requests.into_iter().flat_map(items_of))
    }

    /// Returns true if the request asks for a cache write that lasts 12 hours.
    ///
    /// # Errors
    /// A lifetime has no known price.
    pub(crate) fn writes_for_12h(self, body: &Value) -> Result<bool, UnknownCost> {
        let is_skipped = client_data(self);
        let is_ttl =
            |name: &str, value: &Value| name.eq_ignore_ascii_case("ttl") && !value.is_null();
        let unknown = |name: &str, value: &Value| {
            let known = value.as_str();
            let known = known.is_some_and(|ttl| ttl == "12h" || LIFETIMES.contains(&ttl));
            (is_ttl(name, value) && !known)
                .then(|| format!("the price of a cache write for {value} is not known"))
        };
        if let Some(reason) = find_member(body, &is_skipped, &unknown) {
            return Err(UnknownCost(reason));
        }
        let long =
            |name: &str, value: &Value| (is_ttl(name, value) && value == "12h").then_some(());
        Ok(find_member(body, &is_skipped, &long).is_some())
    }
}

/// Lifetimes of cache writes whose prices the catalog has.
const LIFETIMES: [&str; 3] = ["5m", "30m", "1h"];

/// Returns the reason why a part of the request may have another price than a text or an image.
fn part_price(endpoint: Endpoint, body: &Object) -> Option<String> {
    let types = &SharedMembers::built_in().types;
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
            "fileuri" | "uri" => !value.is_null(),
            "inlinedata" | "filedata" => value
                .as_object()
                .is_some_and(|data| !data.keys().any(|name| normalized(name) == "mimetype")),
            "type" => {
                let kind = value.as_str();
                !kind.is_some_and(|kind| types.contains(kind))
            }
            _ => false,
        };
        is_unknown.then(|| format!("`{name}` is of a kind that may have a price of its own"))
    };
    let is_skipped = client_data(endpoint);
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
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Calls `check` with each row of a table: `x` for a row that is found, else `-`; the endpoint and the body.
    fn each(table: &str, check: impl Fn(Endpoint, &Value) -> bool) {
        for line in table.trim().lines() {
            let (mark, rest) = line.split_once(' ').unwrap();
            let (name, body) = rest.split_once(' ').unwrap();
            let body = serde_json::from_str(body).unwrap();
            let is_found = check(Endpoint::of_name(name).unwrap(), &body);
            assert_eq!(is_found, mark == "x", "{line}");
        }
    }

    /// Requests whose cost depends on more than their tokens.
    const CHARGES: &str = r#"
- chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "video_url"}]}]}
- chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]}
- chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "x"}]}]}]}
- chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "tool_use", "caller": {"type": "direct"}}]}]}
- chat {"model": "m", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"model": {"type": "string"}}}}}], "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object", "properties": {"model": {"type": "string"}}}}}, "tool_choice": {"type": "function"}}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "video_url"}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "audio_url"}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "file_url"}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "document_url"}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "input_video"}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "video"}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "media"}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "reference"}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": "TEXT"}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"type": ["text"]}]}]}
x chat {"model": "m", "messages": [{"role": "user", "content": [{"video_url": {"url": "https://a.example"}}]}]}
- messages {"model": "m", "messages": [], "context_management": {"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 1}, "keep": {"type": "tool_uses", "value": 1}}]}}
- messages {"model": "m", "messages": [{"role": "user", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"type": "video", "model": "x"}}]}]}
- gemini {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
- gemini {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}]}
- gemini {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"type": "video", "mimeType": "audio/wav"}}}]}]}
- gemini {"contents": [{"role": "user", "parts": [{"functionCall": {"name": "f", "args": {"type": "video"}}}]}]}
x gemini {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "AUDIO/wav", "data": "AA=="}}]}]}
x gemini {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": " audio/wav", "data": "AA=="}}]}]}
x gemini {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "application/ogg", "data": "AA=="}}]}]}
x gemini {"contents": [{"role": "user", "parts": [{"inline_data": {"data": "AA=="}}]}]}
x gemini {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": "https://video.example/1", "mimeType": "text/plain"}}]}]}
x gemini {"contents": [{"role": "user", "parts": [{"text": "x", "videoMetadata": {"fps": 24}}]}]}
x gemini {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}, "parts": [{"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}]}}]}]}
x gemini {"contents": [], "generationConfig": {"model": "gemini-2.5-pro"}}
x gemini {"contents": [], "generationConfig": {"routingConfig": {"manualMode": {"modelName": "gemini-2.5-pro"}}}}
x gemini {"contents": [], "generationConfig": {"modelSelectionConfig": {"featureSelectionPreference": 1}}}
x gemini {"contents": [], "generationConfig": {"unknown": 1}}
x gemini {"contents": [], "model": "models/x"}
- gemini_embeddings {"model": "models/x", "content": {"parts": [{"text": "x"}]}, "taskType": "RETRIEVAL_QUERY", "output_dimensionality": 768}
- gemini_embeddings {"requests": [{"model": "models/x", "content": {"parts": [{"text": "x"}]}, "embedContentConfig": {"title": "t"}}]}
x gemini_embeddings {"requests": [{"model": "models/x", "content": {"parts": [{"text": "x"}]}, "modelName": "y"}]}
x gemini_embeddings {"requests": [{"content": {"parts": [{"text": "x"}], "model": "y"}}]}
x gemini_embeddings {"requests": [{"content": {"parts": [{"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}]}}]}
x gemini_embeddings {"content": {}, "unknown": 1}
x gemini_embeddings {"requests": [{"content": {}, "unknown": 1}]}
- gemini_count_tokens {"contents": [{"parts": [{"text": "x"}]}]}
x gemini_count_tokens {"generateContentRequest": {"contents": [], "model": "models/x"}}
- gemini {"contents": [], "generationConfig": {"temperature": 0, "max_output_tokens": 5, "responseSchema": {"type": "OBJECT", "properties": {"model": {"type": "STRING"}}}}}
- gemini {"contents": [], "labels": {"type": "batch", "model": "x"}}
- interactions {"model": "m", "input": [{"type": "document", "data": "AA==", "mime_type": "application/pdf"}]}
- interactions {"model": "m", "input": "x", "safety_settings": [{"type": "harassment", "threshold": "block_none"}]}
- interactions {"model": "m", "input": "x", "generation_config": {"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["f"]}}}}
x interactions {"model": "m", "input": [{"type": "document", "uri": "https://video.example/1"}]}
x interactions {"model": "m", "input": [{"type": "audio", "data": "AA=="}]}
x interactions {"model": "m", "input": [{"type": "function_result", "call_id": "c", "result": [{"type": "audio", "data": "AA=="}]}]}
x interactions {"model": "m", "input": "x", "tools": ["google_search"]}
x messages {"model": "m", "messages": [], "tools": [{"name": "f", "input_schema": {}, "model": "claude-opus-5"}]}
x responses {"model": "m", "input": "x", "tools": [{"type": "function", "name": "f", "parameters": {}, "model": "gpt-5-pro"}]}
"#;

    /// Requests with a part that is no text.
    const PARTS: &str = r#"
x chat {"model": "m", "messages": [{"role": "user", "content": [{"Type": "text", "Image_URL": {"url": "data:image/png;base64,AA=="}}]}]}
x messages {"model": "m", "messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]}
x gemini {"contents": [{"role": "user", "parts": [{"inline_data": {}}]}]}
x interactions {"input": [{"type": "function_result", "call_id": "c", "result": [{"type": "image", "data": "AA=="}]}]}
- interactions {"input": [{"type": "function_result", "call_id": "c", "result": {"image": 1}}]}
- messages {"model": "m", "messages": [{"role": "user", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"file": "x", "image": 1}}]}]}
- messages {"tools": [{"name": "f", "input_schema": {"properties": {"document": {}}}, "input_examples": [{"file": "x"}]}]}
"#;

    #[test]
    fn only_texts_and_images_of_the_named_model_have_its_price() {
        each(CHARGES, |endpoint, body| {
            endpoint.extra_charge(body).is_some()
        });
    }

    #[test]
    fn repeated_model_has_to_be_that_of_the_path() {
        let endpoint = Endpoint::of_name("gemini_embeddings").unwrap();
        let differs = |body: &Value| endpoint.differing_model("e", body).is_some();
        for model in ["e", "models/e"] {
            assert!(!differs(&json!({"model": model})));
            assert!(!differs(
                &json!({"requests": [{"model": model}, {"content": {}}]})
            ));
        }
        for model in [json!("f"), json!("models/f"), json!(1), json!(["e"])] {
            assert!(differs(&json!({"model": model})));
            assert!(differs(&json!({"requests": {"model": model}})));
            assert!(differs(
                &json!({"requests": [{"model": "models/e"}, {"model": model}]})
            ));
        }
        assert!(
            Endpoint::gemini()
                .differing_model("e", &json!({"model": "f"}))
                .is_none()
        );
    }

    #[test]
    fn media_are_found_in_all_spellings_and_not_in_data_of_the_client() {
        each(PARTS, Endpoint::has_media);
    }
}
