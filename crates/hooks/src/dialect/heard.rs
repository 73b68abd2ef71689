//! Interprets exit codes and outputs.

use serde_json::Value;

use super::answer;
use super::repeated::Document;
use super::said::Said;
use super::{Dialect, Ended};
use super::{stray, strict};
use crate::Event;
use crate::definition::Entry;
use crate::input::Input;
use crate::output::{Fault, Output};

/// The maximum characters of a handler's stderr in a message.
const LONGEST_COMPLAINT: usize = 2_000;

/// Interprets the result of a handler: exit code 0 is an answer, 2 a block, any other a failure.
pub(super) fn read(
    dialect: Dialect,
    entry: &Entry,
    input: &Input,
    ended: &Ended,
) -> Result<Output, Fault> {
    match ended.code {
        0 => answered(dialect, entry, input, &ended.stdout),
        2 => Ok(refused(dialect, entry.event, ended)),
        code => Err(Fault::new(match complaint(&ended.stderr) {
            Some(complaint) => format!("it ended with exit code {code}: {complaint}"),
            None => format!("it ended with exit code {code}"),
        })),
    }
}

/// Exit code 2: the reason is on stderr, or else on stdout.
fn refused(dialect: Dialect, event: Event, ended: &Ended) -> Output {
    let reason = complaint(&ended.stderr).or_else(|| complaint(&ended.stdout));
    let mut output = Output::default();
    answer::refuse(dialect, event, reason, &mut output);
    output
}

fn complaint(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    match text.char_indices().nth(LONGEST_COMPLAINT) {
        Some((end, _)) => Some(format!("{}…", &text[..end])),
        None if text.is_empty() => None,
        None => Some(text.to_owned()),
    }
}

fn answered(
    dialect: Dialect,
    entry: &Entry,
    input: &Input,
    stdout: &[u8],
) -> Result<Output, Fault> {
    let said = stdout.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stdout);
    let said = said.trim_ascii();
    match said.first() {
        None => Ok(Output::default()),
        Some(b'{') => understood(dialect, entry, input, said).map_err(Fault::new),
        Some(_) if entry.definition.strict_output => Err(Fault::new(
            "strict output: it said something that is no JSON object",
        )),
        Some(_) => match stray::object(said) {
            Some((before, said)) => {
                let mut output = understood(dialect, entry, input, said).map_err(Fault::new)?;
                answer::join(&mut output.system_message, stray::warning(before));
                Ok(output)
            }
            None if stray::is_mangled(dialect, entry.event, said) => Err(Fault::new(
                "it said something that looks like a decision and is no JSON: its output has to be one JSON object and nothing else",
            )),
            None => Ok(remark(dialect, entry.event, said)),
        },
    }
}

fn understood(
    dialect: Dialect,
    entry: &Entry,
    input: &Input,
    said: &[u8],
) -> Result<Output, String> {
    let text = std::str::from_utf8(said).map_err(|error| {
        format!(
            "what it said is not UTF-8 from byte {}",
            error.valid_up_to()
        )
    })?;
    let document: Document = serde_json::from_str(text)
        .map_err(|error| format!("what it said is no valid JSON: {error}"))?;
    let read = |value: &Value| {
        let top = Said::of(Some(value));
        let specific: Vec<&Value> = top.all("hook_specific_output").collect();
        if specific.iter().any(|specific| !specific.is_object()) {
            return Err("`hook_specific_output` is no object".to_owned());
        }
        let specific = specific
            .into_iter()
            .map(|specific| Said::of(Some(specific)));
        let specific: Vec<Said<'_>> = specific.collect();
        if entry.definition.strict_output {
            for specific in [Said::of(None)].iter().chain(&specific) {
                strict::check(dialect, entry, top, *specific)?;
            }
        }
        answer::read(dialect, entry, input, top, &specific)
    };
    let Some(key) = &document.repeated else {
        return read(&document.value);
    };
    // All values of a repeated key are checked, so that no denial is lost.
    let mut said = document.lost.iter().chain([&document.value]);
    let repeated = format!("its output has the key `{key}` more than once");
    if let Some(refusal) = said.find_map(|said| answer::refusal(said, &document.value)) {
        let mut output = answer::read(dialect, entry, input, Said::of(Some(&refusal)), &[])?;
        let warning = format!("a hook objects, and {repeated}: nothing else of it counts");
        answer::join(&mut output.system_message, warning);
        return Ok(output);
    }
    match dialect {
        Dialect::DockerAgent => Err(repeated),
        _ => read(&document.value),
    }
}

/// Handles text that is no JSON: context at some events of the dialect, a message for Gemini CLI,
/// otherwise ignored.
fn remark(dialect: Dialect, event: Event, said: &[u8]) -> Output {
    let text = String::from_utf8_lossy(said).into_owned();
    let mut output = Output::default();
    if dialect.vocabulary().plain_context.contains(&event) {
        output.additional_context = Some(text);
    } else if dialect == Dialect::Gemini {
        output.system_message = Some(text);
    }
    output
}
