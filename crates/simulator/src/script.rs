//! Scripts: the behavior of the simulated models.

mod parse;
mod template;

use std::collections::HashMap;
use std::time::Duration;

use cachalot_core::{Digest, Problem};
use regex::Regex;

use crate::accounting::Pattern;
use crate::dialogue::Dialogue;
use crate::reply::{Fault, FaultKind, ScriptedReply};
use crate::scenario;
use template::{PlaceholderValues, fill, fill_value};

/// The behavior of the simulated models.
///
/// A script in YAML is stateless: the reply follows from the request itself, so that sessions can be
/// resumed, forked and run in parallel. Only faults with a limited number of occurrences are counted.
///
/// ```yaml
/// key: sk-test                    # requests without it are refused with 401; default: any key
/// models: [gpt-*, claude-*]       # others are unknown; default: any model
/// reasoning_models: [deepseek-*]  # models whose chat answers show `reasoning`; default: all, if scripted
/// pace: {first_byte: 200ms, per_event: 20ms}
/// context: 200000                 # maximum tokens of a prompt; longer ones are refused; default: no limit
/// requests_per_minute: 15         # OpenAI routing overflows beyond this; default: never
/// unknown_parameters: accept      # or `refuse`, the default, like the providers
/// rules:                          # the first matching rule applies
///   - model: claude-*             # a name, `*` matches any text
///     user: '(?i)weather in (\w+)'   # a regular expression, searched in the last message of the user
///     tools: [get_weather]        # tools that the request has to offer
///     steps:                      # one for each answer of the model in this turn
///       - reasoning: Let me look.
///         tool_calls:
///           - {name: get_weather, arguments: {city: '{{1}}'}}
///       - text: 'It is {{last_result}} in {{1}}.'
///         fault: {status: 429, retry_after: 1s, times: 1}
/// otherwise: {text: I do not know.}  # for requests without a matching rule; default: the built-in scenario
/// ```
///
/// Placeholders: `{{0}}` is the match of the regular expression, `{{1}}` and `{{name}}` are its groups,
/// `{{user}}` is the user's message, `{{last_result}}` the result of the last tool; `{{model}}` and
/// `{{step}}` are those of the request.
///
/// A step has `text`, `reasoning`, `tool_calls`,
/// `usage: {input, cache_read, cache_write, cache_write_1h, cache_write_12h, output, reasoning, web_searches,
/// service_tier, inference_geo, speed, compaction: {input, cache_read, cache_write, output}}`,
/// `stop: length|refusal` and `fault`. A fault is a status such as `500`, `malformed`, or a mapping with `times` and one of `status`
/// (and `retry_after`), `slow: {first_byte, per_event}`, `cut: {after_events}`,
/// `error_event: {after_events}`, `malformed: true`. A duration is a number of seconds, or text such as
/// `50ms`, `2s`, `1m`.
#[derive(Debug, Clone)]
pub struct Script {
    /// Digest of the key that requests need.
    key: Option<Digest>,
    models: Vec<Pattern>,
    /// Models whose chat answers show reasoning, if configured.
    reasoning_models: Option<Vec<Pattern>>,
    pub(crate) pace: Pace,
    /// Maximum tokens of a prompt.
    pub(crate) context: Option<u64>,
    pub(crate) requests_per_minute: Option<u64>,
    pub(crate) accepts_unknown_parameters: bool,
    reply_plan: ReplyPlan,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) first_byte: Duration,
    pub(crate) per_event: Duration,
}

#[derive(Debug, Clone)]
enum ReplyPlan {
    /// The n-th request gets the n-th reply.
    Sequence(Vec<ScriptedReply>),
    Rules {
        rules: Vec<Rule>,
        otherwise: Option<Box<ScriptedReply>>,
    },
}

#[derive(Debug, Clone, Default)]
struct Rule {
    model: Option<Pattern>,
    user: Option<Regex>,
    tools: Vec<String>,
    /// Replies with placeholders.
    steps: Vec<ScriptedReply>,
}

