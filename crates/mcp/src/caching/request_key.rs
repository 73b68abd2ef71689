//! The input of a call: everything that can change the answer to a request, and nothing else.

use std::collections::BTreeMap;

use cachalot_core::canonical::CanonicalError;
use cachalot_core::{Canonical, Digest, ObjectEncoder, SecretSet};
use serde_json::{Map, Value, json};

use super::credentials;
use super::request_parts::{OMITTED_META, RequestParts};
use super::server_info::ServerInfo;

/// The version of inputs and stored answers: when it is raised, older answers are never found.
const FORMAT_VERSION: u32 = 2;

/// The inputs of a request besides its parameters.
pub(super) struct KeyParts<'a> {
    pub(super) method: &'a str,
    /// The identity of the server.
    pub(super) server: &'a Canonical,
    /// The name of the process of the server, if the answer may depend on what it remembers.
    pub(super) process: Option<&'a str>,
    /// The description that the server gives of itself, its version for example.
    pub(super) server_info: Option<&'a ServerInfo>,
    /// The digest of the definition of the tool.
    pub(super) definition: Option<Digest>,
    /// The digest of what the policy says: an answer that was stored under another one is not served.
    pub(super) policy: Digest,
    /// The negotiated revision of the protocol.
    pub(super) version: &'a str,
    /// The digest of the capabilities of the client.
    pub(super) capabilities: Option<Digest>,
    /// The digest of the roots of the client.
    pub(super) roots: Option<Digest>,
    pub(super) headers: &'a BTreeMap<String, String>,
}

/// Returns the input of a call.
///
/// # Errors
/// If the parameters have no canonical form, for example because a member is there twice.
pub(super) fn input(
    parts: &RequestParts<'_>,
    key: &KeyParts<'_>,
    secret_set: &SecretSet,
) -> Result<Canonical, CanonicalError> {
    let KeyParts {
        method,
        server,
        process,
        server_info,
        definition,
        policy,
        version,
        capabilities,
        roots,
        headers,
    } = key;
    let hex = |digest: &Option<Digest>| json!(digest.map(|digest| digest.to_hex()));
    let arguments = match parts.arguments {
        Some(arguments) => Some(Canonical::json(arguments.as_bytes())?),
        None => None,
    };
    let meta = match parts.meta {
        Some(meta) => Some(Canonical::json_without(meta.as_bytes(), &OMITTED_META)?),
        None => None,
    };
    let other = Canonical::json_without(parts.params.as_bytes(), &["arguments", "_meta"])?;
    let mut input = ObjectEncoder::sealed(secret_set);
    if let Some(arguments) = &arguments {
        input.canonical("arguments", arguments);
    }
    input.field("capabilities", &hex(capabilities));
    input.field("definition", &hex(definition));
    input.field("format", &json!(FORMAT_VERSION));
    let mut of_arguments = credentials::of_arguments(headers).peekable();
    if of_arguments.peek().is_some() {
        let of_arguments = of_arguments.map(|(name, value)| (name.clone(), json!(value)));
        input.field(
            "headers",
            &Value::Object(of_arguments.collect::<Map<_, _>>()),
        );
    }
    // Without what the client always sends, `_meta` is empty, as if it were absent.
    if let Some(meta) = meta.filter(|meta| meta.len() > EMPTY_OBJECT) {
        input.canonical("meta", &meta);
    }
    input.text("method", method);
    input.canonical("other", &other);
    input.text("policy", &policy.to_hex());
    if let Some(process) = process {
        input.text("process", process);
    }
    if roots.is_some() {
        input.field("roots", &hex(roots));
    }
    input.canonical("server", server);
    input.field("server_info", &json!(server_info.map(ServerInfo::keyed)));
    input.text("version", version);
    Ok(input.finish())
}

