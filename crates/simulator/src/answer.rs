//! An answer before a format renders it: truncated at the limits of the request, with token counts.

use serde_json::{Value, json};

use crate::ids::Ids;
use crate::reply::{ScriptedCall, ScriptedReply, ScriptedStop, ScriptedUsage};
use crate::tokens;

/// The content of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) reasoning: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) calls: Vec<AnsweredCall>,
    pub(crate) stop: StopReason,
}

/// A tool call, with its arguments as text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnsweredCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// Reason for the end of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopReason {
    End,
    ToolCalls,
    Length,
    Refusal,
    /// A stop sequence of the request.
    Sequence(String),
}

/// Input tokens of a request. The fields add up to the whole input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InputTokens {
    /// Tokens neither read from the cache nor written to it.
    pub uncached: u64,
    /// Tokens read from the cache.
    pub read: u64,
    /// Tokens written for five minutes (Anthropic), or for the only lifetime (OpenAI).
    pub written: u64,
    /// Tokens written for one hour.
    pub written_1h: u64,
    /// Tokens written for twelve hours (OpenAI).
    pub written_12h: u64,
}

/// All tokens of a request and its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TokenCounts {
    pub(crate) input: InputTokens,
    pub(crate) output: u64,
    /// Reasoning tokens within the output.
    pub(crate) reasoning: u64,
}

impl Answer {
    /// The reasoning as far as a client sees it; empty if only its signature is visible.
    pub(crate) fn shown_reasoning(&self, is_hidden: bool) -> Option<&str> {
        let reasoning = self.reasoning.as_deref();
        reasoning.map(|reasoning| if is_hidden { "" } else { reasoning })
    }

    pub(crate) fn shown_text(&self) -> Option<&str> {
        self.text.as_deref().filter(|text| !text.is_empty())
    }

    /// Creates the answer for a scripted reply. It ends at the first of `stop_sequences`, and has at most
    /// `limit` tokens. `id_prefix` is the prefix of the ids of tool calls.
    pub(crate) fn new(
        reply: &ScriptedReply,
        stop_sequences: &[String],
        limit: Option<u64>,
        ids: &Ids,
        id_prefix: &str,
    ) -> Self {
        let call = |(at, call): (usize, &ScriptedCall)| AnsweredCall {
            id: ids.part(id_prefix, at),
            name: call.name.clone(),
            arguments: match &call.arguments {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
        };
        let calls: Vec<AnsweredCall> = reply.tool_calls.iter().enumerate().map(call).collect();
        let stop = match reply.stop {
            Some(ScriptedStop::Length) => StopReason::Length,
            Some(ScriptedStop::Refusal) => StopReason::Refusal,
            None if calls.is_empty() => StopReason::End,
            None => StopReason::ToolCalls,
        };
        let mut answer = Self {
            reasoning: reply.reasoning.clone(),
            text: reply.text.clone(),
            calls,
            stop,
        };
        answer.stop_at(stop_sequences);
        if let Some(limit) = limit {
            answer.cut_to(limit);
        }
        answer
    }

    fn stop_at(&mut self, sequences: &[String]) {
        let Some(text) = &mut self.text else {
            return;
        };
        let found = sequences
            .iter()
            .filter_map(|sequence| Some((text.find(sequence.as_str())?, sequence)))
            .min_by_key(|(at, _)| *at);
        if let Some((at, sequence)) = found {
            text.truncate(at);
            self.calls.clear();
            self.stop = StopReason::Sequence(sequence.clone());
        }
    }

    /// Truncates the answer to `limit` tokens: reasoning counts first, then the text, then the calls, which
    /// are kept whole or dropped.
    fn cut_to(&mut self, limit: u64) {
        let mut left = limit;
        let mut is_cut = false;
        for text in [&mut self.reasoning, &mut self.text].into_iter().flatten() {
            if tokens::estimate(text) > left {
                let maximum = usize::try_from(left).unwrap_or(usize::MAX);
                text.truncate(
                    text.floor_char_boundary(maximum.saturating_mul(tokens::BYTES_PER_TOKEN)),
                );
                is_cut = true;
            }
            left -= tokens::estimate(text).min(left);
        }
        let fits = |call: &AnsweredCall| {
            let needed = tokens_of(call);
            let fits = !is_cut && needed <= left;
            left -= needed.min(left);
            is_cut |= !fits;
            fits
        };
        self.calls.retain(fits);
        if is_cut {
            self.stop = StopReason::Length;
        }
    }

    /// Returns the estimated tokens of the content: the total, and the reasoning tokens within it.
    pub(crate) fn tokens(&self) -> (u64, u64) {
        let estimate = |text: &Option<String>| text.as_deref().map_or(0, tokens::estimate);
        let reasoning = estimate(&self.reasoning);
        let calls: u64 = self.calls.iter().map(tokens_of).sum();
        (reasoning + estimate(&self.text) + calls, reasoning)
    }
}

impl AnsweredCall {
    /// The arguments as an object; empty if they are none.
    pub(crate) fn input(&self) -> Value {
        let input: Option<Value> = serde_json::from_str(&self.arguments).ok();
        input.filter(Value::is_object).unwrap_or_else(|| json!({}))
    }
}

fn tokens_of(call: &AnsweredCall) -> u64 {
    tokens::estimate(&call.name) + tokens::estimate(&call.arguments)
}

impl InputTokens {
    /// Returns the whole input.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.uncached + self.read + self.written + self.written_1h + self.written_12h
    }

