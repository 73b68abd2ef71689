//! The question before a message that makes the provider read an expired prefix anew (`prefix.guard`).

use std::sync::Arc;

use cachalot_agent::PrefixRewrite;
use cachalot_core::duration::rounded;
use cachalot_core::text::grouped;
use cachalot_prompt::PrefixLifetime;

use super::messages::choice;
use super::prompt::{PlainPrompt, Prompt};
use crate::render::style::Style;
use crate::terminal::{Input, Question, Reply};

/// Asks if the message is sent. Returns false for every answer but "yes".
pub(super) async fn confirm(prompt: &Prompt, rewrite: &PrefixRewrite) -> bool {
    let style = Style::of_stderr();
    for line in describe(rewrite) {
        prompt.tell(&format!("  {line}"));
    }
    let is_confirmed = match prompt {
        Prompt::Live(console) => {
            let question = Question {
                text: "send it?".to_owned(),
                choices: vec![choice('y', "yes"), choice('n', "no")],
                is_expected: false,
                answered_by_message: None,
            };
            console.ask(question).await == Reply::Choice('y')
        }
        Prompt::Plain(prompt) => ask_line(prompt).await,
    };
    let outcome = if is_confirmed { "sent" } else { "not sent" };
    prompt.tell(&style.dim(&format!("  {outcome}")));
    is_confirmed
}

async fn ask_line(prompt: &Arc<PlainPrompt>) -> bool {
    let answer = Arc::clone(prompt).answer("  send it? [y]es, [n]o: ").await;
    match answer {
        Input::Text { text, .. } => matches!(text.trim(), "y" | "Y" | "yes" | "Yes"),
        Input::End => false,
    }
}

/// Returns the note before a summary of a conversation whose prefix has expired.
pub(super) fn describe_summary(rewrite: &PrefixRewrite) -> String {
    format!("{}; the summary {}", pause(rewrite), reading(rewrite))
}

/// Returns the reason of the question and the alternatives, by line.
fn describe(rewrite: &PrefixRewrite) -> [String; 3] {
    let ttl = match rewrite.longer_lifetime {
        Some(PrefixLifetime::OneHour) => Some(("1h", "an hour")),
        Some(PrefixLifetime::TwelveHours) => Some(("12h", "twelve hours")),
        Some(PrefixLifetime::FiveMinutes | PrefixLifetime::Auto) | None => None,
    };
    let ttl = ttl.map_or_else(String::new, |(ttl, time)| {
        format!("; for later pauses of up to {time}, `prefix: {{ttl: {ttl}}}` in the agent file")
    });
    [
        pause(rewrite),
        format!("sending the message {}", reading(rewrite)),
        format!(
            "instead: /compact (costs this once, and later requests are shorter), /new (a new conversation){ttl}"
        ),
    ]
}

fn pause(rewrite: &PrefixRewrite) -> String {
    format!(
        "the conversation was idle for {}, and the provider keeps its prefix for {}",
        rounded(rewrite.idle),
        rounded(rewrite.lifetime)
    )
}

fn reading(rewrite: &PrefixRewrite) -> String {
    format!(
        "makes it read about {} tokens anew, for {} more than from its cache",
        grouped(rewrite.tokens),
        rewrite.cost.amount()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cachalot_core::Cost;

    use super::*;

    fn rewrite(minutes: u64, longer_lifetime: Option<PrefixLifetime>) -> PrefixRewrite {
        PrefixRewrite {
            idle: Duration::from_secs(minutes * 60 + 30),
            lifetime: Duration::from_secs(300),
            tokens: 182_000,
            cost: Cost::from_picodollars(627_900_000_000),
            longer_lifetime,
        }
    }

    #[test]
    fn question_names_idle_time_tokens_cost_and_alternatives() {
        assert_eq!(
            describe(&rewrite(47, Some(PrefixLifetime::OneHour))).join("\n"),
            "the conversation was idle for 47 min, and the provider keeps its prefix for 5 min
sending the message makes it read about 182,000 tokens anew, for $0.63 more than from its cache
instead: /compact (costs this once, and later requests are shorter), /new (a new conversation); for later pauses of up to an hour, `prefix: {ttl: 1h}` in the agent file"
        );
        let [pause, _, alternatives] = describe(&rewrite(185, None));
        assert!(pause.contains("idle for 3 h 5 min,"), "{pause}");
        assert!(alternatives.ends_with("/new (a new conversation)"));
    }
}
