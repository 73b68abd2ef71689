//! The cache key of a request: tenant, upstream, path, headers that can change the answer, body.

use cachalot_cache::{Call, CallKind, Key, KeyedCall, Scope};
use cachalot_core::{Canonical, DigestKey, SecretSet};
use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Value, json};

use crate::answer_form::{AnswerForm, without_form};
use crate::client_profile::Client;
use crate::credentials::{HEADERS, PARAMETERS};
use crate::endpoint::Endpoint;
use crate::header;
use crate::key_body::KeyBody;

/// The identity of a request: the key and the parts of its call.
pub(crate) struct CallIdentity {
    scope: Scope,
    name: String,
    input: Canonical,
    key: Key,
}

/// Parts of a request that identify it.
pub(crate) struct CallParts<'a> {
    pub(crate) endpoint: Endpoint,
    /// Base URL of the upstream.
    pub(crate) upstream: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    /// The body, without the members that select the form.
    pub(crate) body: &'a KeyBody,
    /// The client by whose profile the body was encoded.
    pub(crate) client: Option<&'a Client>,
    /// The number of calls that are in the body without their IDs.
    pub(crate) numbered_calls: usize,
    pub(crate) form: AnswerForm,
    /// The agent whose sampled answers are stored.
    pub(crate) agent: Option<&'a str>,
    /// The tenant, if the client has a key of the gateway; else its credentials stand for it.
    pub(crate) tenant: Option<&'a str>,
}

/// The sample that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample<'a> {
    /// Any: equal requests have one answer.
    Any,
    /// The number of the request among the equal ones of a run.
    Ordinal(u32),
    /// The one of an attempt, which no other process and no later version asks for.
    Attempt {
        name: &'a str,
        /// The key of any sample of the request.
        of: Key,
    },
}

impl CallIdentity {
    /// Identifies a request; `sample` distinguishes sampled answers to equal requests.
    pub(crate) fn new(
        parts: &CallParts<'_>,
        sample: Sample<'_>,
        key: &DigestKey,
        secret_set: &SecretSet,
    ) -> Self {
        let CallParts {
            endpoint,
            upstream,
            path,
            query,
            headers,
            body,
            client,
            numbered_calls,
            form,
            agent,
            tenant,
        } = *parts;
        let (path, query) = without_form(endpoint, form, path, query);
        let query = query.as_deref();
        let mut input = cachalot_core::canonical::ObjectEncoder::sealed(secret_set);
        input.field("agent", &json!(agent));
        if let Sample::Attempt { name, .. } = sample {
            input.text("attempt", name);
        }
        input.canonical("body", &body.value);
        // With the number, no other body has the same bytes: without IDs, there are twice as many such values.
        let calls = (numbered_calls > 0).then_some(numbered_calls);
        if let Some(calls) = calls {
            input.field("calls", &json!(calls));
        }
        input.field("headers", &headers_in_key(headers, form, client, key));
        if let Some(order) = &body.order {
            input.canonical("order", order);
        }
        if let Sample::Ordinal(ordinal) = sample {
            input.field("ordinal", &json!(ordinal));
        }
        input.text("path", &path);
        // Such a body is encoded by other rules.
        input.field("profile", &json!(client.map(|client| &client.name)));
        input.field("query", &query_in_key(query, key));
        input.text("upstream", upstream);
        let scope = match tenant {
            Some(tenant) => Scope::User(tenant.to_owned()),
            None => Scope::User(tenant_of_credentials(headers, query, key)),
        };
        let (scope, name, input) = (scope, endpoint.name().to_owned(), input.finish());
        let call = Call {
            kind: CallKind::Request,
            scope: &scope,
            name: &name,
            input: &input,
        };
        let key = match sample {
            Sample::Any | Sample::Ordinal(_) => Key::for_call(&call),
            // Without digesting a long body again.
            Sample::Attempt { name, of } => of.for_attempt(name),
        };
        Self {
            key,
            scope,
            name,
            input,
        }
    }

    /// Returns the identity of the requests that renew the prefix of this one.
    pub(crate) fn of_renewal(&self) -> Self {
        let (scope, name) = (self.scope.clone(), self.name.clone());
        let input = Canonical::value(&json!({"keep_alive": "renewal", "of": self.key.to_string()}));
        let key = Key::for_call(&Call {
            kind: CallKind::Request,
            scope: &scope,
            name: &name,
            input: &input,
        });
        Self {
            scope,
            name,
            input,
            key,
        }
    }

    /// The key of the call.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// The call.
    pub(crate) fn call(&self) -> Call<'_> {
        Call {
            kind: CallKind::Request,
            scope: &self.scope,
            name: &self.name,
            input: &self.input,
        }
    }

    /// The call with its key.
    pub(crate) fn keyed<'a>(&self, call: &'a Call<'a>) -> KeyedCall<'a> {
        KeyedCall::new(call, self.key)
    }

    /// The tenant: the digest of its credentials, `key:NAME` or `scope:NAME`.
    pub(crate) fn tenant(&self) -> &str {
        self.scope.parts().1
    }
}

