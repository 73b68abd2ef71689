//! `llm.call` and `llm.stream`: one question to a model, in any wire format.

mod answer_schema;
mod choice;
mod line_reporter;
mod messages;
mod program_call;
mod provider_call;
mod result;

use async_trait::async_trait;
use cachalot_cache::Witness;
use program_call::ProgramCall;
use serde_json::Value;

use super::arguments::{
    any, concatenated, count, declared_by, duration, integer, list, number, object, text,
};
use crate::{
    Action, Arguments, Failure, Operation, OperationMetadata, Parameter, Planned, Runtime, spending,
};

pub(super) use choice::{default, with_prefix};
pub(super) use program_call::unknown_program;
use provider_call::ProviderCall;

/// Parameters of the question itself.
#[rustfmt::skip]
const QUESTION_PARAMETERS: [Parameter; 6] = [
    list("messages", "The conversation: mappings with `role` (`system`, `developer`, `user`, `assistant`, `tool`) and `content` (text, or parts as of OpenAI's chat)."),
    text("prompt", "One message of the user, instead of `messages` or after them."),
    text("system", "The system prompt."),
    object("response_format", "The JSON Schema of the answer, or OpenAI's `{type: json_schema, json_schema: {name, schema, strict}}`; the parsed answer is then `data`."),
    list("tools", "Tools that the model may ask for, as of OpenAI's chat; the calls are in `tool_calls`, nothing is run."),
    any("tool_choice", "`auto`, `none`, `required`, or the name of a tool."),
];

/// Parameters of the model, for all actions that ask one.
#[rustfmt::skip]
pub(super) const MODEL_PARAMETERS: [Parameter; 14] = [
    text("model", "The model: a key of `models`, `provider/model`, or a model's own name; `settings.llm.model` by default."),
    text("provider", "The provider, unless the model's name contains it."),
    text("shell_provider", "With `provider: shell`: the program that answers, of `settings.llm.shell_providers` or one that is known (`claude`, `codex`, `cursor`, `gemini`, `opencode`, `qwen`)."),
    text("base_url", "The provider's address. Its key then comes from `token_key` alone.").with_aliases(&["api_base"]),
    text("token_key", "The environment variable that holds the provider's key."),
    number("temperature", "Sampling temperature."),
    integer("max_tokens", "The maximum number of tokens of the answer, reasoning included."),
    number("top_p", "Nucleus sampling."),
    any("stop", "Text, or a list of texts, at which the answer ends."),
    text("reasoning_effort", "The reasoning effort, as its provider calls it: `low`, `medium`, `high`."),
    object("provider_opts", "Further fields of the request, sent as they are."),
    list("fallbacks", "Models to ask in this order when the model is overloaded, limits, fails or cannot be reached, and nothing of its answer was shown."),
    duration("timeout", "The maximum time of one try, from connecting to the end of the answer; with `provider: shell`, after which the program and what it started are killed. In no key.").unkeyed(),
    count("max_retries", (0, 10), "The maximum number of retries of transient errors, 0 to 10, including timeouts; 2 by default, and then not after a timeout. Not part of the cache key.").unkeyed(),
];

const PARAMETERS: &[Parameter] = &concatenated::<20>(&QUESTION_PARAMETERS, &MODEL_PARAMETERS);

pub(super) static CALL: OperationMetadata = OperationMetadata::declared(
"llm.call",
&["actions.llm_call"],
"Asks a model. The result has `content`, `model`, `stop_reason`, `usage` and `cost` (dollars; null if the price is not known). \
          Keys come from the environment (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, …); `settings.llm` gives defaults for all parameters.",
PARAMETERS,
)
.read_only();

pub(super) static STREAM: OperationMetadata = OperationMetadata::declared(
    "llm.stream",
    &["actions.llm_stream"],
    "The same as `llm.call`, but the answer is shown while it grows.",
    PARAMETERS,
)
.read_only();

