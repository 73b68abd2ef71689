//! The two forms of an interaction. The last event of a stream has the interaction without the steps, which the events
//! before it have.

use serde_json::{Value, json};

use super::MODEL_OUTPUT;
use super::partial_steps::PartialSteps;
use super::stream::TRANSIENT_FIELDS;
use crate::conversion::texts::pieces;
use crate::conversion::{Conversion, Event, Object, Stream, has_only, members, owned};
use crate::conversion::{parse, text};

/// Members of every event. An ID resumes a stream at the provider, which a stream that was made here has nothing of.
const OF_EVENTS: [&str; 2] = ["event_id", KIND];
/// The member with the type of an event.
const KIND: &str = "event_type";

/// The two forms of answers.
pub(super) static FORMS: Conversion = Conversion {
    // A stream may leave it out.
    is_complete: |whole| whole.get("usage").is_some_and(Value::is_object),
    ..Conversion::new(document, stream)
};

/// Returns the interaction of a stream.
fn document(stream: &Stream) -> Option<Object> {
    let (last, before) = stream.events.split_last()?;
    let (first, before) = before.split_first()?;
    let begun = interaction(first, "interaction.created")?;
    let mut whole = interaction(last, "interaction.completed")?.clone();
    let status = text(&whole, "status")?.to_owned();
    for (name, value) in begun {
        if !TRANSIENT_FIELDS.contains(&name.as_str()) && !whole.contains_key(name) {
            whole.insert(name.clone(), value.clone());
        }
    }
    let mut steps = Steps::default();
    for event in before {
        match event.kind_in(KIND)? {
            "interaction.status_update" => {
                let status_now = text(&event.data, "status")?;
                let is_plain = has_members(event, &["interaction_id", "status"]);
                (is_plain && [status.as_str(), "in_progress"].contains(&status_now))
                    .then_some(())?;
            }
            kind => steps.add(kind, event)?,
        }
    }
    let steps = steps.finish()?;
    match whole.insert("steps".to_owned(), steps.clone()) {
        None | Some(Value::Null) => {}
        // Some servers repeat the steps.
        Some(repeated) => (repeated == steps).then_some(())?,
    }
    Some(whole)
}

/// Returns the interaction in an event of this type.
fn interaction<'a>(event: &'a Event, expected: &str) -> Option<&'a Object> {
    let is_expected = event.kind_in(KIND)? == expected && has_members(event, &["interaction"]);
    let interaction = event.data.get("interaction")?.as_object()?;
    is_expected.then_some(interaction)
}

/// Returns true if an event has no members but these and those of every event.
fn has_members(event: &Event, names: &[&str]) -> bool {
    let mut given = event.data.keys().map(String::as_str);
    given.all(|name| OF_EVENTS.contains(&name) || names.contains(&name))
}

/// The steps of a stream, one after another.
#[derive(Default)]
struct Steps {
    steps: PartialSteps,
    ended: u64,
    open: Option<OpenStep>,
}

/// A step that has begun.
struct OpenStep {
    kind: String,
    has_signature: bool,
}

impl Steps {
    /// Adds an event; `None` if it is not one of the model's own steps, in their order.
    fn add(&mut self, kind: &str, event: &Event) -> Option<()> {
        let is_next = event.data.get("index")?.as_u64() == Some(self.ended);
        is_next.then_some(())?;
        match kind {
            "step.start" if self.open.is_none() && has_members(event, &["index", "step"]) => {
                let step = event.data.get("step")?.as_object()?;
                self.open = Some(OpenStep {
                    kind: own_kind(step)?.to_owned(),
                    has_signature: step.contains_key("signature"),
                });
                self.steps.begin(self.ended, step.clone()).ok()?;
            }
            "step.delta" if has_members(event, &["index", "delta", "metadata"]) => {
                let delta = event.data.get("delta")?.as_object()?;
                self.open.as_mut()?.accepts(delta).then_some(())?;
                let metadata = event.data.get("metadata").and_then(Value::as_object);
                metadata
                    .is_none_or(|metadata| has_only(metadata, &["total_usage"]))
                    .then_some(())?;
                self.steps.add(self.ended, delta.clone()).ok()?;
            }
            // The counts of tokens until now.
            "step.stop"
                if self.open.is_some() && has_members(event, &["index", "step_usage", "usage"]) =>
            {
                self.open = None;
                self.ended += 1;
            }
            _ => return None,
        }
        Some(())
    }

    fn finish(self) -> Option<Value> {
        self.open.is_none().then_some(())?;
        let steps = self.steps.into_steps().into_iter().map(|step| {
            let mut fields = step.fields;
            if let Some(arguments) = step.arguments {
                let begun = fields.get("arguments").and_then(Value::as_object);
                begun.is_none_or(Object::is_empty).then_some(())?;
                fields.insert("arguments".to_owned(), parse(&arguments)?);
            }
            let is_call = text(&fields, "type") == Some("function_call");
            let has_arguments = fields.get("arguments").is_some_and(Value::is_object);
            (has_arguments || !is_call).then_some(())?;
            Some(Value::Object(fields))
        });
        steps.collect::<Option<Vec<_>>>().map(Value::Array)
    }
}

