//! The settings that switch policies on.

use cachalot_prefix::spend::Client;
use cachalot_prefix::what_if::{Policy, Sender};

/// A setting of the program that sends the requests, or of the gateway.
pub(super) struct Setting {
    /// The setting, as it is written.
    pub(super) text: String,
    /// The place where it is written.
    pub(super) place: &'static str,
}

impl Setting {
    /// Returns the setting for a policy; `None` if the program has none that is known.
    ///
    /// Sources of November 2026: the changelog of Claude Code (2.1.108 and 2.1.243), and the documentation of pi.
    pub(super) fn find(sender: Sender, policy: Policy) -> Option<Self> {
        if let Some(until) = policy.until() {
            return Some(Self {
                text: format!("prefix.keep_alive: {{until: {until}}}"),
                place: "in the file of the gateway that the program uses (`cachalot serve --config FILE`)",
            });
        }
        let (text, place) = match (sender, policy) {
            (Sender::Program(Client::ClaudeCode), Policy::OneHour) => (
                "ENABLE_PROMPT_CACHING_1H=1",
                "in the environment of Claude Code, or in `env` of its settings.json",
            ),
            (Sender::Program(Client::ClaudeCode), Policy::OneHourWithoutSubAgents) => (
                "\"promptCacheTtl\": \"1h\"",
                "in settings.json of Claude Code (since 2.1.243)",
            ),
            (Sender::Program(Client::ClaudeCode), Policy::FiveMinutes) => (
                "FORCE_PROMPT_CACHING_5M=1",
                "in the environment of Claude Code, or in `env` of its settings.json",
            ),
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
