//! OpenAI Responses.
//!
//! The last event of a stream has the whole response; the events before it repeat its parts.

use serde_json::{Value, json};

use crate::conversion::texts::{pieces, pieces_with_logprobs};
use crate::conversion::{Conversion, Event, Object, Stream, members, text};

/// Members of a response that are null before its end.
const END: [&str; 5] = [
    "completed_at",
    "error",
    "incomplete_details",
    "moderation",
    "usage",
];
/// Beginnings of the types of events, after `response.`, that only report parts of the whole response.
const PARTS: [&str; 9] = [
    "content_part.",
    "custom_tool_call_input.",
    "function_call_arguments.",
    "output_item.added",
    "output_text.",
    "reasoning_summary_part.",
    "reasoning_summary_text.",
    "reasoning_text.",
    "refusal.",
];

/// The two forms of answers of Responses.
pub(super) static FORMS: Conversion = Conversion::new(document, stream);

/// Returns the response of a stream.
fn document(stream: &Stream) -> Option<Object> {
    let (last, before) = stream.events.split_last()?;
    let response = response(last)?;
    let status = text(response, "status")?;
    let is_end = matches!(status, "completed" | "incomplete")
        && last.kind()?.strip_prefix("response.") == Some(status);
    let output = response.get("output")?.as_array()?;
    let mut finished = 0;
    for event in before {
        match event.kind()? {
            "response.completed" | "response.incomplete" | "response.failed" => return None,
            "response.created" | "response.queued" | "response.in_progress" => {
                // Some servers leave members out at the end.
                let mut names = self::response(event)?.keys();
                names
                    .all(|name| response.contains_key(name))
                    .then_some(())?;
            }
            "response.output_item.done" => {
                let index = usize::try_from(event.data.get("output_index")?.as_u64()?).ok()?;
                (index == finished).then_some(())?;
                let item = event.data.get("item")?;
                is_same_item(item, output.get(index)?).then_some(())?;
                finished += 1;
            }
            kind => {
                let kind = kind.strip_prefix("response.")?;
                // Errors, tools that the provider runs, and unknown events.
                PARTS.iter().find(|part| kind.starts_with(**part))?;
            }
        }
    }
    (is_end && finished == output.len()).then(|| response.clone())
}

fn response(event: &Event) -> Option<&Object> {
    event.data.get("response")?.as_object()
}

/// Compares two reports of a finished item. Each may be encrypted anew.
fn is_same_item(left: &Value, right: &Value) -> bool {
    let [left, right] = [left, right].map(|item| {
        let mut item = item.clone();
        if let Some(Value::String(text)) = item.get_mut("encrypted_content") {
            text.clear();
        }
        item
    });
    left == right
}

/// Returns the stream of a response.
fn stream(response: &Object, _includes_usage: bool) -> Option<Stream> {
    let kind = match text(response, "status")? {
        "completed" => "response.completed",
        "incomplete" => "response.incomplete",
        _ => return None,
    };
    let mut begin = response.clone();
    *begin.get_mut("status")? = "in_progress".into();
    let output = std::mem::replace(begin.get_mut("output")?, json!([]));
    for name in END {
        if let Some(value) = begin.get_mut(name) {
            *value = Value::Null;
        }
    }
    let mut events = Events::default();
    for kind in ["response.created", "response.in_progress"] {
        events.push(kind, &Object::new(), [("response", begin.clone().into())]);
    }
    for (index, item) in output.as_array()?.iter().enumerate() {
        events.item(index, item.as_object()?)?;
    }
    let whole = response.clone().into();
    events.push(kind, &Object::new(), [("response", whole)]);
    Some(events.0)
}

/// Events with consecutive numbers.
#[derive(Default)]
struct Events(Stream);

impl Events {
    /// Appends an event with the members of `place`, which identifies an item or a part.
    fn push<const N: usize>(&mut self, kind: &str, place: &Object, own: [(&str, Value); N]) {
        let mut event = members([
            ("type", kind.into()),
            ("sequence_number", self.0.events.len().into()),
        ]);
        event.extend(place.clone());
        event.extend(members(own));
        self.0.push_typed(event);
    }