/// Returns the tenant of the caller: a keyed digest of its credentials, so that two callers share an answer only if
/// they have the same ones.
pub(crate) fn tenant_of_credentials(
    headers: &HeaderMap,
    query: Option<&str>,
    key: &DigestKey,
) -> String {
    let mut credentials = Vec::new();
    let mut add = |name: &str, value: &[u8]| {
        // With their lengths, no two lists of credentials have the same bytes.
        for part in [name.as_bytes(), value] {
            credentials.extend_from_slice(&(part.len() as u64).to_le_bytes());
            credentials.extend_from_slice(part);
        }
    };
    for (name, _) in HEADERS {
        for value in headers.get_all(name) {
            add(name, value.as_bytes());
        }
    }
    for (name, value) in parameters(query) {
        if is_credential(name) {
            add(name, value.as_bytes());
        }
    }
    let digest = key.digest(&credentials).to_string();
    digest[..32].to_owned()
}

pub(crate) fn parameters(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let parameters = query.unwrap_or_default().split('&');
    let parameters = parameters.filter(|parameter| !parameter.is_empty());
    parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
}

/// Returns true for the name of a parameter that contains a credential.
fn is_credential(name: &str) -> bool {
    PARAMETERS.iter().any(|(parameter, _)| *parameter == name)
}

/// Returns the credentials among the parameters of a query.
pub(crate) fn credential_parameters(query: Option<&str>) -> impl Iterator<Item = &str> {
    let parameters = parameters(query).filter(|(name, _)| is_credential(name));
    parameters.map(|(_, value)| value)
}

/// Returns a query without the parameters that contain credentials.
pub(crate) fn without_credentials(query: Option<&str>) -> Option<String> {
    let parameters = query?.split('&');
    let is_kept = |parameter: &&str| {
        let name = parameter
            .split_once('=')
            .map_or(*parameter, |(name, _)| name);
        !is_credential(name)
    };
    let kept: Vec<&str> = parameters.filter(is_kept).collect();
    Some(kept.join("&")).filter(|query| !query.is_empty())
}

/// Parameters whose values the ledger shows.
pub(crate) const SHOWN_PARAMETERS: [&str; 9] = [
    "after",
    "alt",
    "api-version",
    "before",
    "beta",
    "limit",
    "order",
    "pageSize",
    "pageToken",
];

/// Returns the query of the key. A parameter that is not known to be harmless may be a credential, or the name of one
/// in another spelling, so its value is a keyed digest.
fn query_in_key(query: Option<&str>, key: &DigestKey) -> Value {
    let others = parameters(query).filter(|(name, _)| !is_credential(name));
    let others = others.map(|(name, value)| {
        if SHOWN_PARAMETERS.contains(&name) {
            json!([name, value])
        } else {
            json!([name, {"digest": key.digest(value.as_bytes()).to_string()}])
        }
    });
    others.collect()
}

