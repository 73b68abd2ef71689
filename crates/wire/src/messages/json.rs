//! A writer of JSON text.

use bytes::Bytes;
use serde_json::Value;

use crate::Rendered;

/// JSON text under construction.
#[derive(Default)]
pub(crate) struct Json(Vec<u8>);

impl Json {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes the text after this length.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    /// Appends text that is JSON, or a part of it.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    pub(crate) fn string(&mut self, text: &str) -> &mut Self {
        // Writing text into memory does not fail.
        serde_json::to_writer(&mut self.0, text).unwrap_or_default();
        self
    }

    pub(crate) fn value(&mut self, value: &Value) -> &mut Self {
        // Writing a value into memory does not fail either, because its keys are texts.
        serde_json::to_writer(&mut self.0, value).unwrap_or_default();
        self
    }

    /// Appends members to an object that is not empty, except those in `but`.
    pub(crate) fn members<'a>(
        &mut self,
        members: impl IntoIterator<Item = (&'a String, &'a Value)>,
        but: &[&str],
    ) -> &mut Self {
        members
            .into_iter()
            .filter(|(key, _)| !but.contains(&key.as_str()))
            .for_each(|(key, value)| {
                self.raw(",").string(key).raw(":").value(value);
            });
        self
    }

    /// Appends the schema of a tool's parameters. A schema without a `type` gets the type `object`.
    pub(crate) fn schema(&mut self, schema: &Value) -> &mut Self {
        match schema {
            Value::Null => self.raw(r#"{"type":"object"}"#),
            Value::Object(fields) if !fields.contains_key("type") => self
                .raw(r#"{"type":"object""#)
                .members(fields, &[])
                .raw("}"),
            schema => self.value(schema),
        }
    }

    /// Returns the offset of the closing brace that was written last.
    pub(crate) fn before_brace(&self) -> Option<u32> {
        u32::try_from(self.0.len().checked_sub(1)?).ok()
    }

    pub(crate) fn rendered(self, mark_at: Option<u32>) -> Rendered {
        Rendered {
            bytes: Bytes::from(self.0),
            mark_at,
        }
    }
}
