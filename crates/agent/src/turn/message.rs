//! The user's message of a turn, the hooks that handle it, and the added context.

use cachalot_core::Digest;
use cachalot_hooks::input::Prompt;
use cachalot_hooks::{Event as When, Synthetic, Verdict};
use cachalot_model::{Block, ImageSource, Message};

use super::TurnInput;
use super::context::TurnContext;
use super::synthetic::usable_answer;
use crate::active_session::ActiveSession;
use crate::context;
use crate::conversation::Conversation;
use crate::hook_emitter::HookContext;
use crate::report::Stop;

/// A note for the model on a message that it had begun to answer before the compaction.
const RESUMED_MESSAGE_NOTE: &str = "This message is older than the summary above: work done for it until then is in the summary and need not be repeated.";

/// The name under which hook events report the added summary.
const SUMMARY_SOURCE: &str = "a summary of a conversation that was too long";

/// The name under which hook events report notices about background work.
pub(super) const NOTICE_SOURCE: &str = "a notice about background work";

/// The outcome of the user's message.
pub(super) enum PromptOutcome {
    /// The message is held, to be sent to the model.
    Held,
    /// A hook has answered the message.
    Answered(Synthetic),
    /// A hook has rejected the message.
    Denied(String),
}

/// The user's message of a turn, with the paragraphs that hooks and context sources add to it.
pub(super) struct TurnMessage<'a> {
    /// The user's text.
    text: &'a str,
    /// The attachments behind the user's text.
    attachments: &'a [Block],
    /// `prompt` field of hook events in this turn.
    prompt: Prompt,
    /// Paragraphs that follow the user's text in the message.
    appended: Vec<String>,
    /// Names of hooks and sources that added something to this turn's messages, other than through
    /// [`Prompt::context`].
    appended_by: Vec<String>,
}

impl<'a> TurnMessage<'a> {
    pub(super) fn new(input: TurnInput<'a>) -> Self {
        Self {
            text: input.text,
            attachments: input.attachments,
            prompt: Prompt::default(),
            appended: Vec::new(),
            appended_by: Vec::new(),
        }
    }

    /// The user's text.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// `prompt` field of hook events in this turn.
    pub(super) fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// Names of hooks and sources that added something to this turn's messages, other than through
    /// [`Prompt::context`].
    pub(super) fn appended_by(&self) -> &[String] {
        &self.appended_by
    }

    /// Records hooks that added something to other messages of the turn.
    pub(super) fn record_appended_by(&mut self, names: Vec<String>) {
        self.appended_by.extend(names);
    }

    /// Emits the events of the user's message, and holds the message that is to be sent.
    ///
    /// # Errors
    /// The turn must end.
    pub(super) async fn submit(
        &mut self,
        context: &TurnContext<'_>,
        session: &mut ActiveSession,
        input: TurnInput<'_>,
    ) -> Result<PromptOutcome, Stop> {
        self.prompt = prompt_of_input(session, input);
        for when in [When::UserPromptSubmit, When::PreUserTurn] {
            if when == When::UserPromptSubmit && input.from_agent {
                continue;
            }
            let verdict = self.emit(when, context, session).await?;
            if let Some(why) = verdict.denial() {
                return Ok(PromptOutcome::Denied(why.to_owned()));
            }
            self.prompt.context.extend(verdict.context);
            if let Some(synthetic) = usable_answer(context, verdict.synthetic).await {
                return Ok(PromptOutcome::Answered(synthetic));
            }
        }
        let mut added = HookContext::default();
        added.add(self.emit(When::TurnStart, context, session).await?);
        let collected = collect_context(context, self.text);
        let further = context.cancellation.run_until_cancelled(collected).await?;
        added.paragraphs.extend(further.paragraphs);
        added.by.extend(further.by);
        // Taken last: nothing can end the turn before the message is held.
        let notices = context.take_notices(session.conversation.id());
        if !notices.is_empty() {
            added.paragraphs.extend(notices);
            added.by.push(NOTICE_SOURCE.to_owned());
        }
        let message = self.build(session, added);
        session.conversation.hold(Some(message));
        Ok(PromptOutcome::Held)
    }

