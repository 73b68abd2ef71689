//! What the simulated models do.

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
use template::{Template, Values};

/// What the simulated models do.
///
/// A script in YAML is stateless: which reply a request gets follows from the request itself, so that
/// sessions can be resumed, forked and run in parallel. Only the faults that end after a while are
/// counted.
///
/// ```yaml
/// key: sk-test                    # requests without it are refused with 401; none: any key will do
/// models: [gpt-*, claude-*]       # others are unknown; none: any model
/// reasoning_models: [deepseek-*]  # whose chat answers show `reasoning`; none: all, if it is scripted
/// pace: {first_byte: 200ms, per_event: 20ms}
/// context: 200000                 # the most tokens of a prompt; longer ones are refused; none: any length
/// requests_per_minute: 15         # OpenAI routing overflows beyond this; none: never
/// unknown_parameters: accept      # or `refuse`, the default, as the providers do
/// rules:                          # the first that fits holds
///   - model: claude-*             # a name, `*` stands for anything
///     user: '(?i)weather in (\w+)'   # a regular expression, searched in the last message of the user
///     tools: [get_weather]        # which the request has to offer
///     steps:                      # one for each time that the model speaks in this turn
///       - reasoning: Let me look.
///         tool_calls:
///           - {name: get_weather, arguments: {city: '{{1}}'}}
///       - text: 'It is {{last_result}} in {{1}}.'
///         fault: {status: 429, retry_after: 1s, times: 1}
/// otherwise: {text: I do not know.}  # for requests that fit no rule; none: the built-in scenario
/// ```
///
/// Placeholders: `{{0}}` is what the regular expression found, `{{1}}`, `{{name}}` its groups,
/// `{{user}}` the user's message, `{{model}}`, `{{step}}`, `{{last_result}}` what the last tool answered.
/// A step has `text`, `reasoning`, `tool_calls`, `usage: {input, cache_read, cache_write,
/// cache_write_1h, output, reasoning}`, `stop: length|refusal` and `fault`: a status such as `500`,
/// `malformed`, or a mapping with one of `status` (and `retry_after`), `slow: {first_byte, per_event}`,
/// `cut: {after_events}`, `error_event: {after_events}`, `malformed: true`, and with `times`. A span of
/// time is a number of seconds, or text such as `50ms`, `2s`, `1m`.
#[derive(Debug, Clone)]
pub struct Script {
    /// Of the key that requests need.
    key: Option<Digest>,
    models: Vec<Pattern>,
    /// Whose chat answers show reasoning, if it is said.
    reasoning_models: Option<Vec<Pattern>>,
    pub(crate) pace: Pace,
    /// The most tokens of a prompt.
    pub(crate) context: Option<u64>,
    pub(crate) requests_per_minute: Option<u64>,
    pub(crate) accepts_unknown_parameters: bool,
    plot: Plot,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) first_byte: Duration,
    pub(crate) per_event: Duration,
}

#[derive(Debug, Clone)]
enum Plot {
    /// The n-th request gets the n-th reply.
    Sequence(Vec<ScriptedReply>),
    Rules {
        rules: Vec<Rule>,
        otherwise: Option<Box<Step>>,
    },
}

#[derive(Debug, Clone, Default)]
struct Rule {
    model: Option<Pattern>,
    user: Option<Regex>,
    tools: Vec<String>,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Default)]
struct Step {
    text: Option<Template>,
    reasoning: Option<Template>,
    calls: Vec<(String, template::Tree)>,
    /// What has no placeholders.
    fixed: ScriptedReply,
}

/// How far a script has come: what cannot be seen from the requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    next: usize,
    /// How often the fault of a reply has happened: by rule and step.
    faults: HashMap<(usize, usize), u32>,
}

/// Where the step of `otherwise` is counted.
const OTHERWISE: usize = usize::MAX;

/// What a request gets.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    /// Without its fault.
    pub(crate) reply: ScriptedReply,
    /// What goes wrong this time.
    pub(crate) fault: Option<FaultKind>,
    /// Whether it comes from the built-in scenario.
    pub(crate) is_built_in: bool,
}

