//! Sessions of Codex: each answer once, although a fork may begin with copies of its parent's lines.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::rollout::{CopiedAnswers, Rollout, RolloutAnswer, RolloutLine};
use crate::spend::SpendReader;
use crate::spend::answer::{Client, PaidAnswer};
use crate::spend::details::AnswerDetails;

/// The maximum number of parents of a session that are compared.
const MAX_PARENTS: usize = 64;

/// The sessions of all files.
#[derive(Default)]
pub(in crate::spend) struct Sessions(HashMap<Arc<str>, Rollout>);

/// Reads a line of a file; returns false if it is malformed.
pub(in crate::spend) fn line(rollout: &mut Rollout, text: &[u8], reader: &mut SpendReader) -> bool {
    let parsed = if rollout.file.is_some() {
        RolloutLine::parse_with_calls(text)
    } else {
        RolloutLine::parse(text)
    };
    let Some(line) = parsed else {
        return false;
    };
    if let Some(kind) = line.unknown_kind() {
        reader.unknown(Client::Codex, kind);
    }
    rollout.take(reader.line, line);
    true
}

impl Sessions {
    /// Adds a file. Several files of one session, such as an archived copy, are one session.
    pub(in crate::spend) fn add(&mut self, rollout: Rollout) {
        match self.0.get_mut(&rollout.session) {
            None => {
                self.0.insert(Arc::clone(&rollout.session), rollout);
            }
            Some(known) => known.merge(rollout),
        }
    }

    /// Returns the answers of all sessions, each once.
    pub(in crate::spend) fn finish(self) -> Vec<PaidAnswer> {
        let sessions = self.0;
        // Parents before their forks.
        let mut order: Vec<_> = sessions.values().collect();
        order.sort_by(|a, b| (a.written, &a.session).cmp(&(b.written, &b.session)));
        let mut recorded = HashSet::new();
        let mut paid = Vec::new();
        for rollout in order {
            let copied = copied(rollout, &sessions);
            let own = rollout.own_answers(copied.as_ref(), &mut recorded);
            paid.extend(own.into_iter().map(|answer| PaidAnswer {
                session: Arc::clone(&rollout.session),
                terms: answer.terms(),
                details: details(rollout, &answer),
                project: answer.project,
                ..PaidAnswer::new(Client::Codex, answer.model, answer.at, answer.usage)
            }));
        }
        paid
    }
}

/// Returns the details of an answer, if they were asked for.
fn details(rollout: &Rollout, answer: &RolloutAnswer) -> Option<Box<AnswerDetails>> {
    let mut details = AnswerDetails::new(Arc::clone(rollout.file.as_ref()?));
    details.id = Some(answer.id(&rollout.session).into());
    details.tools.extend(answer.tools.iter().cloned());
    Some(Box::new(details))
}

/// Returns the answers in the files of a session's parents that existed when it began; `None` without such a file.
fn copied(rollout: &Rollout, sessions: &HashMap<Arc<str>, Rollout>) -> Option<CopiedAnswers> {
    let mut parent = sessions.get(rollout.parent.as_deref()?)?;
    let mut copied = CopiedAnswers::new();
    // Parents can form a cycle that does not include this session; the check below finds only a cycle through it.
    for _ in 0..MAX_PARENTS {
        parent.copy_to(rollout, &mut copied);
        match parent
            .parent
            .as_deref()
            .and_then(|parent| sessions.get(parent))
        {
            Some(next) if next.session != rollout.session => parent = next,
            _ => break,
        }
    }
    Some(copied)
}