/// The number of canonical bytes of an object without members.
const EMPTY_OBJECT: usize = 2;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Default, PartialEq)]
    struct Case {
        method: &'static str,
        server: u8,
        process: Option<&'static str>,
        info: Option<u8>,
        definition: Option<u8>,
        policy: u8,
        version: &'static str,
        capabilities: Option<u8>,
        roots: Option<u8>,
        header: Option<&'static str>,
        name: &'static str,
        arguments: Option<&'static str>,
        meta: Option<&'static str>,
        other: Option<&'static str>,
    }

    /// Differences between two equal calls.
    #[derive(Debug, Clone)]
    struct Noise {
        token: u32,
        trace: String,
        client: &'static str,
        level: &'static str,
        first: bool,
    }

    fn digest(of: Option<u8>) -> Option<Digest> {
        of.map(|of| Digest::sha256(&[of]))
    }

    fn of(case: &Case, noise: &Noise) -> Canonical {
        let noisy = format!(
            r#""progressToken":{},"traceparent":{:?},"io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/logLevel":{:?}"#,
            noise.token, noise.trace, noise.client, noise.level
        );
        let meta = match case.meta {
            Some(own) if noise.first => format!("{{{noisy},\"own\":{own}}}"),
            Some(own) => format!("{{\"own\":{own},{noisy}}}"),
            None => format!("{{{noisy}}}"),
        };
        let mut members = vec![
            format!("\"name\":{:?}", case.name),
            format!("\"_meta\":{meta}"),
        ];
        members.extend(case.arguments.map(|it| format!("\"arguments\":{it}")));
        members.extend(case.other.map(|it| format!("\"other\":{it}")));
        if noise.first {
            members.reverse();
        }
        let params = format!("{{{}}}", members.join(","));
        let parts = RequestParts::read(Some(&params)).unwrap();
        let headers = case
            .header
            .map(|it| ("mcp-param-a".to_owned(), it.to_owned()));
        let info = case.info.map(|info| format!("{{\"version\":\"{info}\"}}"));
        let info = info.and_then(|info| ServerInfo::read(&info));
        let key = KeyParts {
            method: case.method,
            server: &Canonical::value(&json!(case.server)),
            process: case.process,
            server_info: info.as_ref(),
            definition: digest(case.definition),
            policy: Digest::sha256(&[case.policy]),
            version: case.version,
            capabilities: digest(case.capabilities),
            roots: digest(case.roots),
            headers: &headers.into_iter().collect(),
        };
        input(&parts, &key, &SecretSet::empty()).unwrap()
    }

    fn case() -> impl Strategy<Value = Case> {
        let values = || {
            prop::option::of(prop::sample::select(vec![
                "{}",
                "{\"a\":1}",
                "{\"a\":1.0}",
                "{\"a\":1180591620717411303424}",
                "{\"a\":1180591620717411303425}",
                "{\"a\":\"1\"}",
                "{\"a\":null}",
                "{\"a\":[1,2]}",
            ]))
        };
        (
            prop::sample::select(vec!["tools/call", "resources/read"]),
            0..2_u8,
            prop::option::of(prop::sample::select(vec!["1", "2"])),
            prop::option::of(0..2_u8),
            (prop::option::of(0..2_u8), 0..2_u8),
            prop::sample::select(vec!["2025-11-25", "2026-07-28"]),
            prop::option::of(0..2_u8),
            prop::option::of(prop::sample::select(vec!["1", "2"])),
            prop::sample::select(vec!["one", "two"]),
            (values(), values(), values(), prop::option::of(0..2_u8)),
        )
            .prop_map(
                |(
                    method,
                    server,
                    process,
                    info,
                    (definition, policy),
                    version,
                    capabilities,
                    header,
                    name,
                    values,
                )| {
                    Case {
                        method,
                        server,
                        process,
                        info,
                        definition,
                        policy,
                        version,
                        capabilities,
                        roots: values.3,
                        header,
                        name,
                        arguments: values.0,
                        meta: values.1,
                        other: values.2,
                    }
                },
            )
    }

    fn noise() -> impl Strategy<Value = Noise> {
        (
            any::<u32>(),
            "[a-f0-9]{8}",
            prop::sample::select(vec!["{}", "{\"name\":\"c\"}"]),
            prop::sample::select(vec!["debug", "error"]),
            any::<bool>(),
        )
            .prop_map(|(token, trace, client, level, first)| Noise {
                token,
                trace,
                client,
                level,
                first,
            })
    }

    proptest! {
        #[test]
        fn keys_are_equal_exactly_for_calls_that_differ_in_nothing_that_matters(
            one in case(), two in case(), noise in noise(), other in noise(),
        ) {
            prop_assert_eq!(of(&one, &noise), of(&one, &other));
            prop_assert_eq!(of(&one, &noise) == of(&two, &other), one == two);
        }
    }

    #[test]
    fn a_member_that_is_there_twice_has_no_key() {
        for params in [
            r#"{"name":"a","arguments":{"a":1,"a":2}}"#,
            r#"{"name":"a","name":"b"}"#,
            r#"{"name":"a","arguments":{},"arguments":{}}"#,
            r#"{"name":"a","_meta":{"progressToken":1,"progressToken":2}}"#,
        ] {
            let parts = RequestParts::read(Some(params)).unwrap();
            let key = KeyParts {
                method: "tools/call",
                server: &Canonical::value(&json!({})),
                process: None,
                server_info: None,
                definition: None,
                policy: Digest::sha256(b""),
                version: "",
                capabilities: None,
                roots: None,
                headers: &BTreeMap::new(),
            };
            assert!(
                input(&parts, &key, &SecretSet::empty()).is_err(),
                "{params}"
            );
        }
    }
}