    fn item(&mut self, index: usize, item: &Object) -> Option<()> {
        let mut begin = item.clone();
        for (name, value) in &mut begin {
            match (name.as_str(), &*value) {
                ("status", _) => *value = "in_progress".into(),
                ("content" | "summary", Value::Array(_)) => *value = json!([]),
                ("arguments", _) => *value = "".into(),
                _ => {}
            }
        }
        let place = members([("output_index", index.into())]);
        let added = [("item", begin.into())];
        self.push("response.output_item.added", &place, added);
        let place = members([
            ("item_id", text(item, "id")?.into()),
            ("output_index", index.into()),
        ]);
        match text(item, "type")? {
            "message" => self.parts(&place, "content", item.get("content")?)?,
            "reasoning" => {
                self.parts(&place, "summary", item.get("summary")?)?;
                if let Some(content) = item.get("content").filter(|content| !content.is_null()) {
                    self.parts(&place, "content", content)?;
                }
            }
            "function_call" => {
                let arguments = text(item, "arguments")?;
                for piece in pieces(arguments) {
                    let own = [("delta", piece.into())];
                    self.push("response.function_call_arguments.delta", &place, own);
                }
                let own = [
                    ("arguments", arguments.into()),
                    ("name", text(item, "name")?.into()),
                ];
                self.push("response.function_call_arguments.done", &place, own);
            }
            // Tools that the provider runs, and unknown items.
            _ => return None,
        }
        let place = members([("output_index", index.into())]);
        let done = [("item", item.clone().into())];
        self.push("response.output_item.done", &place, done);
        Some(())
    }

    /// Appends the events of the parts in `list`, a member of an item.
    fn parts(&mut self, place: &Object, list: &str, parts: &Value) -> Option<()> {
        for (index, part) in parts.as_array()?.iter().enumerate() {
            let mut place = place.clone();
            place.insert(format!("{list}_index"), index.into());
            self.part(&place, list, part.as_object()?)?;
        }
        Some(())
    }

    fn part(&mut self, place: &Object, list: &str, part: &Object) -> Option<()> {
        let (of_part, of_text, member) = match (list, text(part, "type")?) {
            ("content", "output_text") => ("content_part", "output_text", "text"),
            ("content", "refusal") => ("content_part", "refusal", "refusal"),
            ("content", "reasoning_text") => ("content_part", "reasoning_text", "text"),
            ("summary", "summary_text") => {
                ("reasoning_summary_part", "reasoning_summary_text", "text")
            }
            _ => return None,
        };
        let whole = text(part, member)?;
        let is_text = of_text == "output_text";
        let list = |name: &str| match part.get(name) {
            Some(Value::Array(list)) => list.as_slice(),
            _ => &[],
        };
        let (logprobs, annotations) = (list("logprobs"), list("annotations"));

        let mut begin = part.clone();
        begin.insert(member.to_owned(), "".into());
        for name in ["logprobs", "annotations"] {
            if let Some(Value::Array(list)) = begin.get_mut(name) {
                list.clear();
            }
        }
        let added = format!("response.{of_part}.added");
        self.push(&added, place, [("part", begin.into())]);
        // Events of output text have probabilities, even if there are none.
        let further = |mut place: Object, logprobs: &[Value]| {
            if is_text {
                place.insert("logprobs".into(), logprobs.into());
            }
            place
        };
        let delta = format!("response.{of_text}.delta");
        for (piece, logprobs) in pieces_with_logprobs(whole, logprobs) {
            let place = further(place.clone(), logprobs);
            self.push(&delta, &place, [("delta", piece.into())]);
        }
        for (index, annotation) in annotations.iter().enumerate() {
            let own = [
                ("annotation_index", index.into()),
                ("annotation", annotation.clone()),
            ];
            self.push("response.output_text.annotation.added", place, own);
        }
        let own = [(member, whole.into())];
        let done = further(place.clone(), logprobs);
        self.push(&format!("response.{of_text}.done"), &done, own);
        let own = [("part", part.clone().into())];
        self.push(&format!("response.{of_part}.done"), place, own);
        Some(())
    }
}
