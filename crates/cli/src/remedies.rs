//! Remedies: what would have made past requests cheaper, by how much, and how to switch it on.

mod setting;

use std::fmt;

use cachalot_core::Cost;
use cachalot_core::text::grouped;
use cachalot_prefix::spend::Client;
use cachalot_prefix::what_if::{
    Change, Comparison, Group, Policy, PolicyKind, Row, SUMMARY_TOKENS, Sender, is_worthwhile,
};
use serde_json::{Value, json};

pub(crate) use setting::Setting;

/// A change of a setting or a habit, and what it alone would have saved.
pub(crate) struct Remedy {
    /// The program whose requests would have been cheaper.
    program: String,
    /// The name in documents.
    name: String,
    /// The change in a few words: `1 h writes`.
    change: String,
    pub(crate) saved: Cost,
    /// The cost of the program's requests to the provider, as paid.
    pub(crate) paid: Cost,
    certainty: Certainty,
    how: How,
}

/// The certainty of a saving.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// Computed for the same requests and answers.
    Computed,
    /// The requests or the answers would have been others.
    Estimate,
    /// The sum contains requests that remain.
    AtMost,
}

/// The way to switch a remedy on.
enum How {
    Setting(Setting),
    /// A sentence.
    Habit(String),
}

impl Remedy {
    /// Returns the remedies of all groups, the largest saving first, and the one for side requests. Each one saves at least
    /// a cent and a hundredth of what the program's requests have cost.
    pub(crate) fn all(comparison: &Comparison, side_requests: Cost) -> Vec<Self> {
        let groups = comparison.groups.iter();
        let mut remedies: Vec<Self> = groups
            .flat_map(|group| {
                let rows = group.savings(|row| How::find(group, row).is_some());
                rows.into_iter().filter_map(|row| Self::new(group, row))
            })
            .collect();
        remedies.sort_by_key(|remedy| std::cmp::Reverse(remedy.saved.picodollars));
        remedies.extend(Self::without_side_requests(comparison, side_requests));
        remedies
    }

    fn new(group: &Group, row: &Row) -> Option<Self> {
        Some(Self {
            program: group.sender.to_string(),
            name: row.policy.name().into_owned(),
            change: row.policy.to_string(),
            saved: group.saving(row)?,
            paid: group.cost,
            certainty: if row.policy.changes_content() {
                Certainty::Estimate
            } else {
                Certainty::Computed
            },
            how: How::find(group, row)?,
        })
    }

    /// Returns the remedy for requests that are in no line of Claude Code's transcripts, if they cost at least a cent and
    /// a hundredth of its other requests. Which of them are of a kind that can be switched off is not recorded.
    fn without_side_requests(comparison: &Comparison, side_requests: Cost) -> Option<Self> {
        let sender = Sender::Program(Client::ClaudeCode);
        let groups = comparison.groups.iter();
        let mut paid = side_requests;
        groups
            .filter(|group| group.sender == sender)
            .for_each(|group| paid += group.cost);
        is_worthwhile(side_requests, paid).then(|| Self {
            program: sender.to_string(),
            name: "fewer_side_requests".to_owned(),
            change: "fewer side requests".to_owned(),
            saved: Cost::from_picodollars(side_requests.picodollars),
            paid,
            certainty: Certainty::AtMost,
            how: How::Habit(setting::SIDE_REQUESTS.to_owned()),
        })
    }

    /// Returns the best remedy that is computed, for a headline: a setting rather than a habit.
    pub(crate) fn headline(remedies: &[Self]) -> Option<String> {
        let mut computed = remedies.iter().filter(|remedy| remedy.is_computed());
        computed.find_map(|remedy| match &remedy.how {
            How::Setting(setting) => Some(format!(
                "{} less with `{}`",
                remedy.saved.amount(),
                setting.text
            )),
            How::Habit(_) => None,
        })
    }

    /// Returns the program and the change.
    pub(crate) fn title(&self) -> String {
        format!("{}, {}", self.program, self.change)
    }

    /// Returns the saving with its certainty.
    pub(crate) fn amount(&self) -> String {
        let about = match self.certainty {
            Certainty::Computed => "",
            Certainty::Estimate => "about ",
            Certainty::AtMost => "at most ",
        };
        format!("{about}{}", self.saved.amount())
    }

    /// True if the same requests and answers would have been cheaper.
    pub(crate) fn is_computed(&self) -> bool {
        self.certainty == Certainty::Computed
    }

    /// Returns a sentence about how to switch it on.
    pub(crate) fn how(&self) -> String {
        match &self.how {
            How::Setting(Setting { text, place }) => format!("Write `{text}` {place}."),
            How::Habit(how) => how.clone(),
        }
    }

    /// Returns the members of a document.
    pub(crate) fn document(&self) -> Value {
        let (setting, how) = match &self.how {
            How::Setting(setting) => (Some(&setting.text), None),
            How::Habit(how) => (None, Some(how)),
        };
        let place = match &self.how {
            How::Setting(setting) => Some(setting.place),
            How::Habit(_) => None,
        };
        json!({
            "client": self.program,
            "policy": self.name,
            "saved_usd": self.saved.dollars(),
            "of_usd": self.paid.dollars(),
            "certainty": match self.certainty {
                Certainty::Computed => "computed",
                Certainty::Estimate => "estimate",
                Certainty::AtMost => "at_most",
            },
            "setting": setting,
            "place": place,
            "how": how,
        })
    }
}

/// Two lines: `Claude Code, 1 h writes: $12.40 of $110.20 (11 %)`, and how.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, saved, how) = (self.title(), self.amount(), self.how());
        let (paid, part) = (self.paid.amount(), percent(self.saved, self.paid));
        write!(f, "{title}: {saved} of {paid} ({part})\n  {how}")
    }
}

impl How {
    /// Returns the way to switch on the policy of a row; `None` if none is known.
    fn find(group: &Group, row: &Row) -> Option<Self> {
        let of_policy = match (row.policy.kind(), row.policy) {
            (PolicyKind::Unchanged(Change::Tools), _) => {
                "Connect MCP servers and change plugins before the first message of a session."
                    .to_owned()
            }
            (PolicyKind::Unchanged(Change::Model), _) => {
                "Choose another model at the beginning of a session, not within a conversation."
                    .to_owned()
            }
            (PolicyKind::Compaction, Policy::CompactAt(tokens)) => format!(
                "Summarize a conversation of {} tokens (`/compact`): the model then reads a summary of some {} tokens.",
                grouped(tokens),
                grouped(SUMMARY_TOKENS)
            ),
            (PolicyKind::Compaction, _) => format!(
                "Summarize the conversation before a pause (`/compact`): the model then reads a summary of some {} tokens.",
                grouped(SUMMARY_TOKENS)
            ),
            _ => return Setting::find(group.sender, row).map(Self::Setting),
        };
        Some(Self::Habit(of_policy))
    }
}

/// Formats a part of a cost: `13 %`, `<1 %`.
pub(crate) fn percent(part: Cost, whole: Cost) -> String {
    match part.dollars() / whole.dollars() * 100.0 {
        percent if percent < 1.0 => "<1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}
