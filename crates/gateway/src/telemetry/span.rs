//! A finished span and its attributes, by the semantic conventions of OpenTelemetry.

use cachalot_core::text::truncate;

/// The maximum length of a text in an attribute, in characters.
const MAX_TEXT: usize = 512;

pub(crate) type TraceId = [u8; 16];
pub(crate) type SpanId = [u8; 8];

/// A finished span.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parent: Option<SpanId>,
    /// True if the parent is a span of the client.
    pub(crate) has_remote_parent: bool,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    /// Nanoseconds since the Unix epoch.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: Attributes,
    pub(crate) has_failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Server,
    Client,
}

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attribute {
    Text(String),
    Integer(u64),
    Number(f64),
    Boolean(bool),
    Texts(Vec<String>),
}

/// Attributes, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Attributes(pub(crate) Vec<(&'static str, Attribute)>);

impl Attributes {
    /// Adds a text, unless it is empty. A long one is shortened.
    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        if !text.is_empty() {
            self.0
                .push((name, Attribute::Text(truncate(text, MAX_TEXT).into_owned())));
        }
    }

    pub(crate) fn texts(&mut self, name: &'static str, texts: &[&str]) {
        let texts = texts
            .iter()
            .map(|text| truncate(text, MAX_TEXT).into_owned());
        let texts = texts.collect();
        self.0.push((name, Attribute::Texts(texts)));
    }

    pub(crate) fn integer(&mut self, name: &'static str, value: u64) {
        self.0.push((name, Attribute::Integer(value)));
    }

    pub(crate) fn number(&mut self, name: &'static str, value: f64) {
        self.0.push((name, Attribute::Number(value)));
    }

    /// Adds `true`.
    pub(crate) fn flag(&mut self, name: &'static str) {
        self.0.push((name, Attribute::Boolean(true)));
    }
}