impl Scene {
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
    /// Reads a script in YAML; the form is described at [`Script`]. `file_name` is for the problems.
    ///
    /// # Errors
    /// Everything that is wrong with it, with its place.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, Vec<Problem>> {
        parse::script(file_name, text)
    }

    /// What is useful without a script: `Translate to French: good morning` is answered with a
    /// pseudo-translation, demanded schemas and tools get smallest instances, a request that offers
    /// `read_file` and `edit_file` and names a file has it edited, `simulate 429` (or `500`, `529`,
    /// `slow`, `cut`, `malformed`) is answered by that fault, and anything else is echoed.
    #[must_use]
    pub fn built_in() -> Self {
        Self::of(Plot::Rules {
            rules: Vec::new(),
            otherwise: None,
        })
    }

    /// The n-th request gets the n-th text, the last one is repeated.
    #[must_use]
    pub fn answers(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::replies(texts.into_iter().map(ScriptedReply::text).collect())
    }

    /// The n-th request gets the n-th reply, in order of arrival; the last one is repeated. A reply
    /// with a fault is used as often as the fault says, once if it does not; if the fault says how often
    /// and the reply has text or calls, it is then used once more without the fault.
    #[must_use]
    pub fn replies(replies: Vec<ScriptedReply>) -> Self {
        Self::of(Plot::Sequence(replies))
    }

    fn of(plot: Plot) -> Self {
        Self {
            key: None,
            models: Vec::new(),
            reasoning_models: None,
            pace: Pace::default(),
            context: None,
            requests_per_minute: None,
            accepts_unknown_parameters: false,
            plot,
        }
    }

    /// The same script; requests without this key are refused with 401.
    #[must_use]
    pub fn requiring_key(mut self, key: &str) -> Self {
        self.key = Some(Digest::of(key.as_bytes()));
        self
    }

    /// The same script; only models that fit one of `names` (`*` stands for anything) exist.
    #[must_use]
    pub fn with_models<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.models = names.into_iter().map(Pattern::new).collect();
        self
    }

    /// The same script; only the chat answers of models that fit one of `names` have
    /// `reasoning_content`.
    #[must_use]
    pub fn with_reasoning_models<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.reasoning_models = Some(names.into_iter().map(Pattern::new).collect());
        self
    }

    /// The same script; prompts of more tokens than this are refused, in the words of their format.
    #[must_use]
    pub fn with_context(mut self, tokens: u64) -> Self {
        self.context = Some(tokens);
        self
    }

    /// The same script; bodies are not validated against the official schemas, and parameters that the
    /// provider does not know are ignored instead of refused, as many compatible servers do.
    #[must_use]
    pub fn accepting_unknown_parameters(mut self) -> Self {
        self.accepts_unknown_parameters = true;
        self
    }

    pub(crate) fn admits(&self, key: Option<&str>) -> bool {
        match &self.key {
            Some(wanted) => key.is_some_and(|key| Digest::of(key.as_bytes()) == *wanted),
            None => true,
        }
    }

    pub(crate) fn knows_model(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|name| name.matches(model))
    }

    /// The names without a pattern among the models, and examples where there are none.
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

    /// Whether an answer of `model` carries the reasoning that its reply has, where the format leaves
    /// that to the provider. The built-in scenario has reasoning in every reply.
    pub(crate) fn shows_reasoning(&self, model: &str, is_built_in: bool) -> bool {
        match &self.reasoning_models {
            Some(names) => names.iter().any(|name| name.matches(model)),
            None => !is_built_in || scenario::reasons(model),
        }
    }

    /// What a request gets.
    pub(crate) fn scene(&self, dialogue: &Dialogue, progress: &mut Progress) -> Scene {
        match &self.plot {
            Plot::Sequence(replies) => in_sequence(replies, progress),
            Plot::Rules { rules, otherwise } => {
                by_rule(rules, otherwise.as_deref(), dialogue, progress)
            }
        }
    }
}

