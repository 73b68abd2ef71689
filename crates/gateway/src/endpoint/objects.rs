//! References of a request to objects at the provider, such as files and earlier answers. With a credential of the
//! operator, they may belong to another client.

use serde_json::Value;

use super::members::{find_member, is_client_data, normalized};
use super::{Endpoint, is_set, responses};

/// Members of a request that refer to objects, normalized.
const OF_REQUEST: [&str; 3] = ["conversation", "prompt", "thread"];

/// Members at any depth that refer to objects, normalized.
const ANYWHERE: [&str; 32] = [
    "agentid",
    "agentreference",
    "assistantid",
    "cachedcontent",
    "connectionid",
    "container",
    "containerid",
    "conversationid",
    "corpus",
    "datasources",
    "documentlibrary",
    "fileid",
    "fileids",
    "filesearchstorenames",
    "libraryids",
    "previousinteractionid",
    "previousresponseid",
    "projectconnectionid",
    "promptid",
    "ragcorpora",
    "ragresources",
    "ragstorename",
    "ragstorenames",
    "retrieval",
    "semanticretriever",
    "skillid",
    "skills",
    "threadid",
    "vectorstoreid",
    "vectorstoreids",
    "vertexaisearch",
    "vertexragstore",
];

impl Endpoint {
    /// Returns the name of a member that refers to an object at the provider.
    pub(crate) fn object_reference(self, body: &Value) -> Option<String> {
        let members = body.as_object()?;
        let is_of_request = |name: &&String| {
            OF_REQUEST.contains(&normalized(name).as_str()) && is_set(members, name)
        };
        if let Some(name) = members.keys().find(is_of_request) {
            return Some(name.clone());
        }
        let items = members.get("input").and_then(Value::as_array);
        let is_bare = |items: &Vec<Value>| items.iter().any(responses::names_object);
        if self == Self::Responses && items.is_some_and(is_bare) {
            return Some("input".to_owned());
        }
        let is_skipped = |name: &str| is_client_data(self, name);
        find_member(body, &is_skipped, &|name, value| {
            refers(name, value).then(|| name.to_owned())
        })
    }
}

/// Returns true for a member that refers to an object.
fn refers(name: &str, value: &Value) -> bool {
    match normalized(name).as_str() {
        "audio" => value.get("id").is_some_and(|id| !id.is_null()),
        "type" => matches!(value.as_str(), Some("item_reference" | "agent_reference")),
        // A file of the client's own is on a server of the web.
        "fileuri" => value
            .as_str()
            .is_none_or(|uri| !uri.starts_with("https://") || uri.contains("files/")),
        name => ANYWHERE.contains(&name) && !value.is_null(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_found_in_all_spellings_and_places() {
        let message = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
        for (endpoint, body) in [
            (
                Endpoint::Chat,
                message(json!({"type": "file", "file": {"file_id": "file-1"}})),
            ),
            (
                Endpoint::Chat,
                json!({"data_sources": [{"type": "azure_search"}]}),
            ),
            (
                Endpoint::Chat,
                json!({"tools": [{"type": "document_library", "library_ids": ["l"]}]}),
            ),
            (Endpoint::Chat, json!({"agent_id": "a"})),
            (Endpoint::Chat, json!({"previousResponseId": "r"})),
            (Endpoint::Chat, json!({"assistant_id": "a"})),
            (
                Endpoint::Responses,
                json!({"agent_reference": {"name": "a"}}),
            ),
            (
                Endpoint::Responses,
                json!({"input": [{"type": "function_call", "id": "fc_1"}]}),
            ),
            (
                Endpoint::Responses,
                json!({"input": [{"type": "apply_patch_call", "id": "x", "status": null}]}),
            ),
            (
                Endpoint::Gemini,
                json!({"cachedcontent": "cachedContents/1"}),
            ),
            (
                Endpoint::Gemini,
                json!({"semanticRetriever": {"source": "corpora/1"}}),
            ),
            (Endpoint::Gemini, json!({"previousInteractionId": "i"})),
            (
                Endpoint::Gemini,
                json!({"tools": [{"fileSearch": {"retrievalResources": [{"ragStoreName": "r"}]}}]}),
            ),
            (
                Endpoint::Gemini,
                json!({"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {}, "parts": [
                {"fileData": {"fileUri": "files/x", "mimeType": "application/pdf"}}]}}]}]}),
            ),
            (
                Endpoint::Gemini,
                json!({"contents": [{"parts": [{"functionResponse": {"parts": [
                {"fileData": {"fileUri": "gs://bucket/x"}}]}}]}]}),
            ),
        ] {
            assert!(endpoint.object_reference(&body).is_some(), "{body}");
        }
        for (endpoint, body) in [
            (
                Endpoint::Chat,
                message(json!({"type": "text", "text": "file_id"})),
            ),
            (
                Endpoint::Responses,
                json!({"input": [{"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}]}),
            ),
            (
                Endpoint::Messages,
                message(
                    json!({"type": "tool_use", "id": "t", "name": "f", "input": {"file_id": "f", "skills": 1}}),
                ),
            ),
            (
                Endpoint::Gemini,
                json!({"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {"file_id": "f"}}}]}]}),
            ),
            (
                Endpoint::Gemini,
                json!({"contents": [{"parts": [{"functionCall": {"name": "f", "args": {"file_id": "f"}}}]}]}),
            ),
        ] {
            assert_eq!(endpoint.object_reference(&body), None, "{body}");
        }
    }
}