    async fn emit(
        &self,
        when: When,
        context: &TurnContext<'_>,
        session: &ActiveSession,
    ) -> Result<Verdict, Stop> {
        let emitted = context.emit(when, |input| {
            input.prompt = Some(self.prompt.clone());
            if when == When::TurnStart {
                // Hooks that add context can check whether it was sent already.
                input.messages = session.conversation.prompt().messages();
            }
        });
        emitted.await
    }

    /// Builds the user's message: the summary before the restart if there is one, the user's text, and the
    /// paragraphs that change from turn to turn.
    pub(super) fn build(&mut self, session: &mut ActiveSession, added: HookContext) -> Message {
        // The opening paragraphs are part of `prompt.context`.
        session.session_start_output = HookContext::default();
        self.appended.clone_from(&self.prompt.context);
        self.appended.extend(added.paragraphs);
        self.appended_by.extend(added.by);
        let mut message = self.after_summary(&session.conversation);
        let open_call_results = std::mem::take(&mut session.open_call_results);
        // Providers require the results of calls directly after the calls, so they precede the text.
        message.content.splice(0..0, open_call_results);
        message
    }

    /// Holds the user's message again, with the paragraphs that hooks added at the restart of the session.
    pub(super) fn hold(&mut self, session: &mut ActiveSession) {
        let session_start_output = std::mem::take(&mut session.session_start_output);
        self.appended.splice(0..0, session_start_output.paragraphs);
        self.appended_by.extend(session_start_output.by);
        let message = self.after_summary(&session.conversation);
        session.conversation.hold(Some(message));
    }

    /// Holds the user's message again, after the summary. `has_begun` is true if something was answered in
    /// this turn.
    pub(super) fn hold_after_summary(&mut self, session: &mut ActiveSession, has_begun: bool) {
        if has_begun {
            self.appended.push(RESUMED_MESSAGE_NOTE.to_owned());
        }
        self.prompt.prefix = Some(session.conversation.prefix());
        self.appended_by.push(SUMMARY_SOURCE.to_owned());
        self.hold(session);
    }

    /// Records that another writer has changed the session since hooks received its prefix.
    pub(super) fn record_conflict(&mut self, conversation: &Conversation) {
        self.prompt.prefix = Some(conversation.prefix());
        let somebody = "another process that continued the session";
        self.appended_by.push(somebody.to_owned());
    }

    fn after_summary(&self, conversation: &Conversation) -> Message {
        let mut message = context::message(self.text, self.attachments, &self.appended);
        if let Some(summary) = conversation.summary() {
            let block = Block::text(format!("<summary>\n{summary}\n</summary>"));
            message.content.insert(0, block);
        }
        message
    }
}

fn prompt_of_input(session: &ActiveSession, input: TurnInput<'_>) -> Prompt {
    let conversation = &session.conversation;
    Prompt {
        text: input.text.to_owned(),
        prefix: Some(conversation.prefix()),
        implicit: input.from_agent,
        fresh: input.fresh,
        attachments: input.attachments.iter().filter_map(digest).collect(),
        form: conversation.output_format(),
        context: session.session_start_output.paragraphs.clone(),
        after_results: !conversation.results().is_empty() || conversation.summary().is_some(),
    }
}

/// The digest of an attachment.
fn digest(attachment: &Block) -> Option<Digest> {
    match attachment {
        Block::Text { text, .. } => Some(Digest::sha256(text.as_bytes())),
        Block::Image(image) => Some(Digest::sha256(match &image.source {
            // The media type follows from the bytes.
            ImageSource::Inline { base64, .. } => base64.as_bytes(),
            ImageSource::Url(url) => url.as_bytes(),
        })),
        _ => None,
    }
}

/// Collects the paragraphs of the context sources.
async fn collect_context(context: &TurnContext<'_>, text: &str) -> HookContext {
    let mut added = HookContext::default();
    for source in &context.shared.dependencies.context {
        if let Some(paragraph) = source.paragraph(context.agent, text).await {
            added.paragraphs.push(paragraph);
            added.by.push(source.name().to_owned());
        }
    }
    added
}