fn in_sequence(replies: &[ScriptedReply], progress: &mut Progress) -> Scene {
    let last = replies.len().saturating_sub(1);
    let at = progress.next.min(last);
    let mut reply = replies.get(at).cloned().unwrap_or_default();
    let Some(fault) = reply.fault.take() else {
        progress.next = at + 1;
        return Scene::scripted(reply, None);
    };
    let happened = progress.faults.entry((0, at)).or_default();
    let most = fault.times.unwrap_or(1);
    let is_served_after = fault.times.is_some() && reply.has_content();
    let is_clean = *happened >= most && is_served_after;
    *happened = happened.saturating_add(1);
    if is_clean || (*happened == most && !is_served_after) {
        progress.next = at + 1;
    }
    Scene::scripted(reply, (!is_clean).then_some(fault.kind))
}

fn by_rule(
    rules: &[Rule],
    otherwise: Option<&Step>,
    dialogue: &Dialogue,
    progress: &mut Progress,
) -> Scene {
    let found = rules.iter().enumerate().find_map(|(at, rule)| {
        let values = rule.fits(dialogue)?;
        Some((at, rule, values))
    });
    let Some((at, rule, values)) = found else {
        return match otherwise {
            Some(step) => scene(step, &Values::of(dialogue), (OTHERWISE, 0), progress),
            None => built_in(dialogue),
        };
    };
    match rule.steps.get(dialogue.step) {
        Some(step) => scene(step, &values, (at, dialogue.step), progress),
        None => {
            let end = ScriptedReply::text("(The script has no further step for this turn.)");
            Scene::scripted(end, None)
        }
    }
}

fn built_in(dialogue: &Dialogue) -> Scene {
    let mut reply = scenario::reply(dialogue);
    let fault = reply.fault.take().map(|fault| fault.kind);
    Scene {
        reply,
        fault,
        is_built_in: true,
    }
}

fn scene(step: &Step, values: &Values, at: (usize, usize), progress: &mut Progress) -> Scene {
    let mut reply = step.reply(values);
    let fault = reply
        .fault
        .take()
        .filter(|fault| happens(fault, at, progress));
    Scene::scripted(reply, fault.map(|fault| fault.kind))
}

fn happens(fault: &Fault, at: (usize, usize), progress: &mut Progress) -> bool {
    let Some(most) = fault.times else {
        return true;
    };
    let happened = progress.faults.entry(at).or_default();
    *happened = happened.saturating_add(1);
    *happened <= most
}

impl Rule {
    /// What the placeholders of its steps stand for, if the rule fits.
    fn fits(&self, dialogue: &Dialogue) -> Option<Values> {
        let model_fits = self
            .model
            .as_ref()
            .is_none_or(|model| model.matches(&dialogue.model));
        let tools_fit = self.tools.iter().all(|tool| dialogue.offers(tool));
        if !model_fits || !tools_fit {
            return None;
        }
        let mut values = Values::of(dialogue);
        if let Some(user) = &self.user {
            // Each text block on its own first: clients add blocks of context to the user's words.
            let whole = dialogue.user_text();
            let texts = dialogue.user.iter().chain([&whole]);
            values.take(user, texts)?;
        }
        Some(values)
    }
}

impl Step {
    fn reply(&self, values: &Values) -> ScriptedReply {
        let fill = |template: &Template| template.fill(values);
        let call = |(name, arguments): &(String, template::Tree)| crate::reply::ScriptedCall {
            name: name.clone(),
            arguments: arguments.fill(values),
        };
        ScriptedReply {
            text: self.text.as_ref().map(fill),
            reasoning: self.reasoning.as_ref().map(fill),
            tool_calls: self.calls.iter().map(call).collect(),
            ..self.fixed.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(scene: &Scene) -> String {
        match (&scene.fault, &scene.reply.text) {
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
            .map(|_| said(&script.scene(&dialogue, &mut progress)))
            .collect()
    }

    #[test]
    fn replies_come_in_order_and_the_last_is_repeated() {
        let texts = ["a", "b"].map(ScriptedReply::text).to_vec();
        assert_eq!(sequence(texts, 4), ["a", "b", "b", "b"]);
        assert_eq!(sequence(vec![], 1), [""]);
    }

    #[test]
    fn a_fault_happens_as_often_as_it_says() {
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
