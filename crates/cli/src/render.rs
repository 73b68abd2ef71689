//! Output for users. Everything that is printed passes through this module.

pub(crate) mod excerpt;
pub(crate) mod explanation;
pub(crate) mod failure;
pub(crate) mod html;
pub(crate) mod local_time;
pub(crate) mod long_text;
pub(crate) mod plan;
pub(crate) mod problems;
pub(crate) mod progress;
pub(crate) mod reason;
pub(crate) mod stdout;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod verdict;
pub(crate) mod visible;

use std::io::Write as _;
use std::time::Duration;

use cachalot_core::Spend;
pub(crate) use cachalot_core::text::grouped;
use serde::Serialize;
use serde::ser::{SerializeSeq as _, Serializer as _};
use serde_json::Value;

use self::style::Style;
use crate::command_error::{CommandError, Result};

/// Verbosity of a run or of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Errors, and the answer of a chat.
    Quiet,
    /// Also steps, tool calls and totals.
    Normal,
    /// Also the model's reasoning, and the reasons why the cache did not answer.
    Verbose,
}

impl Level {
    /// Returns the level that `--quiet` and `--verbose` select.
    pub(crate) fn from_flags(is_quiet: bool, is_verbose: bool) -> Self {
        match (is_quiet, is_verbose) {
            (true, _) => Self::Quiet,
            (_, true) => Self::Verbose,
            _ => Self::Normal,
        }
    }
}

/// Prints one indented JSON document on stdout.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).map_err(std::io::Error::from)?;
    text.push('\n');
    out(&text)
}

/// Prints the elements that `each` passes to its argument as one indented JSON array on stdout, as they come. After an
/// error the array has no end.
///
/// # Errors
/// Those of `each`, and of stdout.
pub(crate) async fn json_array<T: Serialize>(
    each: impl AsyncFnOnce(&mut (dyn FnMut(T) -> Result<()> + Send)) -> Result<()>,
) -> Result<()> {
    let mut stdout = std::io::BufWriter::new(stdout::open()?);
    let mut serializer = serde_json::Serializer::pretty(&mut stdout);
    let mut array = serializer
        .serialize_seq(None)
        .map_err(std::io::Error::from)?;
    let mut printed = 0_u64;
    let mut print = |element: T| -> Result<()> {
        printed += 1;
        array
            .serialize_element(&element)
            .map_err(std::io::Error::from)?;
        Ok(())
    };
    match each(&mut print).await {
        Err(CommandError::Failed {
            code,
            message,
            problem,
        }) if printed > 0 => {
            let message = format!(
                "the output ends after {}: {message}",
                count(printed, "entry", "entries")
            );
            return Err(CommandError::Failed {
                code,
                message,
                problem,
            });
        }
        done => done?,
    }
    array.end().map_err(std::io::Error::from)?;
    stdout.write_all(b"\n")?;
    stdout.flush()?;
    Ok(())
}

/// Returns a JSON object with the members of another one, which replace those of the same names.
pub(crate) fn with_members(mut object: Value, members: Value) -> Value {
    if let (Value::Object(object), Value::Object(members)) = (&mut object, members) {
        object.extend(members);
    }
    object
}

/// Prints text on stdout.
pub(crate) fn out(text: &str) -> Result<()> {
    // Keeps output of several threads apart.
    let _turn = std::io::stdout().lock();
    let mut stdout = stdout::open()?;
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Prints a line on stderr. Failures are ignored: there is no other place to report them.
pub(crate) fn err(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a warning on stderr.
pub(crate) fn warn(message: &str) {
    let warning = Style::of_stderr().notable("warning:");
    err(&format!("{warning} {message}"));
}

/// Prints a part of a line on stderr.
pub(crate) fn err_part(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

/// Formats a duration: `1.84 s`, `12 ms`, `0 s`, `2 min 5 s`.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if time.is_zero() {
        "0 s".to_owned()
    } else if seconds < 0.001 {
        format!("{:.0} µs", seconds * 1_000_000.0)
    } else if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1_000.0)
    } else if seconds < 60.0 {
        format!("{seconds:.2} s")
    } else if seconds < 3_600.0 {
        format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
    } else {
        format!(
            "{} h {} min",
            time.as_secs() / 3_600,
            time.as_secs() / 60 % 60
        )
    }
}

/// Formats duration and cost: `1.84 s`, `1.84 s, 1,204 tokens in, 34 out, $0.03`.
pub(crate) fn spend(spend: &Spend) -> String {
    let mut text = time(spend.time);
    if spend.input_tokens + spend.output_tokens > 0 {
        text += &format!(
            ", {} tokens in, {} out",
            grouped(spend.input_tokens),
            grouped(spend.output_tokens)
        );
    }
    if !spend.cost.is_zero() {
        text += &format!(", {}", spend.cost);
    }
    text
}

/// Returns the same as JSON; tokens and money only if there are any.
pub(crate) fn spend_json(spend: &Spend) -> Value {
    let mut fields = serde_json::json!({
        "calls": spend.calls,
        "ms": spend.time.as_secs_f64() * 1_000.0,
    });
    if spend.input_tokens + spend.output_tokens > 0 {
        fields["input_tokens"] = spend.input_tokens.into();
        fields["output_tokens"] = spend.output_tokens.into();
    }
    if spend.cost.picodollars > 0 {
        fields["dollars"] = spend.cost.dollars().into();
    }
    if spend.cost.unpriced > 0 {
        fields["unpriced_calls"] = spend.cost.unpriced.into();
    }
    fields
}

/// Formats a size: `512 B`, `1.5 KiB`, `3.0 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1_024.0;
    let mut unit = 0;
    while size >= 1_024.0 && unit + 1 < UNITS.len() {
        size /= 1_024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Returns the warning that an MCP server has other tools than at the beginning of a session.
pub(crate) fn tools_changed(server: &str) -> String {
    format!(
        "the MCP server `{server}` has other tools now; /reload takes them over, and so does a new session (/new)"
    )
}

/// Formats a count: `1 call`, `2,000 calls`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{} {many}", grouped(number))
    }
}

/// Returns the text, with `…` in place of everything beyond `maximum` characters.
pub(crate) fn cut(text: &str, maximum: usize) -> String {
    match text.char_indices().nth(maximum) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_formatted_for_reading() {
        let times = [0, 340, 12_000, 1_840_000, 125_000_000, 7_380_000_000];
        let shown: Vec<String> = times
            .iter()
            .map(|us| time(Duration::from_micros(*us)))
            .collect();
        assert_eq!(
            shown,
            ["0 s", "340 µs", "12 ms", "1.84 s", "2 min 5 s", "2 h 3 min"]
        );
        let shown: Vec<String> = [0, 1_023, 1_536, 3 << 20].map(bytes).to_vec();
        assert_eq!(shown, ["0 B", "1023 B", "1.5 KiB", "3.0 MiB"]);
    }
}
