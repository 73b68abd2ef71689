//! The message of a review.

use crate::definition::ReviewKind;

/// The beginning of the message. The message follows the conversation, or a digest of it.
const OPENING: &str = "Review this conversation. It continues without you: the user does not read what you write now, and none of it becomes part of the conversation.";

const MEMORY: &str = "Look for what will matter in later conversations and is not remembered yet:
- what the user prefers, and how they want to be answered;
- what they corrected, and what is right instead;
- what was decided, and why;
- facts about the user, their project and their surroundings that will stay true.
Search long-term memory before you store anything: put right what is there instead of storing it twice, and forget what has turned out to be wrong. Store one thing in one record, under a key that a reader would search for, in words that can be understood without this conversation. Leave out what the files say anyway, what matters only for the task at hand, guesses, and everything secret.";

const SKILL: &str = "Look for a way of doing something that will be needed again: steps that worked after others had failed, a procedure that the user explained or insisted on, commands and checks that belong together. See which skills there are first: improve the one that it belongs to, and make a new one only if none fits. Write it for a reader who has not seen this conversation: when it is of use, what to do in which order, how to tell that it worked, and what goes wrong. What was done once and will not come again is no skill.";

const END: &str = "Most conversations hold nothing of the kind. Then change nothing, and answer: Nothing to keep. Otherwise say in one sentence what you kept.";

/// Returns the message of a review; `focus` is a subject that the user wants to emphasize.
pub(super) fn message(kind: ReviewKind, focus: Option<&str>) -> String {
    let mut paragraphs = vec![OPENING.to_owned()];
    if matches!(kind, ReviewKind::Memory | ReviewKind::Combined) {
        paragraphs.push(MEMORY.to_owned());
    }
    if matches!(kind, ReviewKind::Skill | ReviewKind::Combined) {
        paragraphs.push(SKILL.to_owned());
    }
    paragraphs.push(END.to_owned());
    if let Some(focus) = focus.map(str::trim).filter(|focus| !focus.is_empty()) {
        paragraphs.push(format!(
            "The user wants this to be looked at above all: {focus}"
        ));
    }
    paragraphs.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_has_the_instructions_of_its_kind_and_ends_with_the_focus() {
        let of = |kind| message(kind, Some(" units "));
        for (kind, memory, skill) in [
            (ReviewKind::Memory, true, false),
            (ReviewKind::Skill, false, true),
            (ReviewKind::Combined, true, true),
        ] {
            let said = of(kind);
            assert_eq!(said.contains(MEMORY), memory, "{kind:?}");
            assert_eq!(said.contains(SKILL), skill, "{kind:?}");
            assert!(said.starts_with(OPENING) && said.ends_with("above all: units"));
        }
        assert!(message(ReviewKind::Memory, Some("  ")).ends_with(END));
    }
}
