//! Content generation of Gemini.

use serde_json::Value;

use super::{Cacheability, Object, any_member, is_fixed, is_set};

/// Judges a request.
pub(super) fn judge(body: &Object) -> Cacheability {
    let tools = body.get("tools").and_then(Value::as_array);
    let kinds = tools.into_iter().flatten().filter_map(Value::as_object);
    let mut kinds = kinds.flat_map(Object::keys);
    if let Some(tool) =
        kinds.find(|kind| !matches!(&***kind, "functionDeclarations" | "function_declarations"))
    {
        return Cacheability::never(format!("the provider runs the tool `{tool}`"));
    }
    if is_set(body, "cachedContent") || is_set(body, "cached_content") {
        return Cacheability::never("a content is stored at the provider (`cachedContent`)");
    }
    let contents = body.get("contents").unwrap_or(&Value::Null);
    if any_member(contents, &|name, _| {
        matches!(name, "fileData" | "file_data")
    }) {
        return Cacheability::never("a file is at a URI, where it can change");
    }
    let empty = Object::new();
    let generation = ["generationConfig", "generation_config"].iter();
    let mut generation = generation.filter_map(|member| body.get(*member)?.as_object());
    let generation = generation.next().unwrap_or(&empty);
    let count = ["candidateCount", "candidate_count"].iter();
    let mut count = count.filter_map(|member| generation.get(*member)?.as_u64());
    match count.next() {
        None | Some(1) => Cacheability::by_sampling(is_fixed(generation)),
        Some(_) => Cacheability::never("several answers were asked for (`candidateCount`)"),
    }
}

/// Returns true for the method that streams, in the form of events.
pub(super) fn is_streamed(path: &str, query: Option<&str>) -> bool {
    let parameters = query.unwrap_or_default().split('&');
    let mut parameters = parameters;
    path.ends_with(":streamGenerateContent") && parameters.any(|parameter| parameter == "alt=sse")
}

/// Returns the model in a path: `/v1beta/models/NAME:generateContent`.
pub(super) fn model(path: &str) -> Option<&str> {
    let (before, _) = path.rsplit_once(':')?;
    before.rsplit('/').next()
}
