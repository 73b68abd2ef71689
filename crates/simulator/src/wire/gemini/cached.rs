//! Explicit caching: <https://ai.google.dev/api/caching>.

use std::collections::BTreeMap;

use cachalot_core::clock::iso8601;
use cachalot_core::{Digest, Millis};
use serde_json::{Value, json};

use super::{in_camel_case, known, object};
use crate::wire::{ApiError, Object, ValidationContext, items, refuse, text_of};

/// Prefix of the name of a content, in requests that use it and in paths after the version.
const COLLECTION: &str = "cachedContents/";

/// Members that a content may contain, and that a request that uses it must not contain.
const CONTENT_MEMBERS: [&str; 3] = ["systemInstruction", "tools", "toolConfig"];

/// Members of a request that creates a content.
const MEMBERS: [&str; 8] = [
    "contents",
    "displayName",
    "expireTime",
    "model",
    "systemInstruction",
    "toolConfig",
    "tools",
    "ttl",
];

/// Default lifetime of a content, in seconds.
const DEFAULT_LIFETIME: f64 = 3_600.0;

/// Explicitly cached contents, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct CachedContents {
    contents: BTreeMap<(Digest, String), CachedContent>,
}

#[derive(Debug, Clone)]
struct CachedContent {
    /// Name of the model, with the prefix `models/`.
    model: String,
    display_name: Option<String>,
    request: Object,
    tokens: u64,
    created: Millis,
    updated: Millis,
    expires: Millis,
}

impl CachedContents {
    /// Caches a content under `id`; returns its description.
    pub(crate) fn create(
        &mut self,
        body: &Value,
        validation: &ValidationContext<'_>,
        id: &str,
    ) -> Result<Value, ApiError> {
        let body = in_camel_case(body);
        let fields = object(&body, "cached_content")?;
        known(fields, "cached_content", &MEMBERS, validation)?;
        let model = text_of(fields, "model").to_owned();
        let Some(name) = model.strip_prefix("models/") else {
            return refuse(
                "* CreateCachedContentRequest.cached_content.model: unexpected model name format\n",
            );
        };
        let mut request = Object::new();
        for key in ["contents"].iter().chain(&CONTENT_MEMBERS) {
            if let Some(value) = fields.get(*key) {
                request.insert((*key).to_owned(), value.clone());
            }
        }
        let tokens = tokens(&request, name, validation)?;
        let minimum = validation.rules.openai.model(name).minimum;
        if tokens < minimum {
            return refuse(format!(
                "Cached content is too small. total_token_count={tokens}, min_total_token_count={minimum}"
            ));
        }
        let display_name = fields.get("displayName").and_then(Value::as_str);
        let content = CachedContent {
            model,
            display_name: display_name.map(str::to_owned),
            request,
            tokens,
            created: validation.now,
            updated: validation.now,
            expires: validation.now + lifetime(fields)?,
        };
        self.contents
            .retain(|_, content| validation.now < content.expires);
        let name = format!("{COLLECTION}{id}");
        let described = content.describe(&name);
        self.contents.insert((validation.namespace, name), content);
        Ok(described)
    }

    /// Describes the content of this name.
    pub(crate) fn describe(
        &self,
        namespace: Digest,
        name: &str,
        now: Millis,
    ) -> Result<Value, ApiError> {
        Ok(self.find(namespace, name, now)?.describe(name))
    }

    /// Describes all contents of a namespace.
    pub(crate) fn list(&self, namespace: Digest, now: Millis) -> Value {
        let own = self.contents.iter();
        let own = own.filter(|((owner, _), content)| *owner == namespace && now < content.expires);
        let described: Vec<Value> = own
            .map(|((_, name), content)| content.describe(name))
            .collect();
        json!({"cachedContents": described})
    }

    /// Changes the lifetime of a content; nothing else can be changed.
    pub(crate) fn update(
        &mut self,
        body: &Value,
        validation: &ValidationContext<'_>,
        name: &str,
    ) -> Result<Value, ApiError> {
        let body = in_camel_case(body);
        let fields = object(&body, "cached_content")?;
        let members = ["expireTime", "ttl", "name"];
        known(fields, "cached_content", &members, validation)?;
        let expires = validation.now + lifetime(fields)?;
        self.find(validation.namespace, name, validation.now)?;
        let key = (validation.namespace, name.to_owned());
        let Some(content) = self.contents.get_mut(&key) else {
            return Err(missing());
        };
        (content.updated, content.expires) = (validation.now, expires);
        Ok(content.describe(name))
    }