    /// Counts writes of the first `tokens` tokens of the prompt as writes for twelve hours.
    pub(crate) fn with_long_writes(mut self, tokens: u64) -> Self {
        let long = tokens.saturating_sub(self.read).min(self.written);
        self.written -= long;
        self.written_12h += long;
        self
    }
}

impl TokenCounts {
    /// Replaces the computed counts by those of the script.
    pub(crate) fn with(mut self, scripted: &ScriptedUsage) -> Self {
        let input = &mut self.input;
        let total = scripted.input.unwrap_or_else(|| input.total());
        input.read = scripted.cache_read.unwrap_or(input.read).min(total);
        let left = total - input.read;
        input.written = scripted.cache_write.unwrap_or(input.written).min(left);
        let left = left - input.written;
        let written_1h = scripted.cache_write_1h.unwrap_or(input.written_1h);
        input.written_1h = written_1h.min(left);
        let left = left - input.written_1h;
        let written_12h = scripted.cache_write_12h.unwrap_or(input.written_12h);
        input.written_12h = written_12h.min(left);
        input.uncached = left - input.written_12h;
        self.output = scripted.output.unwrap_or(self.output);
        self.reasoning = scripted
            .reasoning
            .unwrap_or(self.reasoning)
            .min(self.output);
        self
    }
}

/// Splits a text as a model would stream it: a few words per piece.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    const MIN_BYTES: usize = 12;
    const MAX_BYTES: usize = 48;
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > MIN_BYTES {
        let maximum = rest.floor_char_boundary(MAX_BYTES);
        let minimum = rest.floor_char_boundary(MIN_BYTES);
        let blank = rest[minimum..maximum].find(char::is_whitespace);
        let end = match blank {
            Some(at) => minimum + at,
            None => maximum,
        };
        let (piece, after) = rest.split_at(end.max(1).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_pieces_join_to_the_text() {
        for text in [
            "",
            "short",
            "a longer text with many words, and more of them",
            &"ä".repeat(200),
            &" ".repeat(99),
        ] {
            let pieces = pieces(text);
            assert_eq!(pieces.concat(), text);
            assert!(
                pieces
                    .iter()
                    .all(|piece| !piece.is_empty() && piece.len() <= 48)
            );
        }
        assert!(pieces("one two three four five six seven").len() > 1);
    }

    fn answer() -> Answer {
        Answer {
            reasoning: Some("r".repeat(8)),
            text: Some("ä".repeat(8)),
            calls: vec![AnsweredCall {
                id: "1".to_owned(),
                name: "tool".to_owned(),
                arguments: "{}".to_owned(),
            }],
            stop: StopReason::ToolCalls,
        }
    }

    #[test]
    fn token_limit_truncates_the_end() {
        let cut = |limit| {
            let mut answer = answer();
            answer.cut_to(limit);
            let (all, _) = answer.tokens();
            assert!(all <= limit);
            (
                answer.text.unwrap_or_default().chars().count(),
                answer.calls.len(),
                answer.stop,
            )
        };
        assert_eq!(answer().tokens(), (8, 2));
        assert_eq!(cut(8), (8, 1, StopReason::ToolCalls));
        assert_eq!(cut(7), (8, 0, StopReason::Length));
        assert_eq!(cut(4), (4, 0, StopReason::Length));
        assert_eq!(cut(1), (0, 0, StopReason::Length));
    }

    #[test]
    fn a_stop_sequence_ends_the_text() {
        let mut answer = answer();
        answer.text = Some("one END two STOP".to_owned());
        answer.stop_at(&["STOP".to_owned(), "END".to_owned()]);
        assert_eq!(answer.text.as_deref(), Some("one "));
        assert_eq!(answer.stop, StopReason::Sequence("END".to_owned()));
        assert!(answer.calls.is_empty());
    }

    #[test]
    fn long_writes_are_those_of_the_first_tokens() {
        let input = InputTokens {
            uncached: 5,
            read: 100,
            written: 40,
            ..InputTokens::default()
        };
        for (tokens, long) in [(0, 0), (90, 0), (110, 10), (140, 40), (u64::MAX, 40)] {
            let split = input.with_long_writes(tokens);
            assert_eq!((split.written, split.written_12h), (40 - long, long));
            assert_eq!(split.total(), input.total());
        }
    }

    #[test]
    fn scripted_usage_keeps_its_total() {
        let computed = TokenCounts {
            input: InputTokens {
                uncached: 100,
                read: 50,
                ..InputTokens::default()
            },
            output: 9,
            reasoning: 0,
        };
        let scripted = ScriptedUsage {
            input: Some(1_000),
            cache_read: Some(700),
            cache_write: Some(200),
            ..ScriptedUsage::default()
        };
        let tokens = computed.with(&scripted);
        assert_eq!(
            (
                tokens.input.uncached,
                tokens.input.read,
                tokens.input.written
            ),
            (100, 700, 200)
        );
        assert_eq!((tokens.input.total(), tokens.output), (1_000, 9));
        let scripted = ScriptedUsage {
            cache_write_12h: Some(150),
            ..scripted
        };
        let input = computed.with(&scripted).input;
        assert_eq!((input.uncached, input.written_12h), (0, 100));
        assert_eq!(input.total(), 1_000);
        assert_eq!(computed.with(&ScriptedUsage::default()), computed);
    }
}
