//! The report of `cachalot prefix whatif`, as text and JSON.

use cachalot_core::Cost;
use cachalot_prefix::what_if::{Comparison, Group, Policy, PolicyKind, Row, SUMMARY_TOKENS};
use serde_json::{Value, json};

use crate::remedies::{Setting, percent};
use crate::render;
use crate::render::table::{Column, headline, table};
use crate::render::visible::on_one_line;

/// The maximum number of reasons for requests that are left out.
const MAX_REASONS: usize = 5;

/// A comparison with the recommendation for each group.
pub(super) struct Report<'c> {
    comparison: &'c Comparison,
    groups: Vec<GroupReport<'c>>,
}

/// A group with its recommendation.
struct GroupReport<'c> {
    group: &'c Group,
    recommended: Option<(&'c Row, Setting)>,
    /// The policy that changes contents, if it saves clearly more.
    compaction: Option<&'c Row>,
}

impl<'c> Report<'c> {
    pub(super) fn new(comparison: &'c Comparison) -> Self {
        let groups = comparison.groups.iter();
        let mut groups: Vec<_> = groups.map(GroupReport::new).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.group.cost.picodollars));
        Self { comparison, groups }
    }

    /// One sentence: the recommendation, or the sum of several.
    fn headline(&self) -> String {
        let recommended = || {
            let groups = self.groups.iter();
            groups.filter(|group| group.recommended.is_some())
        };
        let mut cost = Cost::default();
        self.groups
            .iter()
            .for_each(|group| cost += group.group.cost);
        let shown: Vec<_> = self
            .groups
            .iter()
            .filter(|group| group.is_shown())
            .collect();
        match (recommended().count(), &shown[..]) {
            (_, [group]) => group.sentence(),
            (0, []) => {
                let reason = match &self.groups[..] {
                    [group] => group.reason(),
                    _ => "no pause outlasted a cache whose lifetime is known".to_owned(),
                };
                format!("no setting would have saved anything: {reason}")
            }
            (0, _) => {
                "no setting would have saved anything: each one costs more than it saves".to_owned()
            }
            (1, _) => {
                let sentences = recommended().map(GroupReport::sentence);
                sentences.collect()
            }
            (count, _) => {
                let mut saved = Cost::default();
                for group in recommended() {
                    saved += group.saving().unwrap_or_default();
                }
                format!(
                    "{count} settings would have saved {} of {} ({})",
                    saved.amount(),
                    cost.amount(),
                    percent(saved, cost)
                )
            }
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = headline(&self.headline());
        let shown = || self.groups.iter().filter(|group| group.is_shown());
        let has_sections = shown().count() > 1;
        for group in shown() {
            text += "\n";
            if has_sections {
                text += &headline(&format!("{}: {}", group.name(), group.advice()));
            }
            text += &group.table();
            text += &group.remarks();
        }
        format!("{text}\n{}", self.notes())
    }

    fn notes(&self) -> String {
        let mut notes = vec![
            "API-equivalent cost; a subscription is billed differently. Only tokens that a request wrote again after a pause count as saved."
                .to_owned(),
        ];
        let others = self.groups.iter().filter(|group| !group.is_shown());
        let without_lifetime = |group: &&GroupReport<'_>| !group.group.has_lifetime();
        let names = |groups: Vec<&GroupReport<'_>>| {
            let names = groups.iter().map(|group| {
                let answers = render::count(group.group.answers, "answer", "answers");
                format!("{} ({answers})", group.name())
            });
            names.collect::<Vec<_>>().join(", ")
        };
        let (unknown, quiet): (Vec<_>, Vec<_>) = others.partition(without_lifetime);
        if !quiet.is_empty() {
            notes.push(format!("No pause outlasted the cache: {}.", names(quiet)));
        }
        if !unknown.is_empty() {
            notes.push(format!(
                "The lifetime of the cache is not published, or not fixed: {}.",
                names(unknown)
            ));
        }
        if let Some(left_out) = self.left_out() {
            notes.push(format!("Left out: {left_out}."));
        }
        notes.iter().map(|note| headline(note)).collect()
    }

    /// The requests that cannot be compared, with the most frequent reasons.
    pub(super) fn left_out(&self) -> Option<String> {
        let mut reasons: Vec<_> = self.comparison.left_out.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shown = reasons.iter().take(MAX_REASONS).map(|(reason, count)| {
            let answers = render::count(**count, "answer", "answers");
            format!("{answers} ({})", on_one_line(reason))
        });
        let mut shown: Vec<_> = shown.collect();
        if reasons.len() > MAX_REASONS {
            let others = (reasons.len() - MAX_REASONS) as u64;
            shown.push(format!("{others} more reasons in --json"));
        }
        (!shown.is_empty()).then(|| shown.join(", "))
    }

    pub(super) fn document(&self) -> Value {
        let groups: Vec<_> = self.groups.iter().map(GroupReport::document).collect();
        json!({
            "headline": self.headline(),
            "groups": groups,
            "summary_tokens": SUMMARY_TOKENS,
            "left_out": self.comparison.left_out,
        })
    }
}