/// Progress of a script that cannot be derived from the requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    next: usize,
    /// Number of occurrences of a reply's fault, by rule and step.
    faults: HashMap<(usize, usize), u32>,
}

/// Index of the rule under which the step of `otherwise` is counted.
const OTHERWISE_INDEX: usize = usize::MAX;

/// The planned reply to a request.
#[derive(Debug, Clone)]
pub(crate) struct PlannedReply {
    /// Reply without its fault.
    pub(crate) reply: ScriptedReply,
    /// Fault of this request.
    pub(crate) fault: Option<FaultKind>,
    /// True if the reply comes from the built-in scenario.
    pub(crate) is_built_in: bool,
}

impl PlannedReply {
    fn scripted(reply: ScriptedReply, fault: Option<FaultKind>) -> Self {
        Self {
            reply,
            fault,
            is_built_in: false,
        }
    }
}

impl Default for Script {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Script {
    /// Parses a script in YAML; see [`Script`] for the format. `file_name` is used in problems.
    ///
    /// # Errors
    /// All problems of the script, with their places.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, Vec<Problem>> {
        parse::script(file_name, text)
    }

    /// Returns the built-in scenario. `Translate to French: good morning` gets a pseudo-translation;
    /// required schemas and tools get minimal instances; for a request that offers `read_file` and
    /// `edit_file` and names a file, the file is edited; `simulate 429` (or `500`, `529`, `slow`, `cut`,
    /// `malformed`) gets that fault; any other message is echoed.
    #[must_use]
    pub fn built_in() -> Self {
        Self::with_plan(ReplyPlan::Rules {
            rules: Vec::new(),
            otherwise: None,
        })
    }

    /// Creates a script whose n-th request gets the n-th text; the last one is repeated.
    #[must_use]
    pub fn answers(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::replies(texts.into_iter().map(ScriptedReply::text).collect())
    }

    /// Creates a script whose n-th request, in order of arrival, gets the n-th reply; the last one is
    /// repeated. A reply with a fault is used as often as the fault's `times`, by default once. If `times`
    /// is set and the reply has text or calls, the reply is then used once more without the fault.
    #[must_use]
    pub fn replies(replies: Vec<ScriptedReply>) -> Self {
        Self::with_plan(ReplyPlan::Sequence(replies))
    }

    fn with_plan(reply_plan: ReplyPlan) -> Self {
        Self {
            key: None,
            models: Vec::new(),
            reasoning_models: None,
            pace: Pace::default(),
            context: None,
            requests_per_minute: None,
            accepts_unknown_parameters: false,
            reply_plan,
        }
    }

    /// Sets the required key; requests without it are refused with 401.
    #[must_use]
    pub fn with_required_key(mut self, key: &str) -> Self {
        self.key = Some(Digest::sha256(key.as_bytes()));
        self
    }

    /// Sets the time to the first byte of each answer.
    #[must_use]
    pub fn with_latency(mut self, latency: Duration) -> Self {
        self.pace.first_byte = latency;
        self
    }

