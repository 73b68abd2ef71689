//! Parses a whole answer: an interaction with its steps.

use cachalot_core::{Digest, json};
use serde_json::{Value, json};

use super::request::is_content;
use super::{MEMBERS, MODEL_OUTPUT, STEP_NOTE, usage};
use crate::error::{Error, ErrorKind};
use crate::extra;
use crate::openai::{self, Object, malformed, text_of};
use crate::{Block, Format, Message, Reasoning, Reply, Role, StopReason, ToolUse, Usage};

/// Members of a request that an answer has, too, and that say something of the answer.
const OF_ANSWERS: [&str; 2] = ["continuation_token", "service_tier"];

/// A step of an answer.
pub(super) struct Step {
    pub(super) fields: Object,
    /// The arguments of a call as the model wrote them; `None` for those in `fields`.
    pub(super) arguments: Option<String>,
}

/// Parses an interaction.
pub(super) fn whole(body: &[u8]) -> Result<Reply, Error> {
    let mut interaction = openai::parse(body, "the body")?;
    let steps = match interaction.shift_remove("steps") {
        Some(Value::Array(steps)) => steps,
        // What has failed has none.
        None | Some(Value::Null) if !is_completed(&interaction) => Vec::new(),
        None | Some(Value::Null) => return Err(malformed("it has no steps")),
        Some(_) => return Err(malformed("its `steps` are no list")),
    };
    let text = std::str::from_utf8(body).unwrap_or_default();
    let written = json::member(text, "steps").map(json::elements);
    let written = written.unwrap_or_default();
    let mut read = Vec::with_capacity(steps.len());
    for (at, step) in steps.into_iter().enumerate() {
        let Value::Object(fields) = step else {
            return Err(malformed("a step is no object"));
        };
        let arguments = written
            .get(at)
            .and_then(|step| json::member(step, "arguments"));
        read.push(Step {
            fields,
            arguments: arguments.map(str::to_owned),
        });
    }
    reply(interaction, read)
}

fn is_completed(interaction: &Object) -> bool {
    text_of(interaction, "status") == Some("completed")
}

/// Returns the answer of an interaction and its steps.
pub(super) fn reply(mut interaction: Object, steps: Vec<Step>) -> Result<Reply, Error> {
    let error = interaction.get("error").filter(|error| !error.is_null());
    if let Some(error) = error {
        return Err(openai::provider_error(error));
    }
    let status = match text_of(&interaction, "status") {
        None => return Err(malformed("it has no status")),
        Some("failed") => return Err(failure(&interaction)),
        Some(status @ ("cancelled" | "queued" | "in_progress")) => {
            return Err(Error::new(
                ErrorKind::CutOff,
                format!("the answer is not complete (its status is {status}); ask again"),
            ));
        }
        Some(status) => status.to_owned(),
    };
    steps.iter().try_for_each(|step| check(&step.fields))?;
    let id = text_of(&interaction, "id").map(str::to_owned);
    let model = text_of(&interaction, "model").unwrap_or_default();
    let model = model.trim_start_matches("models/").to_owned();
    let fields = steps.iter().map(|step| &step.fields);
    let web_searches = usage::web_searches(&interaction, fields, &model);
    let usage = interaction.get("usage").and_then(usage::usage);
    let usage = usage.map(|usage| Usage {
        web_searches,
        ..usage
    });
    let is_given = |fields: &Object, name: &str| {
        let value = fields.get(name).filter(|value| !value.is_null());
        value.is_some_and(|value| value.as_array().is_none_or(|errors| !errors.is_empty()))
    };
    let is_failed = is_given(&interaction, "errors")
        || steps.iter().any(|step| is_given(&step.fields, "error"));
    let blocks = blocks(steps, id.as_deref().unwrap_or_default());
    let has_calls = blocks
        .iter()
        .any(|block| matches!(block, Block::ToolUse(_)));
    let stop = match status.as_str() {
        "completed" | "requires_action" if is_failed => StopReason::Other("error".to_owned()),
        "completed" | "requires_action" if has_calls => StopReason::ToolUse,
        "completed" => StopReason::End,
        "incomplete" => StopReason::Length,
        // `budget_exceeded`, `requires_continuation`: the answer is not complete, and nothing continues it.
        _ => StopReason::Other(status),
    };
    for read in ["id", "object", "model", "status"] {
        interaction.shift_remove(read);
    }
    // The others repeat the request.
    interaction.retain(|name, value| {
        let is_of_answer = OF_ANSWERS.contains(&name.as_str());
        !value.is_null() && (is_of_answer || MEMBERS.of_request(name).is_none())
    });
    Ok(Reply {
        message: Message::new(Role::Assistant, blocks),
        stop,
        usage,
        model,
        id,
        extra: interaction,
    })
}

