//! The settings that switch policies on.

use cachalot_core::Cost;
use cachalot_prefix::spend::Client;
use cachalot_prefix::what_if::{Policy, Row, Sender};

/// A cent, in picodollars.
const CENT: u64 = 10_000_000_000;

/// The place of settings of Claude Code that are variables.
const CLAUDE_CODE_ENVIRONMENT: &str =
    "in the environment of Claude Code, or in `env` of its settings.json";

/// The settings of Claude Code that switch off requests beside a conversation. The names and their meanings are in the
/// program of version 2.1.332 (November 2026).
pub(super) const SIDE_REQUESTS: &str = "`CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION=0` and `CLAUDE_CODE_ENABLE_AWAY_SUMMARY=0` in the environment of Claude Code, or in `env` of its settings.json, switch off suggestions and recaps, and `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1` titles; summaries and prompt hooks remain.";

/// A setting of the program that sends the requests, or of the gateway.
pub(crate) struct Setting {
    /// The setting, as it is written.
    pub(crate) text: String,
    /// The place where it is written.
    pub(crate) place: &'static str,
}

impl Setting {
    /// Returns the setting for the policy of a row; `None` if the program has none that is known. With the limit of the cost
    /// of renewals, all of the row's are sent.
    ///
    /// Sources of November 2026: the changelog of Claude Code (2.1.108 and 2.1.243), and the documentation of pi. The names
    /// are in the programs Claude Code 2.1.332 and pi 0.73.1.
    pub(crate) fn find(sender: Sender, row: &Row) -> Option<Self> {
        let policy = row.policy;
        if let Some(until) = policy.until() {
            // One or two cents more: the estimate of the gateway has some more tokens of output.
            let max = (row.largest_cost.picodollars / CENT + 2) * CENT;
            let max = Cost::from_picodollars(max).exact_amount();
            return Some(Self {
                text: format!("prefix.keep_alive: {{until: {until}, max: {max}}}"),
                place: "in the file of the gateway that the program uses (`cachalot serve --config FILE`)",
            });
        }
        if let (Sender::Program(Client::ClaudeCode), Policy::SubAgentsOn(family)) = (sender, policy)
        {
            return Some(Self {
                text: format!("CLAUDE_CODE_SUBAGENT_MODEL={}", family.alias()),
                place: CLAUDE_CODE_ENVIRONMENT,
            });
        }
        let (text, place) = match (sender, policy) {
            (Sender::Program(Client::ClaudeCode), Policy::OneHour) => {
                ("ENABLE_PROMPT_CACHING_1H=1", CLAUDE_CODE_ENVIRONMENT)
            }
            (Sender::Program(Client::ClaudeCode), Policy::OneHourWithoutSubAgents) => (
                "\"promptCacheTtl\": \"1h\"",
                "in settings.json of Claude Code (since 2.1.243)",
            ),
            (Sender::Program(Client::ClaudeCode), Policy::FiveMinutes) => {
                ("FORCE_PROMPT_CACHING_5M=1", CLAUDE_CODE_ENVIRONMENT)
            }
            (Sender::Program(Client::Pi), Policy::OneHour) => (
                "PI_CACHE_RETENTION=long",
                "in the environment of pi; it applies at Anthropic's own address",
            ),
            (Sender::Program(Client::Cachalot), Policy::OneHour) => {
                ("prefix: {ttl: 1h}", "in the agent's file")
            }
            (Sender::Program(Client::Cachalot), Policy::TwelveHours) => {
                ("prefix: {ttl: 12h}", "in the agent's file")
            }
            (Sender::Program(Client::Cachalot), Policy::FiveMinutes) => {
                ("prefix: {ttl: 5m}", "in the agent's file")
            }
            (Sender::Log, Policy::OneHour) => (
                "cache_control: {type: ephemeral, ttl: 1h}",
                "at the cache markers of the requests",
            ),
            (Sender::Log, Policy::FiveMinutes) => (
                "cache_control: {type: ephemeral, ttl: 5m}",
                "at the cache markers of the requests",
            ),
            (Sender::Log, Policy::TwelveHours) => (
                "prompt_cache_breakpoint: {mode: explicit, ttl: 12h}",
                "at the cache markers of the requests (Responses)",
            ),
            _ => return None,
        };
        Some(Self {
            text: text.to_owned(),
            place,
        })
    }
}