    /// Sets the models that exist: those that match one of `names` (`*` matches any text).
    #[must_use]
    pub fn with_models<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.models = names.into_iter().map(Pattern::new).collect();
        self
    }

    /// Sets the models whose chat answers have `reasoning_content`: those that match one of `names`.
    #[must_use]
    pub fn with_reasoning_models<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.reasoning_models = Some(names.into_iter().map(Pattern::new).collect());
        self
    }

    /// Sets the maximum tokens of a prompt; longer ones are refused with the error of their format.
    #[must_use]
    pub fn with_context(mut self, tokens: u64) -> Self {
        self.context = Some(tokens);
        self
    }

    /// Disables validation against the official schemas, and ignores unknown parameters instead of refusing
    /// them, like many compatible servers.
    #[must_use]
    pub fn accepting_unknown_parameters(mut self) -> Self {
        self.accepts_unknown_parameters = true;
        self
    }

    pub(crate) fn accepts_key(&self, key: Option<&str>) -> bool {
        match &self.key {
            Some(wanted) => key.is_some_and(|key| Digest::sha256(key.as_bytes()) == *wanted),
            None => true,
        }
    }

    pub(crate) fn has_model(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|name| name.matches(model))
    }

    /// Returns the models that are names without a pattern; examples if no models are configured.
    pub(crate) fn listed_models(&self) -> Vec<&str> {
        let examples = [
            "gpt-5.6",
            "gpt-5-mini",
            "gpt-4o",
            "o3",
            "claude-opus-5",
            "claude-sonnet-4-5",
        ];
        let listed = self.models.iter().filter_map(Pattern::as_name);
        if self.models.is_empty() {
            examples.to_vec()
        } else {
            listed.collect()
        }
    }

    /// Returns true if an answer of `model` contains the reasoning of its reply, in formats that leave this
    /// to the provider. In the built-in scenario every reply has reasoning.
    pub(crate) fn shows_reasoning(&self, model: &str, is_built_in: bool) -> bool {
        match &self.reasoning_models {
            Some(names) => names.iter().any(|name| name.matches(model)),
            None => !is_built_in || scenario::reasons(model),
        }
    }

    /// Returns the planned reply to a request.
    pub(crate) fn planned_reply(
        &self,
        dialogue: &Dialogue,
        progress: &mut Progress,
    ) -> PlannedReply {
        match &self.reply_plan {
            ReplyPlan::Sequence(replies) => in_sequence(replies, progress),
            ReplyPlan::Rules { rules, otherwise } => {
                by_rule(rules, otherwise.as_deref(), dialogue, progress)
            }
        }
    }
}

fn in_sequence(replies: &[ScriptedReply], progress: &mut Progress) -> PlannedReply {
    let last = replies.len().saturating_sub(1);
    let at = progress.next.min(last);
    let mut reply = replies.get(at).cloned().unwrap_or_default();
    let Some(fault) = reply.fault.take() else {
        progress.next = at + 1;
        return PlannedReply::scripted(reply, None);
    };
    let happened = progress.faults.entry((0, at)).or_default();
    let maximum = fault.times.unwrap_or(1);
    let is_served_after = fault.times.is_some() && reply.has_content();
    let is_clean = *happened >= maximum && is_served_after;
    *happened = happened.saturating_add(1);
    if is_clean || (*happened == maximum && !is_served_after) {
        progress.next = at + 1;
    }
    PlannedReply::scripted(reply, (!is_clean).then_some(fault.kind))
}

fn by_rule(
    rules: &[Rule],
    otherwise: Option<&ScriptedReply>,
    dialogue: &Dialogue,
    progress: &mut Progress,
) -> PlannedReply {
    let found = rules.iter().enumerate().find_map(|(at, rule)| {
        let values = rule.match_dialogue(dialogue)?;
        Some((at, rule, values))
    });
    let Some((at, rule, values)) = found else {
        return match otherwise {
            Some(step) => planned_reply(
                step,
                &PlaceholderValues::new(dialogue),
                (OTHERWISE_INDEX, 0),
                progress,
            ),
            None => built_in(dialogue),
        };
    };
    match rule.steps.get(dialogue.step) {
        Some(step) => planned_reply(step, &values, (at, dialogue.step), progress),
        None => {
            let end = ScriptedReply::text("(The script has no further step for this turn.)");
            PlannedReply::scripted(end, None)
        }
    }
}

fn built_in(dialogue: &Dialogue) -> PlannedReply {
    let mut reply = scenario::reply(dialogue);
    let fault = reply.fault.take().map(|fault| fault.kind);
    PlannedReply {
        reply,
        fault,
        is_built_in: true,
    }
}

