//! OTLP in its JSON encoding: `ExportTraceServiceRequest` of `opentelemetry-proto`.
//!
//! Identifiers are hexadecimal digits, enumerations are numbers, and integers of 64 bits are decimal texts, as the
//! specification demands.

use serde_json::{Value, json};

use crate::telemetry::span::{Attribute, Attributes, Span, SpanKind};

/// The instrumentation scope of all spans.
const SCOPE: &str = "cachalot-gateway";

/// The flag of a trace that is recorded.
const SAMPLED: u32 = 0x01;
/// Says that [`IS_REMOTE`] has a meaning.
const HAS_IS_REMOTE: u32 = 0x100;
/// Says that the parent is in another process.
const IS_REMOTE: u32 = 0x200;

/// `STATUS_CODE_ERROR`.
const ERROR: u32 = 2;

/// Encodes spans of a service; `instance` identifies the process.
pub(super) fn encode<'a>(
    service_name: &str,
    instance: &str,
    spans: impl Iterator<Item = &'a Span>,
) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let mut resource = Attributes::default();
    resource.text("service.name", service_name);
    resource.text("service.version", version);
    resource.text("service.instance.id", instance);
    let spans: Vec<Value> = spans.map(span).collect();
    let document = json!({
        "resourceSpans": [{
            "resource": {"attributes": attributes(&resource)},
            "scopeSpans": [{
                "scope": {"name": SCOPE, "version": version},
                "spans": spans,
            }],
        }],
    });
    document.to_string().into_bytes()
}

fn span(span: &Span) -> Value {
    let kind = match span.kind {
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    };
    let remote = if span.has_remote_parent { IS_REMOTE } else { 0 };
    let mut document = json!({
        "traceId": hex::encode(span.trace),
        "spanId": hex::encode(span.id),
        "flags": SAMPLED | HAS_IS_REMOTE | remote,
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes(&span.attributes),
    });
    if let Some(parent) = &span.parent {
        document["parentSpanId"] = hex::encode(parent).into();
    }
    if span.has_failed {
        document["status"] = json!({"code": ERROR});
    }
    document
}

fn attributes(attributes: &Attributes) -> Value {
    let attributes = attributes.0.iter();
    let attributes = attributes.map(|(name, attribute)| {
        let value = match attribute {
            Attribute::Text(text) => json!({"stringValue": text}),
            Attribute::Integer(value) => json!({"intValue": value.to_string()}),
            Attribute::Number(value) => json!({"doubleValue": value}),
            Attribute::Boolean(value) => json!({"boolValue": value}),
            Attribute::Texts(texts) => {
                let values = texts.iter().map(|text| json!({"stringValue": text}));
                json!({"arrayValue": {"values": values.collect::<Value>()}})
            }
        };
        json!({"key": name, "value": value})
    });
    attributes.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn example() -> Span {
        let mut attributes = Attributes::default();
        attributes.text("gen_ai.request.model", "gpt-4o \"mini\"\n");
        attributes.text("empty", "");
        attributes.integer("gen_ai.usage.input_tokens", 9_007_199_254_740_993);
        attributes.number("cachalot.paid_dollars", 0.25);
        attributes.flag("cachalot.client_left");
        attributes.texts("gen_ai.response.finish_reasons", &["stop"]);
        Span {
            trace: [0x0a; 16],
            id: [0xb0; 8],
            parent: Some([0x01; 8]),
            has_remote_parent: true,
            name: "chat gpt-4o".into(),
            kind: SpanKind::Server,
            start: 1_800_000_000_123_456_789,
            end: 1_800_000_000_123_456_790,
            attributes,
            has_failed: true,
        }
    }

    fn encoded(span: &Span) -> Value {
        let document = encode("service", "run-1", std::iter::once(span));
        serde_json::from_slice(&document).unwrap()
    }

    #[test]
    fn spans_are_encoded_as_the_specification_demands() {
        let text = |text: &str| json!({"stringValue": text});
        let expected = json!({"resourceSpans": [{
            "resource": {"attributes": [
                {"key": "service.name", "value": text("service")},
                {"key": "service.version", "value": text(env!("CARGO_PKG_VERSION"))},
                {"key": "service.instance.id", "value": text("run-1")},
            ]},
            "scopeSpans": [{
                "scope": {"name": "cachalot-gateway", "version": env!("CARGO_PKG_VERSION")},
                "spans": [{
                    "traceId": "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
                    "spanId": "b0b0b0b0b0b0b0b0",
                    "parentSpanId": "0101010101010101",
                    "flags": 0x301,
                    "name": "chat gpt-4o",
                    "kind": 2,
                    "startTimeUnixNano": "1800000000123456789",
                    "endTimeUnixNano": "1800000000123456790",
                    "attributes": [
                        {"key": "gen_ai.request.model", "value": text("gpt-4o \"mini\"\n")},
                        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "9007199254740993"}},
                        {"key": "cachalot.paid_dollars", "value": {"doubleValue": 0.25}},
                        {"key": "cachalot.client_left", "value": {"boolValue": true}},
                        {"key": "gen_ai.response.finish_reasons", "value": {"arrayValue": {"values": [text("stop")]}}},
                    ],
                    "status": {"code": 2},
                }],
            }],
        }]});
        assert_eq!(encoded(&example()), expected);
    }

    #[test]
    fn absent_parts_are_left_out() {
        let span = Span {
            parent: None,
            has_remote_parent: false,
            kind: SpanKind::Client,
            has_failed: false,
            ..example()
        };
        let document = encoded(&span);
        let span = &document["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!((&span["kind"], &span["flags"]), (&json!(3), &json!(0x101)));
        assert!(span.get("parentSpanId").is_none() && span.get("status").is_none());
    }

    #[test]
    fn long_texts_are_shortened() {
        let mut attributes = Attributes::default();
        attributes.text("cachalot.reason", &"ä".repeat(10_000));
        let Attribute::Text(text) = &attributes.0[0].1 else {
            panic!("{attributes:?}");
        };
        assert_eq!(text.chars().count(), 513);
    }
}