impl OpenStep {
    /// Returns true for a piece that is one of the step's own, without further members.
    fn accepts(&mut self, delta: &Object) -> bool {
        let has_text = |object: &Object, name: &str| {
            text(object, name).is_some() && has_only(object, &["type", name])
        };
        match (self.kind.as_str(), text(delta, "type")) {
            (MODEL_OUTPUT, Some("text")) => has_text(delta, "text"),
            ("function_call", Some("arguments_delta")) => has_text(delta, "arguments"),
            ("thought", Some("thought_summary")) => {
                let content = delta.get("content").and_then(Value::as_object);
                content.is_some_and(is_text) && has_only(delta, &["type", "content"])
            }
            ("thought", Some("thought_signature")) => {
                let is_first = !std::mem::replace(&mut self.has_signature, true);
                is_first && has_text(delta, "signature")
            }
            _ => false,
        }
    }
}

/// Returns the type of a step that the model writes without tools of the provider.
fn own_kind(step: &Object) -> Option<&str> {
    let kind = text(step, "type")?;
    [MODEL_OUTPUT, "thought", "function_call"]
        .contains(&kind)
        .then_some(kind)
}

/// Returns true for a text without further members.
fn is_text(content: &Object) -> bool {
    text(content, "type") == Some("text")
        && text(content, "text").is_some()
        && has_only(content, &["type", "text"])
}

/// Returns the stream of an interaction.
fn stream(whole: &Object, _includes_usage: bool) -> Option<Stream> {
    let status = text(whole, "status")?;
    ["completed", "requires_action", "incomplete"]
        .contains(&status)
        .then_some(())?;
    let mut ended = whole.clone();
    let steps = ended.shift_remove("steps")?;
    let mut begun = ended.clone();
    begun.retain(|name, _| !TRANSIENT_FIELDS.contains(&name.as_str()));
    begun.insert("status".to_owned(), "in_progress".into());
    let mut stream = Stream::default();
    push(
        &mut stream,
        "interaction.created",
        [("interaction", begun.into())],
    );
    let id = whole.get("id").cloned().unwrap_or_default();
    push(
        &mut stream,
        "interaction.status_update",
        [("interaction_id", id), ("status", "in_progress".into())],
    );
    for (index, step) in steps.as_array()?.iter().enumerate() {
        push_step(&mut stream, index, step.as_object()?)?;
    }
    push(
        &mut stream,
        "interaction.completed",
        [("interaction", ended.into())],
    );
    stream.is_done = true;
    Some(stream)
}

/// Appends an event with its type.
fn push<const N: usize>(stream: &mut Stream, kind: &str, own: [(&str, Value); N]) {
    let mut data = members(own);
    data.insert(KIND.to_owned(), kind.into());
    stream.push_named(data, KIND);
}

/// Appends the events of a step.
fn push_step(stream: &mut Stream, index: usize, step: &Object) -> Option<()> {
    // The members that pieces follow for.
    let streamed: &[&str] = match own_kind(step)? {
        "thought" => &["summary", "signature"],
        "function_call" => &["arguments"],
        _ => &["content"],
    };
    let is_begun = |(name, _): &(&String, &Value)| !streamed.contains(&name.as_str());
    let mut begun: Object = step.iter().filter(is_begun).map(owned).collect();
    let mut deltas = Vec::new();
    for name in streamed {
        match (*name, step.get(*name)) {
            (_, None) => {}
            ("arguments", Some(arguments)) => {
                begun.insert((*name).to_owned(), json!({}));
                let arguments = arguments
                    .as_object()
                    .map(|arguments| Value::from(arguments.clone()))?;
                let arguments = arguments.to_string();
                deltas.extend(pieces(&arguments).map(|piece| {
                    members([
                        ("type", "arguments_delta".into()),
                        ("arguments", piece.into()),
                    ])
                }));
            }
            ("signature", Some(signature)) => deltas.push(members([
                ("type", "thought_signature".into()),
                ("signature", text(step, name).map(|_| signature.clone())?),
            ])),
            (_, Some(contents)) => {
                let contents = contents.as_array()?;
                if contents.is_empty() {
                    begun.insert((*name).to_owned(), json!([]));
                }
                for content in contents {
                    let content = content.as_object().filter(|content| is_text(content))?;
                    for piece in pieces_or_empty(text(content, "text")?) {
                        let text = members([("type", "text".into()), ("text", piece.into())]);
                        deltas.push(match *name {
                            "content" => text,
                            _ => members([
                                ("type", "thought_summary".into()),
                                ("content", text.into()),
                            ]),
                        });
                    }
                }
            }
        }
    }
    let index = Value::from(index);
    push(
        stream,
        "step.start",
        [("index", index.clone()), ("step", begun.into())],
    );
    for delta in deltas {
        push(
            stream,
            "step.delta",
            [("index", index.clone()), ("delta", delta.into())],
        );
    }
    push(stream, "step.stop", [("index", index)]);
    Some(())
}

/// Splits a text into pieces; an empty one is a piece.
fn pieces_or_empty(text: &str) -> impl Iterator<Item = &str> {
    let empty = text.is_empty().then_some("");
    pieces(text).chain(empty)
}