/// One of the two actions, which differ in how the answer is shown.
pub(super) struct LlmAction {
    about: &'static OperationMetadata,
    /// True if the answer is shown while it streams.
    shows_stream: bool,
}

impl LlmAction {
    pub(super) const CALL: Self = Self {
        about: &CALL,
        shows_stream: false,
    };
    pub(super) const STREAM: Self = Self {
        about: &STREAM,
        shows_stream: true,
    };
}

#[async_trait]
impl Operation for LlmAction {
    declared_by!(self.about);

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        inputs(self.about, arguments, runtime)
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let outcome = run(self, arguments, runtime).await;
        outcome.map(|(answer, _)| answer)
    }
}

#[async_trait]
impl Action for LlmAction {
    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        plan(self.about, &arguments, runtime)
    }

    fn alternatives(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<Arguments> {
        match program_call::program_name(self.about, arguments, runtime) {
            Ok(Some(_)) => program_call::alternatives(arguments, runtime),
            Ok(None) => provider_call::alternatives(self.about, arguments, runtime),
            Err(_) => Vec::new(),
        }
    }

    async fn run_without_alternatives(
        &self,
        arguments: Arguments,
        runtime: &Runtime,
        _witness: &Witness,
    ) -> Result<Value, Failure> {
        if let Some(name) = program_call::program_name(self.about, &arguments, runtime)? {
            let ask = ProgramCall::new(self.about, &arguments, name, runtime)?;
            return ask.answer(runtime, self.shows_stream).await;
        }
        let ask = ProviderCall::new(self.about, &arguments, runtime)?;
        ask.answer(runtime, self.shows_stream).await
    }
}

/// Returns the inputs besides the arguments that change the answer, for keys.
pub(super) fn inputs(
    about: &'static OperationMetadata,
    arguments: &Arguments,
    runtime: &Runtime,
) -> Result<Value, Failure> {
    match program_call::program_name(about, arguments, runtime)? {
        Some(name) => {
            let ask = ProgramCall::new(about, arguments, name, runtime)?;
            Ok(ask.identity(runtime))
        }
        None => provider_call::identity(about, arguments, runtime),
    }
}

/// Prepares the question without asking it.
pub(super) fn plan(
    about: &'static OperationMetadata,
    arguments: &Arguments,
    runtime: &Runtime,
) -> Result<Planned, Failure> {
    match program_call::program_name(about, arguments, runtime)? {
        Some(name) => ProgramCall::new(about, arguments, name, runtime).map(drop)?,
        None => ProviderCall::new(about, arguments, runtime).map(drop)?,
    }
    Ok(spending::unwrapped_plan())
}

/// Asks the question of another action as `llm.call` asks it: with its defaults, retries, fallbacks, budget
/// and accounting. The surrounding wrap does not store the answer of a fallback, because its key names the
/// model.
pub(super) async fn ask_embedded(
    arguments: Arguments,
    runtime: &Runtime,
) -> Result<Value, Failure> {
    let (answer, is_from_fallback) = run(&LlmAction::CALL, arguments, runtime).await?;
    if is_from_fallback {
        spending::decline_storing("a fallback of the model answered");
    }
    Ok(answer)
}

/// Asks the model, then its fallbacks, until one answers. The flag is true if a fallback answered.
async fn run(
    action: &dyn Action,
    arguments: Arguments,
    runtime: &Runtime,
) -> Result<(Value, bool), Failure> {
    let witness = Witness::default();
    let alternatives = action.alternatives(&arguments, runtime);
    let mut failed = match action
        .run_without_alternatives(arguments, runtime, &witness)
        .await
    {
        Err(failure) if failure.allows_alternatives => failure,
        outcome => return outcome.map(|answer| (answer, false)),
    };
    for arguments in alternatives {
        match action
            .run_without_alternatives(arguments, runtime, &witness)
            .await
        {
            Ok(result) => return Ok((result, true)),
            Err(failure) => failed = failed.with_alternative(failure),
        }
        if !failed.allows_alternatives {
            break;
        }
    }
    Err(failed)
}
