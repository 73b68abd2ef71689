//! Content generation of Gemini.

use serde_json::Value;

use super::members::normalized;
use super::{Cacheability, Object, any_member, is_fixed, is_remote, is_set, unknown_member};

/// Members of a request on which nothing but the answer depends, or that are judged below.
const KNOWN: [&str; 14] = [
    "cachedContent",
    "cached_content",
    "contents",
    "generationConfig",
    "generation_config",
    "labels",
    "model",
    "safetySettings",
    "safety_settings",
    "systemInstruction",
    "system_instruction",
    "toolConfig",
    "tool_config",
    "tools",
];

/// Members of the parameters of the generation by which no other model is selected, normalized.
const GENERATION: [&str; 18] = [
    "candidatecount",
    "enableenhancedcivicanswers",
    "frequencypenalty",
    "logprobs",
    "maxoutputtokens",
    "mediaresolution",
    "presencepenalty",
    "responsejsonschema",
    "responselogprobs",
    "responsemimetype",
    "responsemodalities",
    "responseschema",
    "seed",
    "stopsequences",
    "temperature",
    "thinkingconfig",
    "topk",
    "topp",
];

/// Members that have two names. Of a request with both, only the provider knows which one counts.
const SPELLINGS: [[&str; 2]; 5] = [
    ["cachedContent", "cached_content"],
    ["generationConfig", "generation_config"],
    ["safetySettings", "safety_settings"],
    ["systemInstruction", "system_instruction"],
    ["toolConfig", "tool_config"],
];

/// Returns the reason why the provider may look something up, or run a tool.
pub(super) fn lookup(body: &Object) -> Option<String> {
    let mut spellings = SPELLINGS.iter();
    let both = spellings.find(|names| names.iter().all(|name| body.contains_key(*name)));
    let twice = both.map(|[one, two]| format!("`{one}` is given as `{two}`, too"));
    twice
        .or_else(|| unknown_member(body, &KNOWN))
        .or_else(|| server_tool(body.get("tools")))
}

/// Returns the reason why the parameters of the generation may select another model.
pub(super) fn unknown_parameter(body: &Object) -> Option<String> {
    let mut names = generation(body)?.keys();
    let unknown = names.find(|name| !GENERATION.contains(&normalized(name).as_str()))?;
    Some(format!("the parameter `{unknown}` is not known"))
}

/// Returns the parameters of the generation.
pub(super) fn generation(body: &Object) -> Option<&Object> {
    let names = ["generationConfig", "generation_config"];
    names.iter().find_map(|name| body.get(*name)?.as_object())
}

/// Judges a request.
pub(super) fn judge(body: &Object) -> Cacheability {
    if let Some(reason) = lookup(body) {
        return Cacheability::Never(reason);
    }
    if is_set(body, "cachedContent") || is_set(body, "cached_content") {
        return Cacheability::never("a content is stored at the provider (`cachedContent`)");
    }
    // Arguments and results of the client's functions.
    let skipped = ["args", "response"];
    let is_file = |name: &str, value: &Value| {
        matches!(name, "fileData" | "file_data") || is_remote(name, value)
    };
    let contents = ["contents", "systemInstruction", "system_instruction"].iter();
    let mut contents = contents.filter_map(|member| body.get(*member));
    if contents.any(|contents| any_member(contents, &skipped, &is_file)) {
        return Cacheability::never("a file is at a URI, where it can change");
    }
    let empty = Object::new();
    let generation = generation(body).unwrap_or(&empty);
    let counts = ["candidateCount", "candidate_count"].iter();
    let mut counts = counts.filter_map(|member| generation.get(*member));
    match counts.any(|count| count.as_u64() != Some(1)) {
        true => Cacheability::never("several answers were asked for (`candidateCount`)"),
        false => Cacheability::by_sampling(is_fixed(generation)),
    }
}

/// Returns the reason why the answer depends on the tools of a request.
fn server_tool(tools: Option<&Value>) -> Option<String> {
    let tools = match tools {
        None | Some(Value::Null) => return None,
        Some(Value::Array(tools)) => tools,
        Some(_) => return Some("`tools` is no list".to_owned()),
    };
    let kinds = tools
        .iter()
        .filter_map(Value::as_object)
        .flat_map(Object::keys);
    let is_client = |kind: &str| matches!(kind, "functionDeclarations" | "function_declarations");
    let mut kinds = kinds.filter(|kind| !is_client(kind));
    Some(format!("the provider runs the tool `{}`", kinds.next()?))
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