/// Returns the first error of an interaction that failed, or a general one if it has none.
fn failure(interaction: &Object) -> Error {
    let errors = interaction.get("errors").and_then(Value::as_array);
    match errors.and_then(|errors| errors.first()) {
        Some(error) => openai::provider_error(error),
        None => Error::new(
            ErrorKind::Unavailable,
            "the provider failed without a reason; retry",
        ),
    }
}

fn blocks(steps: Vec<Step>, interaction: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut follows_output = false;
    for (at, step) in steps.into_iter().enumerate() {
        let is_output = is_type(&step.fields, MODEL_OUTPUT);
        match text_of(&step.fields, "type") {
            Some(MODEL_OUTPUT) => model_output(step.fields, at, follows_output, &mut blocks),
            Some("function_call") => blocks.push(function_call(step, at, interaction)),
            Some("thought") => blocks.push(Block::Reasoning(Reasoning {
                text: openai::paragraphs(texts(&step.fields, "summary")),
                format: Format::Interactions,
                verbatim: step.fields.into(),
            })),
            _ => blocks.push(other(step.fields.into())),
        }
        follows_output = is_output;
    }
    blocks
}

fn other(verbatim: Value) -> Block {
    Block::Other {
        format: Format::Interactions,
        verbatim,
    }
}

pub(super) fn is_type(fields: &Object, kind: &str) -> bool {
    text_of(fields, "type") == Some(kind)
}

/// Checks that what the model says is a list of contents.
pub(super) fn check(step: &Object) -> Result<(), Error> {
    let is_list = match step.get("content") {
        None | Some(Value::Null) => true,
        Some(Value::Array(contents)) => contents.iter().all(Value::is_object),
        Some(_) => false,
    };
    if is_list || !is_type(step, MODEL_OUTPUT) {
        Ok(())
    } else {
        Err(malformed("the content of a step is no list of objects"))
    }
}

/// Returns the texts of a list of contents.
pub(super) fn texts<'a>(step: &'a Object, list: &str) -> impl Iterator<Item = &'a str> {
    let contents = step.get(list).and_then(Value::as_array);
    contents.into_iter().flatten().filter_map(|content| {
        let is_text = content.get("type").is_some_and(|kind| kind == "text");
        content.get("text").filter(|_| is_text)?.as_str()
    })
}

/// Parses the contents of a step of the model, each to a block. Texts have a note if the step follows another one of
/// its type, or has further fields.
fn model_output(mut step: Object, at: usize, follows_output: bool, blocks: &mut Vec<Block>) {
    let contents = step.shift_remove("content");
    step.shift_remove("type");
    let needs_note = follows_output || !step.is_empty();
    let mut note = needs_note.then(|| json!({"index": at, "fields": step}));
    let Some(Value::Array(contents)) = contents else {
        return;
    };
    for content in contents {
        let mut content = match content {
            Value::Object(content) if is_type(&content, "text") => content,
            content if is_content(&content) => {
                blocks.push(other(content));
                continue;
            }
            // Sent back as a step, because only the provider knows what it is.
            content => {
                blocks.push(other(json!({"type": MODEL_OUTPUT, "content": [content]})));
                continue;
            }
        };
        let text = match content.shift_remove("text") {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        content.shift_remove("type");
        if let Some(note) = &mut note {
            content.insert(STEP_NOTE.to_owned(), note.clone());
            // The first text of a step has its fields, the others its number.
            if let Some(note) = note.as_object_mut() {
                note.shift_remove("fields");
            }
        }
        blocks.push(Block::Text {
            text,
            extra: extra::from_wire(Format::Interactions, content),
        });
    }
}

fn function_call(step: Step, at: usize, interaction: &str) -> Block {
    let Step {
        mut fields,
        arguments,
    } = step;
    let id = text_of(&fields, "id").map_or_else(|| derived_id(interaction, at), str::to_owned);
    let name = text_of(&fields, "name").unwrap_or_default().to_owned();
    let parsed = fields.shift_remove("arguments").unwrap_or_default();
    let arguments = match (arguments, parsed) {
        (Some(written), _) if written.trim() != "null" => written,
        (_, Value::Null) => "{}".to_owned(),
        (_, parsed) => parsed.to_string(),
    };
    for read in ["type", "id", "name"] {
        fields.shift_remove(read);
    }
    Block::ToolUse(ToolUse {
        id,
        name,
        arguments,
        extra: extra::from_wire(Format::Interactions, fields),
    })
}

/// Derives an id for a call without one; reading the same answer again yields the same id.
fn derived_id(interaction: &str, at: usize) -> String {
    let at = at.to_string();
    let digest = Digest::sha256_of_parts(&[interaction.as_bytes(), at.as_bytes()]).to_hex();
    format!("call_{}", digest.get(..24).unwrap_or_default())
}
