//! Who answers for a fork what the user would be asked.

use async_trait::async_trait;
use cachalot_hooks::input::PermissionMode;

use crate::event::{Approval, Approver, Nobody, Question};

/// Nobody can be asked, and whoever lists a tool for a fork lets it be used: only what a rule or a hook
/// wants asked about is refused.
pub(super) struct Listed(pub(super) Vec<String>);

#[async_trait]
impl Approver for Listed {
    async fn approve(&self, question: &Question<'_>) -> Approval {
        let is_listed = self.0.contains(&question.call.name);
        match is_listed && question.rule.is_none() && question.why.is_none() {
            true => Approval::Yes,
            false => Nobody.approve(question).await,
        }
    }

    fn mode(&self) -> PermissionMode {
        Nobody.mode()
    }
}