fn planned_reply(
    step: &ScriptedReply,
    values: &PlaceholderValues,
    at: (usize, usize),
    progress: &mut Progress,
) -> PlannedReply {
    let mut reply = filled(step, values);
    let fault = reply
        .fault
        .take()
        .filter(|fault| occurs(fault, at, progress));
    PlannedReply::scripted(reply, fault.map(|fault| fault.kind))
}

fn occurs(fault: &Fault, at: (usize, usize), progress: &mut Progress) -> bool {
    let Some(maximum) = fault.times else {
        return true;
    };
    let happened = progress.faults.entry(at).or_default();
    *happened = happened.saturating_add(1);
    *happened <= maximum
}

impl Rule {
    /// Returns the values of the placeholders if the rule matches.
    fn match_dialogue(&self, dialogue: &Dialogue) -> Option<PlaceholderValues> {
        let model_fits = self
            .model
            .as_ref()
            .is_none_or(|model| model.matches(&dialogue.model));
        let tools_fit = self.tools.iter().all(|tool| dialogue.has_tool(tool));
        if !model_fits || !tools_fit {
            return None;
        }
        let mut values = PlaceholderValues::new(dialogue);
        if let Some(user) = &self.user {
            // Each text block is searched separately first, because clients add blocks of context to the
            // user's text.
            let whole = dialogue.user_text();
            let texts = dialogue.user.iter().chain([&whole]);
            values.take_groups(user, texts)?;
        }
        Some(values)
    }
}

/// Returns the reply with the values of its placeholders.
fn filled(step: &ScriptedReply, values: &PlaceholderValues) -> ScriptedReply {
    let mut reply = step.clone();
    let value_of = &mut |name: &str| values.value(name);
    for text in [&mut reply.text, &mut reply.reasoning]
        .into_iter()
        .flatten()
    {
        *text = fill(text, value_of);
    }
    for call in &mut reply.tool_calls {
        call.arguments = fill_value(&call.arguments, value_of);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(planned_reply: &PlannedReply) -> String {
        match (&planned_reply.fault, &planned_reply.reply.text) {
            (Some(FaultKind::Status { status, .. }), _) => status.to_string(),
            (Some(fault), _) => format!("{fault:?}"),
            (None, text) => text.clone().unwrap_or_default(),
        }
    }

    fn sequence(replies: Vec<ScriptedReply>, requests: usize) -> Vec<String> {
        let script = Script::replies(replies);
        let mut progress = Progress::default();
        let dialogue = Dialogue::default();
        (0..requests)
            .map(|_| said(&script.planned_reply(&dialogue, &mut progress)))
            .collect()
    }

    #[test]
    fn replies_are_sent_in_order_and_the_last_is_repeated() {
        let texts = ["a", "b"].map(ScriptedReply::text).to_vec();
        assert_eq!(sequence(texts, 4), ["a", "b", "b", "b"]);
        assert_eq!(sequence(vec![], 1), [""]);
    }

    #[test]
    fn fault_is_repeated_the_given_number_of_times() {
        let once = ScriptedReply::error(500);
        let twice = ScriptedReply::text("late").with_fault(Fault::status(429).times(2));
        let replies = vec![once, twice, ScriptedReply::text("end")];
        assert_eq!(
            sequence(replies, 6),
            ["500", "429", "429", "late", "end", "end"]
        );
        let last = ScriptedReply::text("late").with_fault(Fault::status(429).times(2));
        assert_eq!(
            sequence(vec![last], 5),
            ["429", "429", "late", "late", "late"]
        );
        assert_eq!(
            sequence(vec![ScriptedReply::error(500)], 3),
            ["500", "500", "500"]
        );
        let twice_only = ScriptedReply::default().with_fault(Fault::status(503).times(2));
        assert_eq!(
            sequence(vec![twice_only, ScriptedReply::text("ok")], 3),
            ["503", "503", "ok"]
        );
    }
}
