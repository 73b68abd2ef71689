//! The likely causes of prefix breaks that are visible in the bytes of requests, with a remedy for each.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! causes {
    ($($name:ident $code:literal: $what:literal, $remedy:literal;)*) => {
        /// The likely cause of a prefix break, as far as requests show it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum LikelyCause {
            $(#[doc = $what] $name,)*
        }

        impl LikelyCause {
            /// All causes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns a stable name, for programs.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// Returns a description that can follow a colon.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Self::$name => $what,)* }
            }

            /// Returns the remedy, as a sentence.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy,)* }
            }
        }
    };
}

causes! {
    Timestamp "timestamp": "a time of day in the prefix",
        "Remove the time from the prefix, or put it into the newest message.";
    Date "date": "a date in the prefix",
        "Fix the date when the session begins, or put it into the newest message: it changes at midnight.";
    Identifier "identifier": "an id of the session or request in the prefix",
        "Leave ids out of what the model reads; send them as metadata.";
    Credential "credential": "a credential in the prefix",
        "Keep credentials out of the prompt: the provider and every log of requests see them.";
    Counter "counter": "a number that changes in the prefix",
        "Remove counts and sizes from the prefix, or put them into the newest message.";
    SkillsIndex "skills-index": "the index of skills changed",
        "Freeze the index when the session begins; a new skill counts from the next session on.";
    MemoryBlock "memory-block": "remembered facts in the prefix changed",
        "Freeze what is remembered when the session begins, and put what is recalled later into the newest message.";
    GitStatus "git-status": "the state of the repository in the prefix changed",
        "Read the state of the repository once, when the session begins; let a tool return the current state.";
    WorkingDirectory "working-directory": "the working directory or its files in the prefix changed",
        "Say where the work is done once, when the session begins; let a tool list files.";
    ProjectFile "project-file": "a file of instructions in the prefix was edited",
        "Read files of instructions once, when the session begins; an edit counts from the next session on.";
    GatewayContext "gateway-context": "who writes and where, in the prefix",
        "Put the sender, the channel and the like into the newest message.";
    ModelFooter "model-footer": "the model or provider is named in the prefix",
        "Leave the names of model and provider out of the system's text.";
    SurfaceSwitch "surface": "the user interface is described in the prefix",
        "Keep the description that the session began with; mention a switch in the newest message.";
    WebTools "web-tools": "web search or web fetch was switched",
        "Decide on the provider's own tools when the session begins; switching them loses the system's text.";
    ToolsReordered "tools-reordered": "the same tools in another order",
        "Sort the tools by name, or keep them in a list: maps have no order.";
    ToolAdded "tool-added": "a tool came late",
        "Wait for every tool server before the first request; let a late tool join at a point of your choosing.";
    ToolRemoved "tool-removed": "a tool is gone",
        "Keep the list of tools; forbid calls where they are carried out, or by `tool_choice`.";
    ToolsOmitted "tools-omitted": "the request has no tools any more",
        "Send the same tools with every request of the session, also those that summarize or finish.";
    CounterInTool "counter-in-tool": "a live figure in the description of a tool",
        "Describe what the tool does; let its results carry the figures.";
    ToolRedefined "tool-redefined": "the definition of a tool changed",
        "Pin the definitions of tools when the session begins.";
    ToolSearch "tool-search": "tools that a search had found changed, or the search was switched",
        "Send results of a search for tools back as they came, and decide on the search when the session begins.";
    ModelSwitched "model-switched": "another model",
        "Caches belong to one model: switch where the conversation is short, or begin a new session.";
    ReasoningSetting "reasoning-setting": "the effort or budget of reasoning changed",
        "Choose the effort once for a session.";
    ToolChoice "tool-choice": "`tool_choice` or parallel calls changed",
        "Keep `tool_choice`; name the tool in the newest message.";
    OutputSetting "output-setting": "the form of the answer changed",
        "Keep the format and verbosity of answers; ask for another form in the newest message.";
    FeatureSetting "feature-setting": "a setting of the provider changed that becomes part of the prompt",
        "Keep speed, citations and the like for a whole session.";
    Routing "routing": "the request may go to another upstream",
        "Pin the upstream provider for a session.";
    CacheKeyChanged "cache-key-changed": "another `prompt_cache_key`",
        "Use one key for all requests that share a prefix.";
    CacheKeyTooLong "cache-key-too-long": "a `prompt_cache_key` of more than 64 characters",
        "Shorten the key to 64 characters, by a hash if need be: longer ones are refused.";
    CacheOptions "cache-options": "`prompt_cache_options` changed",
        "Keep mode and lifetime of the cache for a whole session.";
    AccessProgram "access-program": "`access_programs` changed",
        "Choose the access program once for a session.";
    MessageThread "thread": "the request left a thread of the provider, or began one",
        "Keep to one thread for a session; the provider forgets a thread after five minutes.";
    OtherParameter "parameter": "a parameter changed that the cache depends on",
        "Keep the parameters of a session; what varies belongs into the newest message.";
    Reserialized "reserialized": "the same JSON, written otherwise",
        "Keep the text of tool arguments and schemas as it was first sent; do not parse and print it again.";
    StringOrParts "string-or-parts": "a text became a list of parts, or the reverse",
        "Write content in one form always, with or without a cache marker.";
    TooManyMarkers "too-many-markers": "more than four cache markers",
        "Take old markers away before new ones are set: more than four are refused.";
    MarkerOnEmptyText "marker-on-empty-text": "a cache marker where none may stand",
        "Mark the last block that is neither empty nor reasoning.";
    NoMarkers "no-markers": "no cache marker",
        "Mark the end of the system's text and the newest message: this provider caches nothing else.";
    ShortBeforeLong "short-before-long": "an hour's marker behind one of five minutes",
        "Put markers of an hour before those of five minutes.";
    ToolResultPruned "tool-result-pruned": "a tool's result was cut down after it had been sent",
        "Shorten results before they are sent first, and leave them as they are.";
    ToolResultDeduplicated "tool-result-deduplicated": "an earlier copy of a result was replaced by a reference",
        "Keep the first copy, and let the later one refer to it.";
    SlidingWindow "sliding-window": "the oldest messages were dropped",
        "Drop many messages at once and seldom; or summarize at the end of what is kept.";
    Compaction "compaction": "the conversation was replaced by a summary",
        "Ask for the summary with the old prefix, and put it behind what stays the same.";
    ReasoningStripped "reasoning-stripped": "what the model thought was left out",
        "Send reasoning back as it came, as long as the provider takes it.";
    ImagesChanged "images-changed": "pictures were added to or taken out of what had been sent",
        "Leave pictures where they were sent, or replace them when the conversation is compacted.";
    ImageReencoded "image-reencoded": "a picture was encoded anew",
        "Keep the encoded bytes of a picture that was sent.";
    ReminderMoved "reminder-moved": "a reminder of the client was taken from, or put into, a message that had been sent",
        "Leave reminders where they were sent; a new one goes into the newest message.";
    ContextRewritten "context-rewritten": "the context of a turn was written anew in its place",
        "Leave the context of earlier turns as it was sent; the newest goes into the newest message.";
    ContextInserted "context-inserted": "a message was put before messages that had been sent",
        "Append: what is new goes behind everything that was sent.";
    MessagesMerged "messages-merged": "two messages of the user became one",
        "Leave a message closed once it is sent; what is added is a message of its own.";
    GoalFirst "goal-first": "what differs stands before what is shared",
        "Put what many requests share first, and the goal of each last.";
    Whitespace "whitespace": "only white space in a text differs",
        "Send texts as they were first sent; do not trim or wrap them again.";
    FirstMessageEdited "first-message-edited": "the first message is another one",
        "Leave the first message as it was sent; what has to be corrected goes into the newest message.";
    MessageEffort "message-effort": "the effort that a message sets is another one",
        "Leave the effort of messages that were sent; set another one in a new message.";
    MessageEdited "message-edited": "a message that had been sent is another one",
        "Leave messages as they were sent; what has to be corrected goes into the newest message.";
    FirstImage "first-image": "the first picture of the conversation, or its last one is gone",
        "Anthropic caches messages apart for requests with and without pictures: send the first picture early, and keep it.";
    ThinkingDropped "thinking-dropped": "the provider drops earlier thinking when the user writes",
        "This model keeps thinking only until the next message of the user: put a marker before the turn, or use a newer model.";
    RepairTimestamp "repair-timestamp": "a result that was made up carries the time",
        "Make up results of interrupted calls from constant text.";
    PrefillChanged "prefill-changed": "the beginning of the answer that was given before is another, or gone",
        "Put what opens the answer behind the messages always in the same way.";
    Lookback "lookback": "the last cached prefix lies more than 20 blocks before the next marker",
        "Set a marker in between when a turn gets long.";
    Expired "expired": "the cached prefix had expired",
        "Keep the prefix for an hour if people answer slowly; its time counts from the start of the last request.";
    RetentionExpired "retention-expired": "the provider's retention of unread prefixes was over",
        "Send the next request sooner, or ask for a longer retention (`prompt_cache_retention: 24h`) where the model has one.";
    MarkersDropped "markers-dropped": "the cache markers of the request before are gone",
        "Set the markers again in every request; some gateways and retries remove them.";
    ExplicitWithoutBreakpoints "explicit-without-breakpoints": "`mode: explicit` without a breakpoint",
        "Set a `prompt_cache_breakpoint`, or leave `mode` at `implicit`: nothing is cached otherwise.";
    FanOut "fan-out": "the request before had not been answered yet",
        "Send the first of many like requests alone, and the others when its answer begins.";
    BelowMinimum "below-minimum": "the prefix is shorter than the provider caches",
        "Nothing can be gained here, unless more of the prefix is shared.";
}

impl fmt::Display for LikelyCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what())
    }
}

impl Serialize for LikelyCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}
