//! The providers' own diagnosis of prompt-cache misses: a request names an earlier answer, and the answer
//! reports the first difference between the two requests.
//!
//! - Anthropic, `diagnostics.previous_message_id`:
//!   <https://platform.claude.com/docs/en/build-with-claude/cache-diagnostics>. Only requests with
//!   `diagnostics` are remembered. The comparison covers the requests only, regardless of a cache hit.
//! - OpenAI, `prompt_cache_options.comparison_response_id`:
//!   <https://developers.openai.com/api/docs/guides/prompt-caching/diagnostics>.
//!
//! Not simulated: a comparison that is still running (`cache_miss_reason: null`), `context_compacted`, and
//! fingerprints that expire.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use cachalot_core::Digest;

use crate::accounting::{Content, anthropic, openai};
use crate::wire::{Prompt, Request, ResponseParameters};

/// Maximum number of remembered requests; the oldest are evicted first.
const MAX_FINGERPRINTS: usize = 10_000;

/// Id of an answer, with the namespace of the key that received it.
type Id = (Digest, String);

/// Requests by the id of their answer.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints {
    known: HashMap<Id, Fingerprint>,
    /// Oldest first.
    order: VecDeque<Id>,
}

/// A request, reduced to digests and token counts.
#[derive(Debug)]
enum Fingerprint {
    Messages(Messages),
    Responses(Responses),
}

/// Digest and tokens of each block.
type Blocks = Vec<(Digest, u64)>;

#[derive(Debug)]
struct Messages {
    model: String,
    /// Tools, system, messages.
    levels: [Blocks; 3],
    /// Parameters that are rendered into the prompt.
    settings: Vec<String>,
}

#[derive(Debug)]
struct Responses {
    /// Values in the order of comparison, each with the reason to report if it differs.
    settings: Vec<(&'static str, String)>,
    blocks: Blocks,
}

impl Fingerprints {
    /// Compares a request with the earlier one that it names, and remembers it under the id of its answer.
    /// `cached` is the number of tokens that it reads from the cache. Returns `None` if the request asks
    /// for no diagnosis.
    pub(crate) fn diagnose(
        &mut self,
        namespace: Digest,
        id: String,
        request: &Request,
        cached: u64,
    ) -> Option<Value> {
        let (fingerprint, diagnosis) = match (&request.response_parameters, &request.prompt) {
            (ResponseParameters::Messages(response_parameters), Prompt::Anthropic(prompt)) => {
                let previous = response_parameters.diagnostics.as_ref()?;
                let now = Messages::new(prompt);
                let reason = previous.as_ref().map(|previous| {
                    match self.known.get(&(namespace, previous.clone())) {
                        Some(Fingerprint::Messages(before)) => now.compare(before),
                        _ => json!({"type": "previous_message_not_found"}),
                    }
                });
                let reason = reason.filter(|reason| !reason.is_null());
                let diagnosis = reason.map(|reason| json!({"cache_miss_reason": reason}));
                (Fingerprint::Messages(now), Some(diagnosis.into()))
            }
            (ResponseParameters::Responses(response_parameters), Prompt::OpenAi(prompt)) => {
                let now = Responses::new(prompt, &response_parameters.compared);
                let diagnosis =
                    response_parameters.comparison.as_ref().map(|comparison| {
                        match self.known.get(&(namespace, comparison.clone())) {
                            Some(Fingerprint::Responses(before)) => now.compare(before, cached),
                            _ => json!({"type": "comparison_response_not_found"}),
                        }
                    });
                (Fingerprint::Responses(now), diagnosis)
            }
            _ => return None,
        };
        self.remember((namespace, id), fingerprint);
        diagnosis
    }

    fn remember(&mut self, id: Id, fingerprint: Fingerprint) {
        self.order.push_back(id.clone());
        self.known.insert(id, fingerprint);
        if self.order.len() > MAX_FINGERPRINTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl Messages {
    fn new(prompt: &anthropic::Prompt) -> Self {
        let settings = prompt.levels.iter().map(|level| &level.settings);
        Self {
            model: prompt.model.clone(),
            levels: [0, 1, 2].map(|at| blocks(&prompt.levels[at])),
            settings: settings
                .map(|settings| {
                    // Images are content, not a parameter.
                    let frame = settings.frame.split("|images").next().unwrap_or_default();
                    format!("{frame}|{}", settings.text)
                })
                .collect(),
        }
    }

    /// Returns the `cache_miss_reason`; null if there is no difference.
    fn compare(&self, before: &Self) -> Value {
        let from = |level: usize| {
            before.levels[level..]
                .iter()
                .map(|blocks| tokens(blocks))
                .sum()
        };
        let changed =
            |kind: &str, missed: u64| json!({"type": kind, "cache_missed_input_tokens": missed});
        if self.model != before.model {
            return changed("model_changed", from(0));
        }
        for (level, kind) in ["tools_changed", "system_changed"].into_iter().enumerate() {
            if self.levels[level] != before.levels[level] {
                return changed(kind, from(level));
            }
        }
        if self.settings != before.settings {
            return json!({"type": "unavailable"});
        }
        match difference(&self.levels[2], &before.levels[2]) {
            Some(at) => changed("messages_changed", tokens(&before.levels[2][at..])),
            None => Value::Null,
        }
    }
}

impl Responses {
    fn new(prompt: &openai::Prompt, compared: &[(&'static str, String)]) -> Self {
        let is_tool = |one: &&openai::Block| one.content.frame == "tool";
        let tools = prompt.blocks.iter().take_while(is_tool);
        let tools: Vec<&str> = tools.map(|tool| tool.content.text.as_str()).collect();
        let mut settings = vec![
            ("model_changed", prompt.model.clone()),
            (
                "prompt_cache_key_changed",
                prompt.cache_key.clone().unwrap_or_default(),
            ),
            ("tools_changed", tools.join("\n")),
        ];
        settings.extend(compared.iter().cloned());
        Self {
            settings,
            blocks: prompt
                .blocks
                .iter()
                .map(|one| block(&one.content))
                .collect(),
        }
    }

    /// Returns the `prompt_cache_diagnostics`.
    fn compare(&self, before: &Self, cached: u64) -> Value {
        let all = tokens(&before.blocks);
        let miss = |reason: &str, missed: u64| {
            json!({"type": "cache_miss", "reason": reason, "cache_missed_tokens": missed,
                   "comparison_reusable_tokens": all})
        };
        let mut settings = self.settings.iter().zip(&before.settings);
        if let Some(((reason, _), _)) = settings.find(|(now, before)| now != before) {
            return miss(reason, all);
        }
        match difference(&self.blocks, &before.blocks) {
            Some(at) => miss("input_changed", tokens(&before.blocks[at..])),
            None if cached > 0 => json!({"type": "cache_hit"}),
            // No difference: the entry has expired, or the prompt is too short for one.
            None => json!({"type": "unavailable"}),
        }
    }
}

fn blocks(level: &anthropic::Level) -> Blocks {
    level.blocks.iter().map(|one| block(&one.content)).collect()
}

fn block(content: &Content) -> (Digest, u64) {
    let digest = Digest::sha256_of_parts(&[content.frame.as_bytes(), content.text.as_bytes()]);
    (digest, content.tokens())
}

fn tokens(blocks: &[(Digest, u64)]) -> u64 {
    blocks.iter().map(|(_, tokens)| tokens).sum()
}

/// Returns the index of the first block of `before` that differs in `now`. A conversation that ends earlier
/// does not differ.
fn difference(now: &Blocks, before: &Blocks) -> Option<usize> {
    now.iter()
        .zip(before)
        .position(|(now, before)| now != before)
}