/// Returns the headers of the key. A header that is not known to be harmless may be a credential, so its value is a
/// keyed digest.
///
/// A request for events that accepts them has the key of the one that accepts a document: the form is in no key.
fn headers_in_key(
    headers: &HeaderMap,
    form: AnswerForm,
    client: Option<&Client>,
    key: &DigestKey,
) -> Value {
    let in_key = header::in_key(headers).into_iter();
    let in_key =
        in_key.filter(|(name, _)| !client.is_some_and(|client| client.value.leaves_out(name)));
    let in_key = in_key.map(|(name, values)| {
        let values = values.into_iter().map(|value| match value.to_str() {
            Ok("text/event-stream") if name == ACCEPT && form.is_events() => {
                json!("application/json")
            }
            Ok(text) if header::is_shown(name) => json!(text),
            _ => json!({"digest": key.digest(value.as_bytes()).to_string()}),
        });
        (name.as_str().to_owned(), values.collect())
    });
    Value::Object(in_key.collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use bytes::Bytes;
    use cachalot_core::canonical::CanonicalError;

    use super::*;

    fn key_body(text: &str) -> Result<KeyBody, CanonicalError> {
        let value = serde_json::from_str(text).unwrap_or_default();
        KeyBody::of_text(&["stream"], &Bytes::from(text.to_owned()), &value, None)
    }

    fn key_of(headers: &[(&'static str, &str)], query: Option<&str>, body: &str) -> Key {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let body = key_body(body).unwrap();
        let parts = CallParts {
            endpoint: Endpoint::chat(),
            upstream: "https://a.example",
            path: "/v1/chat/completions",
            query,
            headers: &map,
            body: &body,
            client: None,
            numbered_calls: 0,
            form: AnswerForm::Whole,
            agent: None,
            tenant: None,
        };
        let (digest_key, secret_set) = (DigestKey::new([7; 32]), SecretSet::empty());
        let identity = CallIdentity::new(&parts, Sample::Any, &digest_key, &secret_set);
        identity.key()
    }

    const BODY: &str = r#"{"model": "m", "messages": [], "temperature": 0}"#;
    const BEARER: (&str, &str) = ("authorization", "Bearer one");

    #[test]
    fn equal_requests_have_equal_keys() {
        let base = key_of(&[BEARER], None, BODY);
        for body in [
            r#"{"messages": [], "temperature": 0, "model": "m"}"#,
            r#"{"messages":[],"temperature":0,"model":"m","stream":false}"#,
            r#"{"messages":[],"temperature":0,"model":"m","stream":true}"#,
        ] {
            assert_eq!(key_of(&[BEARER], None, body), base, "{body}");
        }
        let telemetry = [
            BEARER,
            ("user-agent", "x"),
            ("x-stainless-retry-count", "2"),
            ("traceparent", "00-1"),
            ("idempotency-key", "i"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
        ];
        assert_eq!(key_of(&telemetry, None, BODY), base);
    }

    #[test]
    fn requests_that_differ_have_different_keys() {
        let mut keys = vec![
            key_of(&[BEARER], None, BODY),
            key_of(&[("authorization", "Bearer two")], None, BODY),
            key_of(&[("x-api-key", "Bearer one")], None, BODY),
            key_of(&[BEARER, ("cookie", "a=b")], None, BODY),
            key_of(&[], None, BODY),
            key_of(&[BEARER, ("anthropic-beta", "a")], None, BODY),
            key_of(&[BEARER, ("anthropic-beta", "b")], None, BODY),
            key_of(&[BEARER, ("x-unknown", "a")], None, BODY),
            key_of(&[BEARER, ("x-unknown", "b")], None, BODY),
            key_of(
                &[BEARER, ("x-unknown", "a"), ("x-unknown", "b")],
                None,
                BODY,
            ),
            key_of(&[BEARER], Some("a=1"), BODY),
            key_of(&[BEARER], Some("key=1"), BODY),
            key_of(&[BEARER], Some("key=2"), BODY),
        ];
        for body in [
            r#"{"model": "m", "messages": [], "temperature": 0.0}"#,
            r#"{"model": "m", "messages": [], "temperature": "0"}"#,
            r#"{"model": "m", "messages": [], "temperature": 0, "seed": 1}"#,
            r#"{"model": "m", "messages": [], "temperature": 0, "seed": "1"}"#,
            r#"{"model": "m", "messages": [], "temperature": 0, "x": {"stream": true}}"#,
            r#"{"model": "m", "messages": [], "temperature": 0, "stop": "a"}"#,
            r#"{"model": "m", "messages": [], "temperature": 0, "stop": ["a"]}"#,
        ] {
            keys.push(key_of(&[BEARER], None, body));
        }
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn accepting_events_belongs_to_the_form() {
        let of = |form: AnswerForm, accepted: &'static str| {
            let headers = HeaderMap::from_iter([(ACCEPT, accepted.parse().unwrap())]);
            headers_in_key(&headers, form, None, &DigestKey::new([7; 32]))
        };
        let (events, document) = ("text/event-stream", "application/json");
        let whole = of(AnswerForm::Whole, document);
        assert_eq!(of(AnswerForm::Events, events), whole);
        assert_eq!(of(AnswerForm::Events, document), whole);
        assert_ne!(of(AnswerForm::Whole, events), whole);
    }

    #[test]
    fn credentials_are_not_shown() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer secret-one".parse().unwrap());
        headers.insert("x-unknown-token", "secret-two".parse().unwrap());
        let body = key_body("{}").unwrap();
        let parts = CallParts {
            endpoint: Endpoint::chat(),
            upstream: "https://a.example",
            path: "/v1beta/x",
            query: Some("key=secret-three&alt=sse&%6bey=secret-four&sig=secret-five"),
            headers: &headers,
            body: &body,
            client: None,
            numbered_calls: 0,
            form: AnswerForm::Whole,
            agent: None,
            tenant: None,
        };
        let identity = CallIdentity::new(
            &parts,
            Sample::Any,
            &DigestKey::new([7; 32]),
            &SecretSet::empty(),
        );
        let shown = format!("{} {}", identity.input.readable(), identity.tenant());
        assert!(!shown.contains("secret-"), "{shown}");
        assert!(shown.contains("sse"), "{shown}");
    }

    #[test]
    fn bodies_without_a_canonical_form_are_named() {
        for body in [
            r#"{"a": 1, "a": 2}"#,
            r#"{"stream": true, "stream": false}"#,
            "{",
            "\u{feff}{}",
        ] {
            assert!(key_body(body).is_err(), "{body}");
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9_f64..1e9).prop_map(Value::from),
            "[a-z\"\\\\ é]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn bodies_that_differ_by_value_have_different_keys(one in json_value(), two in json_value()) {
            let body = |value: &Value| json!({"model": "m", "x": value}).to_string();
            let (first, second) = (body(&one), body(&two));
            let keys = (key_of(&[], None, &first), key_of(&[], None, &second));
            prop_assert_eq!(keys.0 == keys.1, first == second, "{} {}", first, second);
        }
    }
}