    /// Deletes a content.
    pub(crate) fn delete(
        &mut self,
        namespace: Digest,
        name: &str,
        now: Millis,
    ) -> Result<Value, ApiError> {
        self.find(namespace, name, now)?;
        self.contents.remove(&(namespace, name.to_owned()));
        Ok(json!({}))
    }

    fn find(&self, namespace: Digest, name: &str, now: Millis) -> Result<&CachedContent, ApiError> {
        self.contents
            .get(&(namespace, name.to_owned()))
            .filter(|content| now < content.expires)
            .ok_or_else(missing)
    }

    /// Adds the content that a request names to the request; also returns the tokens of the content, 0 if
    /// the request names none.
    pub(super) fn complete(
        &self,
        request: &Object,
        validation: &ValidationContext<'_>,
    ) -> Result<(Object, u64), ApiError> {
        let mut whole = request.clone();
        let name = text_of(request, "cachedContent");
        if name.is_empty() {
            return Ok((whole, 0));
        }
        let content = self.find(validation.namespace, name, validation.now)?;
        if CONTENT_MEMBERS.iter().any(|key| request.contains_key(*key)) {
            return refuse(
                "CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config.\n\nProposed fix: move those values to CachedContent from GenerateContent request.",
            );
        }
        let model = format!("models/{}", text_of(request, "model"));
        if content.model != model {
            return refuse(format!(
                "Model used by GenerateContent request ({model}) and CachedContent ({}) has to be the same.",
                content.model
            ));
        }
        let contents = items(content.request.get("contents")).chain(items(request.get("contents")));
        let contents: Value = contents.cloned().collect();
        whole.extend(content.request.clone());
        whole.insert("contents".to_owned(), contents);
        Ok((whole, content.tokens))
    }
}

impl CachedContent {
    fn describe(&self, name: &str) -> Value {
        let mut described = json!({
            "name": name,
            "model": self.model,
            "createTime": iso8601(self.created),
            "updateTime": iso8601(self.updated),
            "expireTime": iso8601(self.expires),
            "usageMetadata": {"totalTokenCount": self.tokens},
        });
        if let Some(display_name) = &self.display_name {
            described["displayName"] = display_name.as_str().into();
        }
        described
    }
}

fn missing() -> ApiError {
    ApiError::with_status(403, "CachedContent not found (or permission denied)")
}

/// Counts the tokens of a content, which must form a valid request together with a question.
fn tokens(held: &Object, model: &str, validation: &ValidationContext<'_>) -> Result<u64, ApiError> {
    let count = |request: &Object| -> Result<u64, ApiError> {
        Ok(super::read_whole(request, validation, 0)?.prompt.tokens())
    };
    let question = json!({"role": "user", "parts": [{"text": "?"}]});
    let contents: Value = items(held.get("contents"))
        .chain([&question])
        .cloned()
        .collect();
    let model = ("model".to_owned(), model.into());
    let alone = Object::from_iter([model.clone(), ("contents".to_owned(), json!([question]))]);
    let mut whole = Object::from_iter([model]);
    whole.extend(held.clone());
    whole.insert("contents".to_owned(), contents);
    Ok(count(&whole)? - count(&alone)?)
}

/// Parses `ttl`, such as `"3.5s"`; `expireTime` is not simulated.
fn lifetime(fields: &Object) -> Result<Millis, ApiError> {
    if fields.contains_key("expireTime") {
        return refuse("the simulator takes `ttl`, and no `expire_time`");
    }
    let seconds = match fields.get("ttl") {
        None => DEFAULT_LIFETIME,
        Some(ttl) => ttl
            .as_str()
            .and_then(|ttl| ttl.strip_suffix('s')?.parse().ok())
            .filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0 && *seconds < 1e9)
            .ok_or_else(|| {
                ApiError::invalid(format!(
                    "Invalid value at 'cached_content.ttl' (type.googleapis.com/google.protobuf.Duration), {ttl}"
                ))
            })?,
    };
    #[expect(clippy::cast_possible_truncation, reason = "checked to be below 1e12")]
    let millis = (seconds * 1_000.0) as Millis;
    Ok(millis)
}
