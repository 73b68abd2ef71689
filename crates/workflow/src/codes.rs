//! Stable codes of the problems that an agent file can have.

use cachalot_core::Problem;
use cachalot_core::tree::MapEntry;

macro_rules! codes {
    ($($name:ident = $code:literal: $what:literal)*) => {
        $(#[doc = $what] pub const $name: &str = $code;)*

        /// All codes with a one-sentence description, for the reference documentation. Codes of the YAML
        /// reader come first.
        pub const ALL: &[(&str, &str)] = &[
            ("yaml-syntax", "The text is not YAML."),
            ("tab-indentation", "A line is indented with a tab."),
            ("empty-file", "There is nothing in the file."),
            ("many-documents", "A second YAML document begins."),
            ("duplicate-key", "A mapping has a key twice."),
            ("complex-key", "A key of a mapping is a list or a mapping."),
            ("integer-too-large", "A whole number is beyond 64 bits: quote it."),
            ("number-too-large", "A number is beyond 64 bits: quote it."),
            ("unknown-tag", "A tag is outside the core schema of YAML."),
            ("recursive-alias", "An alias stands inside what it stands for."),
            ("alias-bomb", "Aliases stand for more than a file may hold."),
            ("too-deep", "Lists and mappings are nested too deeply."),
            $(($code, $what)),*
        ];
    };
}

codes! {
    UNKNOWN_KEY = "unknown-key": "A mapping has a key that nothing reads, or an action is given something that it does not take."
    MISSING_KEY = "missing-key": "A mapping lacks a key that it needs, or an action something that it needs."
    WRONG_TYPE = "wrong-type": "A value is of another kind than is expected there."
    OUT_OF_RANGE = "out-of-range": "A number is too small or too large."
    BAD_VALUE = "bad-value": "A value is none of those that are possible there."
    UNSUPPORTED = "unsupported": "Something that other runtimes know and this one does not."
    UNSUPPORTED_SECTION = "unsupported-section": "A section that other runtimes know and this one does not."
    NO_EFFECT = "no-effect": "A warning: something that changes nothing."
    UNSET_VARIABLE = "unset-variable": "`${NAME}` in the settings names an environment variable that is not set."
    DUPLICATE_NODE = "duplicate-node": "Two nodes have one name."
    CONFLICTING_WORK = "conflicting-work": "A node defines more than one kind of work, or a fan-out none."
    GOTO_UNDEFINED = "goto-undefined": "A `goto` leads to a node that there is not."
    EDGE_UNDEFINED = "edge-undefined": "An edge begins or ends at a node that there is not."
    TEMPLATE_IN_CODE = "template-in-code": "A warning: a template in a `run` block, where it is not rendered."
    ENDLESS_CYCLE = "endless-cycle": "Nodes lead to each other, and nothing leads out."
    UNREACHABLE = "unreachable": "An edge or rule is never taken, because another one always is."
    FALLBACK_UNDEFINED = "fallback-undefined": "A `fallback` names a node that there is not."
    NEEDS_APPROVAL = "needs-approval": "Nodes need approval before they run: a warning of `validate`, an error of `run` without `--approve`."
    APPROVAL_UNDEFINED = "approval-undefined": "`interrupt_before` or `--approve` names a node that there is not."
    UNREADABLE_SUBGRAPH = "unreadable-subgraph": "The file of a `subgraph` cannot be read."
    SUBGRAPH_CYCLE = "subgraph-cycle": "Files run each other as subgraphs in a cycle."
    SUBGRAPH_DIFFERS = "subgraph-differs": "A subgraph sets what holds for a whole run, and not as the outer file does."
    FAN_IN_UNDEFINED = "fan-in-undefined": "A fan-out names no node at which its branches meet, or one that there is not."
    UNKNOWN_ACTION = "unknown-action": "`uses` names an action that there is not."
    EFFECT_ONLY_WRAPPED = "effect-only-wrapped": "`cache.wrap` around an action whose only purpose is an effect."
    NOT_MEMOIZABLE = "not-memoizable": "`cache.wrap` around an action whose result must not be cached."
    BAD_TEMPLATE = "bad-template": "A template is malformed."
    UNKNOWN_FILTER = "unknown-filter": "A template uses a filter that there is not."
    UNKNOWN_TEST = "unknown-test": "A template uses a test (`is …`) that there is not."
    UNKNOWN_NAME = "unknown-name": "A template begins an expression with a name that there is not."
    SCRIPT_SYNTAX = "script-syntax": "A `run` block has a syntax error, or is too long."
    SCRIPT_UNSUPPORTED = "script-unsupported": "A `run` block uses something that the embedded Python does not run."
    NO_AGENTS = "no-agents": "There are no agents, although something in the file is for them."
    UNKNOWN_AGENT = "unknown-agent": "An agent delegates to one that there is not."
    DELEGATES_TO_ITSELF = "delegates-to-itself": "An agent is among its own sub-agents."
    BAD_PERMISSION = "bad-permission": "A rule of `permissions` is malformed."
    VOID_RULE = "void-rule": "A rule of `permissions` names a tool or an argument that does not exist."
    CONFLICTING_KEYS = "conflicting-keys": "Two keys set the same value."
    UNREADABLE_INSTRUCTION = "unreadable-instruction": "The file of an `instruction_file` cannot be read."
}

/// Creates the warning for a key that changes no result.
pub(crate) fn no_effect_warning(entry: &MapEntry, what: &str, help: &str) -> Problem {
    let message = format!("`{}` in {what} has no effect", entry.key);
    Problem::warning(NO_EFFECT, message)
        .at(&entry.key_place)
        .help(help)
}