impl<'c> GroupReport<'c> {
    fn new(group: &'c Group) -> Self {
        let find = |row: &Row| Setting::find(group.sender, row);
        let row = group.recommended(|row| find(row).is_some());
        let recommended = row.and_then(|row| Some((row, find(row)?)));
        Self {
            group,
            compaction: group.compaction(row),
            recommended,
        }
    }

    /// True if there is something to compare.
    fn is_shown(&self) -> bool {
        self.group.long_pauses > 0 || self.recommended.is_some()
    }

    fn name(&self) -> String {
        format!("{}, {}", self.group.sender, self.group.provider)
    }

    fn saving(&self) -> Option<Cost> {
        let (row, _) = self.recommended.as_ref()?;
        self.group.saving(row)
    }

    fn sentence(&self) -> String {
        format!("{}: {}", self.group.sender, self.advice())
    }

    /// The recommendation, or the reason why there is none.
    fn advice(&self) -> String {
        match (&self.recommended, self.saving()) {
            (Some((_, setting)), Some(saved)) => format!(
                "`{}` would have saved {} of {} ({})",
                setting.text,
                saved.amount(),
                self.group.cost.amount(),
                percent(saved, self.group.cost)
            ),
            _ => format!("no setting would have saved anything: {}", self.reason()),
        }
    }

    /// The reason why no setting is recommended.
    fn reason(&self) -> String {
        let group = self.group;
        let pauses = render::count(group.lossy_pauses, "pause", "pauses");
        if !group.has_lifetime() {
            "the lifetime of the provider's cache is not published, or not fixed".to_owned()
        } else if group.long_pauses == 0 {
            "no pause outlasted the cache".to_owned()
        } else if group.lossy_pauses == 0 {
            "after no pause were tokens written again".to_owned()
        } else {
            let tokens = render::grouped(group.lost);
            let mut rows = group.rows.iter();
            let has_saving = rows.any(|row| {
                let is_setting = Setting::find(group.sender, row).is_some();
                is_setting && !row.policy.changes_content() && group.saving(row).is_some()
            });
            if has_saving {
                format!(
                    "less than a cent or 1 % ({tokens} tokens were written again after {pauses})"
                )
            } else {
                format!(
                    "each one costs more than it saves ({tokens} tokens were written again after {pauses})"
                )
            }
        }
    }

    fn table(&self) -> String {
        let columns = [
            Column::whole("policy"),
            Column::number("cost"),
            Column::number("change"),
            Column::number("extra requests").optional(),
            Column::number("read, not written").optional(),
            Column::whole(""),
        ];
        let group = self.group;
        let paid = vec!["as paid".to_owned(), group.cost.amount()];
        let rows = group.rows.iter().map(|row| {
            vec![
                row.policy.to_string(),
                if row.cost.unpriced > 0 {
                    "no known price".to_owned()
                } else {
                    row.cost.amount()
                },
                change(row.cost, group.cost),
                render::grouped(row.requests),
                render::grouped(row.read_instead),
                self.remark(row).to_owned(),
            ]
        });
        let rows: Vec<_> = std::iter::once(paid).chain(rows).collect();
        table(&columns, &rows)
    }

