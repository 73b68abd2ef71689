//! Messages about what commands and turns did, and the question about a plan.

use cachalot_agent::chat::{Reloaded, Retracted};
use cachalot_agent::{Chat, UsageTotals};

use super::setup::told;
use super::show::Show;
use super::sum;
use crate::render::cut;
use crate::render::style::Style;
use crate::render::visible::{on_one_line, visible};
use crate::terminal::{Choice, Question};

/// The maximum number of characters that are shown of a message that is taken back.
const MAX_SHOWN_CHARS: usize = 60;

/// Returns the question if a plan is to be carried out.
pub(super) fn plan_question() -> Question {
    Question {
        text: "carry out the plan?".to_owned(),
        choices: vec![
            choice('y', "yes"),
            choice('e', "yes, and accept edits"),
            choice('n', "no, continue to plan"),
        ],
        // The message changes the plan.
        is_expected: false,
        answered_by_message: Some('n'),
    }
}

/// Returns a choice without a text.
pub(super) fn choice(key: char, label: &str) -> Choice {
    Choice {
        key,
        label: label.to_owned(),
        asks: None,
    }
}

/// Returns the question if commands run in a sandbox without questions.
pub(super) fn sandbox_question() -> Question {
    Question {
        text: "run commands there without a question?".to_owned(),
        choices: vec![
            choice('y', "yes, always in this workspace"),
            choice('n', "no, ask about each command"),
        ],
        is_expected: false,
        answered_by_message: None,
    }
}

/// Lists the agents of a team, with a mark at the current one.
pub(super) fn agents(chat: &Chat) -> String {
    let lines = chat.agents().iter().map(|agent| {
        let mark = if agent.name == chat.agent().name {
            '*'
        } else {
            ' '
        };
        let description = on_one_line(agent.description.trim());
        let line = format!("{mark} {}  {description}", agent.name);
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Describes the new tools and their cost.
pub(super) fn describe_reload(reloaded: &Reloaded) -> String {
    let changes = on_one_line(&reloaded.changes);
    match reloaded.tokens {
        0 => changes,
        tokens => format!(
            "{changes}; the provider reads about {tokens} tokens of this session anew with the next message"
        ),
    }
}

/// Describes the messages that were taken back without the effects of tools.
pub(super) fn describe_retraction(retracted: &Retracted) -> String {
    let taken_back = describe_taken_back(retracted);
    format!("{taken_back}; what tools did is not undone")
}

/// Describes the messages that were taken back.
pub(super) fn describe_taken_back(retracted: &Retracted) -> String {
    let text = on_one_line(&retracted.text);
    let behind = match retracted.others {
        0 => String::new(),
        1 => " and 1 message behind it".to_owned(),
        others => format!(" and {others} messages behind it"),
    };
    format!("taken back: \"{}\"{behind}", cut(&text, MAX_SHOWN_CHARS))
}

/// Prints how to continue a session that its provider refuses; nothing for other errors.
pub(super) fn advise(show: &Show, error: &cachalot_agent::Error) {
    let is_refused = (error.model.as_ref())
        .is_some_and(|error| error.kind == cachalot_model::ErrorKind::Rejected);
    if is_refused {
        show.tell(
            "  help: if the provider refuses the next messages, too, /retract takes back the last one with what came of it",
        );
    }
}

pub(super) fn complain(show: &Show, error: &cachalot_agent::Error) {
    let error_word = Style::of_stderr().error("error:");
    show.tell(&format!("{error_word} {}", visible(&told(error))));
}

pub(super) fn sum_up(total: &UsageTotals, show: &Show) {
    let cut_off = show.cut_off();
    if total.model_calls > 0 || total.saved.calls > 0 || cut_off > 0 {
        let line = format!("in all {}", sum::line(total, cut_off));
        show.tell(&Style::of_stderr().strong(&line));
    }
}
