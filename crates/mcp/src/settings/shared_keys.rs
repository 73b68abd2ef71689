//! Keys that toolsets of several types have.

use cachalot_core::Problem;
use cachalot_core::config::{
    Parameter, ParameterKind as Kind, SettingValue as _, Settings, key, no_effect,
};
use cachalot_core::tree::Node;
use cachalot_tools::filter::NameFilter;

/// The name of a toolset in messages.
pub(super) const NAME: &str = "a toolset";

/// The type of a toolset, by which its other keys are chosen.
pub(super) const TYPE: Parameter = key("type", Kind::Text, "The type.");

/// The keys of toolsets whose tools have names of their own.
#[rustfmt::skip]
pub(super) const COMMON: &[Parameter] = &[
    TYPE,
    key("tools", NameFilter::KIND, "Patterns of the tools that are selected; `!` excludes."),
];

/// The keys of toolsets of all types.
#[derive(Debug, Default, Settings)]
#[settings(name = "a toolset")]
pub(super) struct Selection {
    /// Selects only tools that change nothing.
    #[setting(
        key = "readonly",
        alias = "read_only",
        alias = "readOnly",
        default = false
    )]
    pub(super) read_only: bool,
    /// An instruction to the agent about the tools.
    pub(super) instruction: Option<String>,
}

/// Keys of toolsets in docker-agent that change nothing here.
#[rustfmt::skip]
pub(super) const OF_OTHERS: &[Parameter] = &[
    no_effect("toon", "results are shown to the model as the tool returns them"),
    no_effect("defer", "the model is shown all tools, which the provider keeps in its cache"),
    no_effect("model", "the agent's own model reads all results: it has the conversation in the provider's cache"),
    no_effect("lifecycle", "`startup_timeout` and `required` of a server decide about its start"),
    no_effect("config", "configure the server with `docker mcp config`, or its `env`"),
    no_effect("safer", "a command needs an approval, unless a rule under `permissions` allows it"),
    no_effect("sudo_askpass", "commands have no terminal: configure `sudo` without a password for the commands that need it"),
    no_effect("escape_html", "results are shown to the model as the page has them"),
    no_effect("ignore_vcs", "`grep` and `glob` skip what `.gitignore` names"),
    no_effect("post_edit", "run the command in a hook of `post_tool_use` with the matcher `write_file|edit_file|apply_patch`"),
    no_effect("path", "memories are kept in Cachalot's own store: `cachalot cache stats` shows where"),
];

/// Returns a problem of a whole value.
pub(super) fn problem(
    node: &Node,
    code: &'static str,
    message: impl Into<String>,
    help: impl Into<String>,
) -> Problem {
    Problem::new(code, message).at(&node.head()).help(help)
}
