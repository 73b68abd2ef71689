//! The guard before a prefix that has expired: a request that would write it again is refused once, so that its user can
//! decide.

use std::collections::HashMap;

use cachalot_core::duration::rounded;
use cachalot_core::text::grouped;
use cachalot_core::{Cost, Millis};
use cachalot_prefix::diagnosis::ColdPrefix;

use crate::error_body::ErrorBody;

/// Time after a refusal in which requests of the conversation are refused, too: no user has sent them. Measured with Claude
/// Code 2.1.332 on 2026-12-01: it repeats a request with status 400 five times within 0.2 s, in other forms.
const REPEATED_WITHIN: Millis = 2_000;
/// Time after a refusal in which requests of the conversation are passed on.
const CONFIRMED_FOR: Millis = 10 * 60 * 1_000;
/// Maximum number of refusals that are known.
const MAX_REFUSALS: usize = 1_024;

/// The conversations of which a request was refused, and when.
#[derive(Debug, Default)]
pub(crate) struct Refusals(HashMap<u64, Millis>);

impl Refusals {
    /// Returns true if a request of a conversation has to be refused now: its user has not seen a refusal within the last
    /// ten minutes.
    pub(crate) fn refuse(&mut self, conversation: u64, now: Millis) -> bool {
        self.0
            .retain(|_, at| (0..=CONFIRMED_FOR).contains(&now.saturating_sub(*at)));
        if let Some(refused) = self.0.get(&conversation) {
            return now.saturating_sub(*refused) < REPEATED_WITHIN;
        }
        if self.0.len() >= MAX_REFUSALS {
            return false;
        }
        self.0.insert(conversation, now);
        true
    }
}

/// Returns the response to a refused request.
pub(crate) fn refusal(cold: &ColdPrefix, cost: Cost) -> ErrorBody {
    let message = format!(
        "this conversation was idle for {}, and the provider keeps its prompt cache for {} only: the request writes {} \
         tokens to it again, which costs {cost} more than reading them. Send it again within 10 minutes to pay for that. \
         Instead, begin a new conversation, or compact this one: that pays once, too, and shortens all later requests. \
         `prefix.keep_alive` of the gateway, or markers with a longer lifetime, keep a cache over such pauses \
         (prefix.guard)",
        rounded(cold.idle),
        rounded(cold.lifetime),
        grouped(cold.tokens),
    );
    ErrorBody::bad_request("cold_prefix", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversation_is_refused_once_in_ten_minutes() {
        let mut refusals = Refusals::default();
        assert!(refusals.refuse(1, 0));
        assert!(refusals.refuse(1, REPEATED_WITHIN - 1));
        assert!(!refusals.refuse(1, REPEATED_WITHIN));
        assert!(!refusals.refuse(1, CONFIRMED_FOR));
        assert!(refusals.refuse(2, CONFIRMED_FOR));
        assert!(refusals.refuse(1, CONFIRMED_FOR + 1));
        // The clock was set back.
        assert!(refusals.refuse(2, 0));
    }
}