    fn remark(&self, row: &Row) -> &'static str {
        let is_recommended = self
            .recommended
            .as_ref()
            .is_some_and(|(best, _)| *best == row);
        if is_recommended {
            return "recommended";
        }
        match row.policy.kind() {
            PolicyKind::Compaction => "other content",
            PolicyKind::SubAgents => "other model",
            PolicyKind::Unchanged(_) => "a habit",
            PolicyKind::Lifetime | PolicyKind::KeepAlive
                if Setting::find(self.group.sender, row).is_none() =>
            {
                "no known setting"
            }
            PolicyKind::Lifetime | PolicyKind::KeepAlive => "",
        }
    }

    /// The place of the setting, the pauses, and what is not a setting.
    fn remarks(&self) -> String {
        let group = self.group;
        let mut lines = Vec::new();
        if let Some((_, setting)) = &self.recommended {
            lines.push(format!("Write `{}` {}.", setting.text, setting.place));
        }
        lines.push(format!(
            "{} outlasted the cache; {} tokens were written again after {} of them.",
            render::count(group.long_pauses, "pause", "pauses"),
            render::grouped(group.lost),
            render::grouped(group.lossy_pauses),
        ));
        if group.without_lifetime > 0 {
            lines.push(format!(
                "{} of models whose cache lifetime is not published, or not fixed: their cost stays the same.",
                render::count(group.without_lifetime, "answer is", "answers are"),
            ));
        }
        if let Some((row, saved)) = self
            .compaction
            .and_then(|row| Some((row, group.saving(row)?)))
        {
            let when = match row.policy {
                Policy::CompactAt(tokens) => {
                    format!("at {} tokens", render::grouped(tokens))
                }
                _ => "before a pause".to_owned(),
            };
            lines.push(format!(
                "Not a setting: a summary (`/compact`) {when} would have saved about {}. An estimate of the cost only: the model sees a summary of {} tokens in place of the conversation.",
                saved.amount(),
                render::grouped(SUMMARY_TOKENS)
            ));
        }
        lines.iter().map(|line| headline(line)).collect()
    }

    fn document(&self) -> Value {
        let group = self.group;
        let policies: Vec<_> = group.rows.iter().map(|row| self.row(row)).collect();
        let models = group.models.iter().map(|(model, (answers, cost))| {
            json!({"model": model, "answers": answers, "usd": cost.dollars()})
        });
        let recommendation = self.recommended.as_ref().map(|(row, setting)| {
            json!({
                "policy": row.policy.name(),
                "until": row.policy.until(),
                "setting": setting.text,
                "place": setting.place,
                "saved_usd": self.saving().unwrap_or_default().dollars(),
            })
        });
        json!({
            "client": group.sender.to_string(),
            "provider": group.provider.to_string(),
            "answers": group.answers,
            "conversations": group.conversations,
            "usd": group.cost.dollars(),
            "answers_without_known_lifetime": group.without_lifetime,
            "pauses_longer_than_cache": group.long_pauses,
            "pauses_with_loss": group.lossy_pauses,
            "tokens_written_again": group.lost,
            "models": models.collect::<Vec<_>>(),
            "policies": policies,
            "recommendation": recommendation,
            "advice": self.advice(),
        })
    }

    fn row(&self, row: &Row) -> Value {
        let is_priced = row.cost.unpriced == 0;
        let tokens = match row.policy {
            Policy::CompactAt(tokens) => Some(tokens),
            _ => None,
        };
        let setting = Setting::find(self.group.sender, row);
        json!({
            "policy": row.policy.name(),
            "until": row.policy.until(),
            "tokens": tokens,
            "usd": is_priced.then(|| row.cost.dollars()),
            "change_usd": is_priced.then(|| row.cost.dollars() - self.group.cost.dollars()),
            "extra_requests": row.requests,
            "extra_requests_usd": row.requests_cost.dollars(),
            "tokens_read_instead": row.read_instead,
            "changes_content": row.policy.changes_content(),
            "setting": setting.map(|setting| setting.text),
        })
    }
}

/// Formats a change: `+34 %`, `-12 %`, `0 %`.
fn change(cost: Cost, paid: Cost) -> String {
    if cost.unpriced > 0 || paid.picodollars == 0 {
        return String::new();
    }
    match ((cost.dollars() / paid.dollars() - 1.0) * 100.0).round() {
        0.0 => "0 %".to_owned(),
        change => format!("{change:+} %"),
    }
}
