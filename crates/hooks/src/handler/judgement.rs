//! Parses the decision in a model's answer.

use std::fmt;

use cachalot_core::text::{head, one_line};
use cachalot_model::OutputFormat;
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, MapAccess, Visitor};
use serde_json::{Value, json};

use crate::definition::Judgement;
use crate::output::{Decision, Fault};

/// A decision and its reason.
pub(super) type ReasonedDecision = (Decision, Option<String>);

impl Judgement {
    /// The output schema for providers, which enforce it if they can.
    pub(super) fn form(self) -> OutputFormat {
        let decisions: Vec<&str> = self.decisions().iter().map(|one| one.name()).collect();
        OutputFormat {
            name: self.name().to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "decision": { "type": "string", "enum": decisions },
                    "reason": { "type": "string" },
                },
                "required": ["decision", "reason"],
                "additionalProperties": false,
            }),
            strict: true,
        }
    }

    /// The name in files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "pre_tool_use_decision",
            Self::Guard => "guard_decision",
        }
    }

    fn decisions(self) -> &'static [Decision] {
        match self {
            Self::PreToolUse => &[Decision::Allow, Decision::Ask, Decision::Deny],
            Self::Guard => &[Decision::Allow, Decision::Deny],
        }
    }

    /// Parses an answer. For [`Judgement::Guard`], the whole answer must be the decision. For
    /// [`Judgement::PreToolUse`], it may be surrounded by text, and the strongest of several applies.
    ///
    /// # Errors
    /// The answer contains no decision, or an invalid one.
    pub(super) fn read(self, answer: &str) -> Result<ReasonedDecision, Fault> {
        match self {
            Self::Guard => self.exact(answer),
            Self::PreToolUse => self.embedded(answer),
        }
    }

    fn exact(self, answer: &str) -> Result<ReasonedDecision, Fault> {
        let said = serde_json::from_str::<Fields>(answer)
            .map_err(|error| self.invalid_answer(&error.to_string(), answer))?;
        let (mut decision, mut reason) = (None, None);
        for (name, value) in &said.0 {
            let place = match name.as_str() {
                "decision" => &mut decision,
                "reason" => &mut reason,
                _ => return Err(self.invalid_answer(&format!("a field `{name}`"), answer)),
            };
            if place.replace(value).is_some() {
                return Err(self.invalid_answer(&format!("two fields `{name}`"), answer));
            }
        }
        let known = |value: &Value| {
            let named = |decision: &&Decision| value.as_str() == Some(decision.name());
            self.decisions().iter().find(named).copied()
        };
        match (decision.and_then(known), reason) {
            (Some(decision), Some(Value::String(reason))) => Ok((decision, non_empty(reason))),
            (None, _) => Err(self.invalid_answer("no `decision` of those", answer)),
            (Some(_), _) => Err(self.invalid_answer("no `reason` in words", answer)),
        }
    }

    /// Considers only the outermost objects of the answer, not objects quoted within them.
    fn embedded(self, answer: &str) -> Result<ReasonedDecision, Fault> {
        let mut strongest: Option<ReasonedDecision> = None;
        for fields in objects::<Fields>(answer) {
            for decided in self.decided(&fields) {
                if strongest
                    .as_ref()
                    .is_none_or(|(decision, _)| decided.0 > *decision)
                {
                    strongest = Some(decided);
                }
            }
        }
        strongest.ok_or_else(|| self.invalid_answer("no decision", answer))
    }

    /// The decisions of an object: several if it repeats the key.
    fn decided(self, fields: &Fields) -> Vec<ReasonedDecision> {
        let known = |word: &str| {
            let named = |decision: &&Decision| word.trim().eq_ignore_ascii_case(decision.name());
            self.decisions().iter().find(named).copied()
        };
        let reason = fields.texts("reason").find_map(non_empty);
        fields
            .texts("decision")
            .filter_map(known)
            .map(|decision| (decision, reason.clone()))
            .collect()
    }

    fn invalid_answer(self, what: &str, answer: &str) -> Fault {
        /// Maximum characters of the answer in the message.
        const SHOWN: usize = 120;
        let line = one_line(answer);
        let decisions: Vec<&str> = self.decisions().iter().map(|one| one.name()).collect();
        Fault::new(format!(
            "the model's answer is no `{}` ({what}); expected {{\"decision\": \"{}\", \"reason\": …}}; it answered: {}",
            self.name(),
            decisions.join("|"),
            if line.is_empty() {
                "nothing"
            } else {
                head(&line, SHOWN)
            }
        ))
    }
}

/// Parses the outermost JSON objects in a text.
pub(super) fn objects<T: DeserializeOwned>(text: &str) -> impl Iterator<Item = T> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = from + text[from..].find('{')?;
            let mut stream = serde_json::Deserializer::from_str(&text[at..]).into_iter::<T>();
            if let Some(Ok(object)) = stream.next() {
                from = at + stream.byte_offset();
                return Some(object);
            }
            from = at + 1;
        }
    })
}

fn non_empty(reason: &str) -> Option<String> {
    let reason = reason.trim();
    (!reason.is_empty()).then(|| reason.to_owned())
}

/// The fields of an object in their order, including repeated ones.
struct Fields(Vec<(String, Value)>);

impl Fields {
    /// The text values of all fields with a name.
    fn texts<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = &'a str> {
        let of_name = self.0.iter().filter(move |(name, _)| name == wanted);
        of_name.filter_map(|(_, value)| value.as_str())
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'de> Visitor<'de> for Each {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/handler/judgement.rs"]
mod tests;
