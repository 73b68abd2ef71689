//! References of a request to objects at the provider, such as files and earlier answers. With a credential of the
//! operator, they may belong to another client.

use cachalot_model::wire::SharedMembers;
use cachalot_model::wire::shared_members::normalized;
use serde_json::Value;

use super::judging::{REFERENCE, inputs, unknown_role};
use super::members::{client_data, find_in, find_member, items_of, urls};
use super::{Endpoint, Setting, is_set};
use crate::credentials::owner_of;

impl Endpoint {
    /// Returns the IDs of the earlier answers and their items that a request names; `None` if it names none, or refers to
    /// other objects, too.
    pub(crate) fn kept_answers(self, body: &Value) -> Option<Vec<&str>> {
        if self.object_reference(body, Setting::Account).is_some() {
            return None;
        }
        let (table, members) = (self.members()?, body.as_object()?);
        let continued = CONTINUED.iter().filter_map(|name| members.get(*name));
        let mut ids: Vec<&str> = continued.filter_map(Value::as_str).collect();
        for item in inputs(table, members).flat_map(|(_, value)| items_of(value)) {
            let is_reference = item.get("type").is_some_and(|kind| kind == REFERENCE);
            if is_reference || (item.is_object() && !table.is_whole(item)) {
                ids.push(item.get("id")?.as_str()?);
            }
        }
        (!ids.is_empty()).then_some(ids)
    }

    /// Returns the name of a member that refers to an object at the provider. Items of earlier answers are none in a run,
    /// and neither are these answers for the account that has got them.
    pub(crate) fn object_reference(self, body: &Value, setting: Setting) -> Option<String> {
        let members = body.as_object()?;
        let shared = SharedMembers::built_in();
        // A preset of OpenRouter, with its prompt and its plugins, is part of the account.
        let model = members.get("model").and_then(Value::as_str);
        if model.is_some_and(|model| model.contains("@preset/")) {
            return Some("model".to_owned());
        }
        let is_of_request = |name: &&String| {
            let is_known = setting == Setting::Account && CONTINUED.contains(&name.as_str());
            !is_known && shared.request_objects.contains(&normalized(name)) && is_set(members, name)
        };
        if let Some(name) = members.keys().find(is_of_request) {
            return Some(name.clone());
        }
        if let Some(table) = self.members() {
            if unknown_role(table, members).is_some() {
                return Some("role".to_owned());
            }
            let is_bare = |item: &Value| setting == Setting::Anywhere && !table.is_whole(item);
            let has_bare = |(_, value): &(_, &Value)| {
                !value.is_string() && items_of(value).iter().any(is_bare)
            };
            let mut lists = inputs(table, members).filter(|_| !table.items.is_empty());
            if let Some((name, _)) = lists.find(has_bare) {
                return Some(name.clone());
            }
            let of_server = |name: &str, value: &Value| {
                let mut schemes = urls(name, value).map(|(scheme, _)| scheme);
                let is_of_server = schemes.any(|scheme| {
                    !OF_THE_WEB
                        .iter()
                        .any(|web| scheme.eq_ignore_ascii_case(web))
                });
                (is_of_server || is_file(value)).then(|| name.to_owned())
            };
            let found = find_in(inputs(table, members), &client_data(self), &of_server);
            if found.is_some() {
                return found;
            }
        }
        find_member(body, &client_data(self), &|name, value| {
            let is_item = setting != Setting::Anywhere && name == "type" && value == REFERENCE;
            let is_own = setting == Setting::Account && CONTINUED.contains(&name);
            (!is_item && !is_own && refers(shared, name, value)).then(|| name.to_owned())
        })
    }
}

/// Members that name the answer which a request continues.
const CONTINUED: [&str; 2] = ["previous_interaction_id", "previous_response_id"];

/// Schemes of URLs that are the same for all accounts.
const OF_THE_WEB: [&str; 2] = ["http", "https"];

/// Returns true for a text that stands for a file at the provider (Qwen-Long).
fn is_file(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|text| text.starts_with("fileid://"))
}

/// Returns true for the URL of a file of the client's own: on a server of the web that is none of a provider.
fn is_of_client(url: &str) -> bool {
    let host = url.parse::<http::Uri>().ok();
    let host = host.as_ref().and_then(http::Uri::host);
    url.starts_with("https://")
        && !url.contains("files/")
        && host.is_some_and(|host| owner_of(host).is_none())
}

