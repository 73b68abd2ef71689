//! Published lifetimes of entries in the caches of providers.

use std::fmt;

use cachalot_accounting::Rules;
use cachalot_accounting::avoidable::{FIVE_MINUTES, ONE_HOUR};
use cachalot_core::Millis;
use cachalot_model::Usage;

/// The longest lifetime of an entry at OpenAI, in milliseconds.
pub(super) const TWELVE_HOURS: Millis = 43_200_000;

/// The provider of a model, as far as the rules of its cache matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// Anthropic, also through other platforms.
    Anthropic,
    /// OpenAI.
    OpenAi,
    /// Any other one: the lifetimes of its cache are not published, or have no fixed length.
    Other,
}

impl Provider {
    /// Returns the provider by the name of a model, which may follow the name of a provider (`openai/gpt-5.6`).
    #[must_use]
    pub fn of_model(model: &str) -> Self {
        let (before, name) = model.rsplit_once('/').unwrap_or(("", model));
        let is_at_openai = before.is_empty() || before == "openai";
        if name.to_lowercase().contains("claude") {
            Self::Anthropic
        } else if is_at_openai && is_openai(name) {
            Self::OpenAi
        } else {
            Self::Other
        }
    }

    /// Returns the lifetime of what a request has read and written, from its last use. `inherited` is the lifetime of
    /// what the request before it had there. `None` if it is not published, or not a fixed time.
    pub(crate) fn lifetime(
        self,
        model: &str,
        usage: &Usage,
        inherited: Option<Millis>,
        rules: &Rules,
    ) -> Option<Millis> {
        let longest = match self {
            Self::Anthropic => usage.cache_write_1h,
            Self::OpenAi => usage.cache_write_12h,
            Self::Other => return None,
        };
        let short = match self {
            Self::Anthropic => FIVE_MINUTES,
            _ => rules.openai.fixed_lifetime(model)?,
        };
        let long = match self {
            Self::Anthropic => ONE_HOUR,
            _ => TWELVE_HOURS,
        };
        Some(match usage.cache_write() {
            0 => inherited.unwrap_or(short),
            // The shortest one, if there are several.
            written if written == longest => long,
            _ => short,
        })
    }

    /// True if a request pays for what it writes to the cache, so that its usage shows what was cached.
    pub(super) fn charges_writes(self, model: &str, rules: &Rules) -> bool {
        match self {
            Self::Anthropic => true,
            Self::OpenAi => rules.openai.fixed_lifetime(model).is_some(),
            Self::Other => false,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anthropic => "Anthropic",
            Self::OpenAi => "OpenAI",
            Self::Other => "other providers",
        })
    }
}

fn is_openai(name: &str) -> bool {
    let is_reasoning = name
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    is_reasoning || name.starts_with("gpt-") || name.starts_with("codex-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_known_by_names_of_models() {
        for (model, provider) in [
            ("claude-sonnet-4-5-20250929", Provider::Anthropic),
            ("us.anthropic.claude-opus-5-v1:0", Provider::Anthropic),
            (
                "openrouter/anthropic/claude-sonnet-4.5",
                Provider::Anthropic,
            ),
            ("gpt-5.6", Provider::OpenAi),
            ("openai/gpt-5.6", Provider::OpenAi),
            ("o3", Provider::OpenAi),
            ("openrouter/openai/gpt-5.6", Provider::Other),
            ("gemini-2.5-pro", Provider::Other),
            ("opus", Provider::Other),
            ("", Provider::Other),
        ] {
            assert_eq!(Provider::of_model(model), provider, "{model}");
        }
    }

    #[test]
    fn only_fixed_lifetimes_are_known() {
        let rules = Rules::published();
        let lifetime = |model: &str, usage: Usage, inherited| {
            Provider::of_model(model).lifetime(model, &usage, inherited, &rules)
        };
        let short = Usage {
            cache_write_other: 10,
            ..Usage::default()
        };
        let hour = Usage {
            cache_write_1h: 10,
            ..Usage::default()
        };
        let mixed = Usage {
            cache_write_5m: 1,
            ..hour
        };
        let twelve = Usage {
            cache_write_12h: 10,
            ..Usage::default()
        };
        let read = Usage {
            cache_read: 10,
            ..Usage::default()
        };
        assert_eq!(lifetime("claude-opus-5", short, None), Some(FIVE_MINUTES));
        assert_eq!(lifetime("claude-opus-5", hour, None), Some(ONE_HOUR));
        assert_eq!(lifetime("claude-opus-5", mixed, None), Some(FIVE_MINUTES));
        assert_eq!(
            lifetime("claude-opus-5", read, Some(ONE_HOUR)),
            Some(ONE_HOUR)
        );
        assert_eq!(lifetime("gpt-5.6", short, None), Some(1_800_000));
        assert_eq!(lifetime("gpt-5.6", twelve, None), Some(TWELVE_HOURS));
        assert_eq!(lifetime("gpt-5-codex", short, None), None);
        assert_eq!(lifetime("gemini-2.5-pro", short, None), None);
    }
}
