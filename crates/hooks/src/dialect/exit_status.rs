//! Interprets exit codes and outputs.

use cachalot_core::text::truncate;
use serde_json::Value;

use super::handler_call::HandlerCall;
use super::output_object::OutputObject;
use super::repeated::Document;
use super::{Dialect, HandlerResponse, extra_text, output, strict};
use crate::Event;
use crate::input::Input;
use crate::output::{Fault, Output, append_line};

/// The maximum characters of a handler's stderr in a message.
const MAX_STDERR_CHARS: usize = 2_000;

/// Interprets the result of a handler: exit code 0 is an answer, 2 a block, any other a failure.
pub(super) fn read(
    dialect: Dialect,
    call: HandlerCall<'_>,
    input: &Input,
    ended: &HandlerResponse,
) -> Result<Output, Fault> {
    match (ended.code, ended.stdout_cut_at) {
        // The rest may deny, regardless of the part that was read.
        (0, Some(limit)) => Err(Fault::of_cut_output(format!(
            "it wrote more than {} MiB to stdout; reduce its output",
            limit >> 20
        ))),
        (0, None) => read_answer(dialect, call, input, &ended.stdout),
        // The exit code decides, however long the reason is.
        (2, _) => Ok(read_block(dialect, call.event, ended)),
        (code, _) => Err(Fault::new(match error_text(&ended.stderr) {
            Some(error_text) => format!("it ended with exit code {code}: {error_text}"),
            None => format!("it ended with exit code {code}"),
        })),
    }
}

/// Exit code 2: the reason is on stderr, or else on stdout.
fn read_block(dialect: Dialect, event: Event, ended: &HandlerResponse) -> Output {
    let reason = error_text(&ended.stderr).or_else(|| error_text(&ended.stdout));
    let mut output = Output::default();
    output::refuse(dialect, event, reason, &mut output);
    output
}

fn error_text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    (!text.is_empty()).then(|| truncate(text, MAX_STDERR_CHARS).into_owned())
}

fn read_answer(
    dialect: Dialect,
    call: HandlerCall<'_>,
    input: &Input,
    stdout: &[u8],
) -> Result<Output, Fault> {
    let said = stdout.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stdout);
    let said = said.trim_ascii();
    match said.first() {
        None => Ok(Output::default()),
        Some(b'{') => parse_output(dialect, call, input, said)
            .map_err(|fault| unreadable(call.event, said, fault)),
        Some(_) if call.strict_output => {
            Err(Fault::new("strict output: its output is not a JSON object"))
        }
        Some(_) => match extra_text::object(said) {
            Some((before, said)) => {
                let mut output = parse_output(dialect, call, input, said)?;
                append_line(&mut output.system_message, &extra_text::warning(before));
                Ok(output)
            }
            None if extra_text::is_mangled(dialect, call.event, said) => Err(unreadable(
                call.event,
                said,
                Fault::new(
                    "its output looks like a decision but is not JSON: write exactly one JSON object",
                ),
            )),
            None => Ok(read_plain_text(dialect, call.event, said)),
        },
    }
}

/// The fault of an output that cannot be read. It may deny if a denial can be recognized in it: other
/// parsers of JSON accept deeper nesting, lone surrogates and invalid UTF-8, all of which a guard may
/// quote from the call that it denies.
fn unreadable(event: Event, said: &[u8], fault: Fault) -> Fault {
    Fault {
        may_deny: extra_text::names_denial(event, said),
        ..fault
    }
}

fn parse_output(
    dialect: Dialect,
    call: HandlerCall<'_>,
    input: &Input,
    said: &[u8],
) -> Result<Output, Fault> {
    let text = std::str::from_utf8(said).map_err(|error| {
        Fault::new(format!(
            "its output is not UTF-8 from byte {}",
            error.valid_up_to()
        ))
    })?;
    let document: Document = serde_json::from_str(text)
        .map_err(|error| Fault::new(format!("its output is not valid JSON: {error}")))?;
    let read = |value: &Value| {
        let top = OutputObject::new(Some(value));
        let specific: Vec<&Value> = top.all("hook_specific_output").collect();
        if specific.iter().any(|specific| !specific.is_object()) {
            return Err(Fault::new("`hook_specific_output` is no object"));
        }
        let specific = specific
            .into_iter()
            .map(|specific| OutputObject::new(Some(specific)));
        let specific: Vec<OutputObject<'_>> = specific.collect();
        if call.strict_output {
            for specific in [OutputObject::new(None)].iter().chain(&specific) {
                strict::check(dialect, call, top, *specific)?;
            }
        }
        output::read(dialect, call, input, top, &specific)
    };
    let Some(key) = &document.repeated else {
        return read(&document.value);
    };
    // All values of a repeated key are checked, so that no denial is lost.
    let mut said = document.overridden.iter().chain([&document.value]);
    let repeated = format!("its output has the key `{key}` more than once");
    if let Some(refusal) = said.find_map(|said| output::refusal(said, &document.value)) {
        let mut output =
            output::read(dialect, call, input, OutputObject::new(Some(&refusal)), &[])?;
        let warning = format!("a hook objects, and {repeated}: nothing else of it counts");
        append_line(&mut output.system_message, &warning);
        return Ok(output);
    }
    match dialect {
        Dialect::DockerAgent => Err(Fault::new(repeated)),
        _ => read(&document.value),
    }
}

/// Handles text that is no JSON: context at some events of the dialect, a message for Gemini CLI,
/// otherwise ignored.
fn read_plain_text(dialect: Dialect, event: Event, said: &[u8]) -> Output {
    let text = String::from_utf8_lossy(said).into_owned();
    let mut output = Output::default();
    if dialect.vocabulary().plain_context.contains(&event) {
        output.additional_context = Some(text);
    } else if dialect == Dialect::Gemini {
        output.system_message = Some(text);
    }
    output
}
