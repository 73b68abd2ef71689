//! Faults on demand: `simulate 429` as the whole message.

use std::time::Duration;

use crate::dialogue::Dialogue;
use crate::reply::{Fault, ScriptedReply};

pub(super) fn reply(dialogue: &Dialogue) -> Option<ScriptedReply> {
    let fault = dialogue
        .user
        .iter()
        .find_map(|text| requested_fault(text))?;
    let text =
        "[simulated] This answer was asked to go wrong, so that you can see what your client does.";
    Some(ScriptedReply::text(text).with_fault(fault))
}

fn requested_fault(text: &str) -> Option<Fault> {
    let lower = text.trim().to_lowercase();
    let what = lower.strip_prefix("simulate ")?.trim();
    match what {
        "cut" => Some(Fault::cut(3)),
        "malformed" => Some(Fault::malformed()),
        "slow" => Some(Fault::slow(
            Duration::from_secs(2),
            Duration::from_millis(300),
        )),
        "429" => Some(Fault::status(429).retry_after(Duration::from_secs(1))),
        _ => {
            let status: u16 = what.parse().ok()?;
            (400..=599).contains(&status).then(|| Fault::status(status))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_request_must_be_the_whole_message() {
        assert_eq!(requested_fault(" Simulate 529\n"), Some(Fault::status(529)));
        assert_eq!(requested_fault("simulate cut"), Some(Fault::cut(3)));
        assert_eq!(requested_fault("simulate 200"), None);
        assert_eq!(requested_fault("simulate a storm"), None);
        assert_eq!(requested_fault("please simulate 429"), None);
    }
}