/// Returns true for a member that refers to an object.
fn refers(shared: &SharedMembers, name: &str, value: &Value) -> bool {
    match normalized(name).as_str() {
        "audio" => value.get("id").is_some_and(|id| !id.is_null()),
        "document" => value
            .as_object()
            .is_some_and(|fields| fields.len() == 1 && is_set(fields, "id")),
        "type" => matches!(value.as_str(), Some("item_reference" | "agent_reference")),
        "fileuri" | "uri" => !value.as_str().is_some_and(is_of_client),
        name => shared.objects.contains(name) && !value.is_null(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Requests that name an object at the provider: the endpoint and the body.
    const REFERENCES: &str = r#"
chat {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}
responses {"input": [{"content": [{"type": "input_file", "file_id": "file-1"}]}]}
messages {"messages": [{"content": [{"type": "document", "source": {"type": "file", "file_id": "file_1"}}]}]}
chat {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]}
chat {"data_sources": [{"type": "azure_search"}]}
chat {"tools": [{"type": "document_library", "library_ids": ["l"]}]}
chat {"agent_id": "a"}
chat {"model": "openai/gpt-5.5@preset/team"}
chat {"preset": "team"}
responses {"input": [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": ""}]}
chat {"previousResponseId": "r"}
chat {"assistant_id": "a"}
responses {"agent_reference": {"name": "a"}}
responses {"input": [{"type": "function_call", "id": "fc_1"}]}
responses {"input": [{"type": "apply_patch_call", "id": "x", "status": null}]}
interactions {"input": [{"type": "document", "uri": "https://generativelanguage.googleapis.com/v1beta/files/abc"}]}
interactions {"input": [{"type": "image", "uri": "files/abc"}]}
interactions {"input": [{"type": "image", "uri": "https://generativelanguage.googleapis.com/v1beta/f%69les/abc"}]}
interactions {"input": [{"type": "image", "uri": "https://a@generativelanguage.googleapis.com./v1beta/f%69les/abc"}]}
interactions {"input": [{"type": "image", "uri": "HTTPS://generativelanguage.googleapis.com/v1beta/f%69les/abc"}]}
interactions {"input": [{"type": "function_result", "call_id": "c", "result": [{"type": "document", "uri": "gs://bucket/x"}]}]}
interactions {"tools": [{"type": "retrieval", "vertex_ai_search_config": {"engine": "e"}}]}
gemini {"cachedcontent": "cachedContents/1"}
gemini {"semanticRetriever": {"source": "corpora/1"}}
gemini {"previousInteractionId": "i"}
gemini {"tools": [{"fileSearch": {"retrievalResources": [{"ragStoreName": "r"}]}}]}
gemini {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {}, "parts": [{"fileData": {"fileUri": "files/x", "mimeType": "application/pdf"}}]}}]}]}
gemini {"contents": [{"parts": [{"functionResponse": {"parts": [{"fileData": {"fileUri": "gs://bucket/x"}}]}}]}]}
chat {"messages": [{"role": "cache", "content": "tag=kb"}]}
chat {"messages": [{"role": "system", "content": "fileid://file-1"}]}
chat {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "ms://f1"}}]}]}
chat {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "s3://bucket/x"}]}]}
chat {"messages": [{"role": "user", "content": [{"type": "document", "document": {"id": "doc_1"}}]}]}
"#;

    /// Requests that name none.
    const OTHERS: &str = r#"
chat {"messages": [{"role": "user", "content": [{"type": "text", "text": "file_id"}]}]}
chat {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]}]}
chat {"messages": [{"role": "user", "content": "s3://bucket/x"}]}
chat {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "HTTPS://a.example/b.png"}}]}]}
messages {"messages": [{"role": "user", "content": [{"type": "search_result", "source": "kb://doc/1", "title": "s3://b/x", "content": []}]}]}
responses {"input": [{"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["psql", "postgres://u@h/d"], "env": {"DB": "postgres://h"}}}]}
responses {"input": [{"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}]}
messages {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"file_id": "f", "skills": 1}}]}]}
gemini {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {"file_id": "f"}}}]}]}
gemini {"contents": [{"parts": [{"functionCall": {"name": "f", "args": {"file_id": "f"}}}]}]}
interactions {"input": [{"type": "image", "uri": "https://a.example/b.png"}]}
interactions {"input": [{"type": "function_result", "call_id": "c", "result": {"file_id": "f", "uri": "gs://b/x"}}]}
interactions {"input": [{"type": "function_call", "id": "c", "name": "f", "arguments": {"uri": "files/abc"}}]}
"#;

    #[test]
    fn references_are_found_in_all_spellings_and_places() {
        let is_found = |line: &str| {
            let (name, body) = line.split_once(' ').unwrap();
            let body = serde_json::from_str(body).unwrap();
            let endpoint = Endpoint::of_name(name).unwrap();
            endpoint
                .object_reference(&body, Setting::Anywhere)
                .is_some()
        };
        for line in REFERENCES.trim().lines() {
            assert!(is_found(line), "{line}");
        }
        for line in OTHERS.trim().lines() {
            assert!(!is_found(line), "{line}");
        }
    }
}
