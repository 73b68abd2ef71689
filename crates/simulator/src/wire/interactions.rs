//! Gemini's Interactions: <https://ai.google.dev/gemini-api/docs/interactions-overview>.

mod steps;
mod stored;
mod write;

use serde_json::{Value, json};

use super::{
    ApiError, Object, Prompt, Request, Thinking, ValidationContext, check, is_true, items, openai,
    present, refuse, text_of,
};
use crate::accounting::openai::{Block, Mode};
use crate::dialogue::{Choice, Dialogue, OfferedTool};

pub(crate) use stored::StoredInteractions;
pub(super) use write::error_event;

/// Fields of the request on which the form of the answer depends.
#[derive(Debug, Clone)]
pub(crate) struct ResponseParameters {
    pub(super) model: String,
    /// Tier that the request asks for.
    pub(super) tier: Option<String>,
    /// The interaction that the request continues.
    pub(super) previous: Option<String>,
    /// True if later requests may continue the interaction.
    pub(super) is_stored: bool,
    /// The steps of the conversation before the answer.
    pub(super) steps: Vec<Value>,
}

pub(super) fn read(body: &Value, validation: &ValidationContext<'_>) -> Result<Request, ApiError> {
    let Some(request) = body.as_object() else {
        return refuse("Invalid JSON payload received. An object is expected.");
    };
    unsupported(request)?;
    let model = text_of(request, "model");
    if model.is_empty() {
        return refuse("Either 'model' or 'agent' must be specified.");
    }
    let previous = present(request, "previous_interaction_id").and_then(Value::as_str);
    let mut steps = match previous {
        Some(id) => validation.interactions.steps(validation.namespace, id)?,
        None => Vec::new(),
    };
    steps.extend(steps::given(request)?);
    steps::check_results(&steps)?;
    let empty = Object::new();
    let config = request.get("generation_config").and_then(Value::as_object);
    let config = config.unwrap_or(&empty);
    let tools = tools(request)?;
    let choice = choice(config, &tools)?;
    let schema = output_schema(request);

    let said = steps.iter().filter_map(steps::dialogue_item);
    let dialogue = Dialogue::new(model, tools, choice, schema.clone(), said);
    let mut blocks: Vec<Block> = items(request.get("tools"))
        .map(|tool| openai::block(openai::tool_content(tool)))
        .collect();
    if let Some(system) = present(request, "system_instruction").and_then(Value::as_str) {
        blocks.push(openai::block(super::content("system", system)));
    }
    blocks.extend(steps.iter().map(steps::block));
    let schema = schema.map(|schema| schema.to_string()).unwrap_or_default();
    let stop_sequences = items(config.get("stop_sequences")).filter_map(Value::as_str);
    Ok(Request {
        dialogue,
        prompt: Prompt::OpenAi(crate::accounting::openai::Prompt {
            namespace: validation.namespace,
            model: model.to_owned(),
            cache_key: None,
            settings: super::content("interactions", schema),
            blocks,
            mode: Mode::Implicit,
            lifetime: None,
        }),
        long_writes: 0,
        limit: config.get("max_output_tokens").and_then(Value::as_u64),
        stop_sequences: stop_sequences.map(str::to_owned).collect(),
        is_streamed: is_true(request, "stream"),
        thinking: match text_of(config, "thinking_summaries") {
            "auto" => Thinking::Always,
            _ => Thinking::Never,
        },
        response_parameters: super::ResponseParameters::Interactions(Box::new(
            ResponseParameters {
                model: model.to_owned(),
                tier: present(request, "service_tier")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                previous: previous.map(str::to_owned),
                is_stored: request.get("store") != Some(&Value::Bool(false)),
                steps,
            },
        )),
    })
}

/// Refuses features that the simulator does not support.
fn unsupported(request: &Object) -> Result<(), ApiError> {
    for key in ["agent", "background", "continuation_token"] {
        let is_set = |value: &Value| !value.is_null() && *value != Value::Bool(false);
        if request.get(key).is_some_and(is_set) {
            let message = format!("The simulator does not have '{key}': leave it out.");
            return Err(ApiError::with_status(400, message));
        }
    }
    Ok(())
}

fn tools(request: &Object) -> Result<Vec<OfferedTool>, ApiError> {
    let functions = items(request.get("tools"))
        .filter_map(Value::as_object)
        .filter(|tool| text_of(tool, "type") == "function");
    let mut offered = Vec::new();
    for function in functions {
        let name = text_of(function, "name");
        if name.is_empty() {
            return refuse("Invalid value at 'tools': a function needs a name.");
        }
        offered.push(OfferedTool {
            name: name.to_owned(),
            schema: present(function, "parameters")
                .cloned()
                .unwrap_or_else(|| json!({"type": "object"})),
        });
    }
    let names = offered.iter().map(|tool: &OfferedTool| tool.name.as_str());
    match check::first_duplicate(names) {
        Some(name) => refuse(format!("Duplicate function declaration found: {name}")),
        None => Ok(offered),
    }
}

/// Parses `generation_config.tool_choice`: a mode, or the tools that are allowed with their mode.
fn choice(config: &Object, tools: &[OfferedTool]) -> Result<Choice, ApiError> {
    let allowed = config
        .get("tool_choice")
        .and_then(|choice| choice.get("allowed_tools"));
    let mode = match allowed {
        Some(allowed) => allowed.get("mode").and_then(Value::as_str),
        None => config.get("tool_choice").and_then(Value::as_str),
    };
    let names = items(allowed.and_then(|allowed| allowed.get("tools")));
    let mut names = names.filter_map(Value::as_str);
    match (mode, names.next()) {
        (None | Some("auto" | "validated"), _) => Ok(Choice::Auto),
        (Some("none"), _) => Ok(Choice::None),
        (Some("any"), Some(name)) if tools.iter().any(|tool| tool.name == name) => {
            Ok(Choice::Named(name.to_owned()))
        }
        (Some("any"), Some(name)) => refuse(format!(
            "Invalid value at 'generation_config.tool_choice': '{name}' is not among the tools"
        )),
        (Some("any"), None) if tools.is_empty() => {
            refuse("Invalid value at 'generation_config.tool_choice': there are no functions")
        }
        (Some("any"), None) => Ok(Choice::Any),
        (Some(other), _) => refuse(format!(
            "Invalid value at 'generation_config.tool_choice', \"{other}\""
        )),
    }
}

/// Returns the schema that `response_format`, one format or a list, requires of a text.
fn output_schema(request: &Object) -> Option<Value> {
    let format = request.get("response_format")?;
    let all = format
        .as_array()
        .map_or(std::slice::from_ref(format), Vec::as_slice);
    let mut texts = all
        .iter()
        .filter(|format| format.get("type") == Some(&json!("text")));
    let text = texts.next()?;
    let schema = text.get("schema").filter(|schema| !schema.is_null());
    let is_json = text.get("mime_type") == Some(&json!("application/json"));
    schema
        .cloned()
        .or_else(|| is_json.then(|| json!({"type": "object"})))
}
