//! Kinds of values in toolsets and servers: times, patterns of names, variables.

use std::collections::BTreeMap;

use cachalot_core::config::{
    Custom, Literal, Parameter, ParameterKind as Kind, Values, key, no_effect,
};
use cachalot_core::duration::Range;
use cachalot_core::tree::Node;
use cachalot_core::{Problem, Secret};
use cachalot_tools::filter::NameFilter;

/// An integer that is at least one.
pub(super) const SIZE: Kind = Kind::IntegerIn(1, 1 << 30);

/// A duration that is greater than zero.
pub(super) const TIME: Kind = Kind::Duration(Range::POSITIVE);

/// A list of patterns of names.
pub(super) const PATTERNS: Kind = Kind::Custom(&Custom {
    schema: Some(|| Kind::Texts.schema(false)),
    check: |entry, problems| {
        Kind::Texts.check(entry, problems);
        let patterns = entry.value.as_list().unwrap_or_default().iter();
        let patterns: Vec<&str> = patterns.filter_map(Node::as_text).collect();
        problems.extend(check_patterns(&patterns, &entry.value, &entry.key));
    },
});

/// Returns the problem of the first invalid pattern in `key`.
pub(super) fn check_patterns(patterns: &[&str], node: &Node, key: &str) -> Option<Problem> {
    let (pattern, why) = NameFilter::new(patterns).err()?;
    Some(problem(
        node,
        "bad-pattern",
        format!("`{pattern}` in `{key}` is no pattern: {why}"),
        "`*` stands for any characters, `?` for one, `{a,b}` for either",
    ))
}

/// Returns the value of the kind [`PATTERNS`].
pub(super) fn filter(values: Values<'_>, key: &str) -> Option<NameFilter> {
    NameFilter::new(&values.texts(key)?).ok()
}

/// A mapping of names to texts, numbers and booleans, which are converted to text.
pub(super) const VARIABLES: Kind = Kind::Custom(&Custom {
    schema: Some(|| SCALARS.schema(false)),
    check: |section, problems| {
        SCALARS.check(section, problems);
        for entry in section.value.as_map().unwrap_or_default() {
            let value = entry.value.as_text().unwrap_or_default();
            if entry.key.is_empty() || entry.key.contains(['=', '\0']) || value.contains('\0') {
                problems.push(
                    Problem::new(
                        "bad-value",
                        format!("`{}` in `{}` is no variable", entry.key, section.key),
                    )
                    .at(&entry.key_place)
                    .help("names hold no `=`, and neither names nor values a NUL"),
                );
            }
        }
    },
});

const SCALARS: Kind = Kind::Scalars { null: true };

/// Returns the value of the kind [`VARIABLES`].
pub(super) fn variables(values: Values<'_>, key: &str) -> BTreeMap<String, Secret<String>> {
    let variables = values.scalars(key);
    variables
        .map(|(name, value)| (name.to_owned(), Secret::new(value)))
        .collect()
}

pub(super) fn problem(
    node: &Node,
    code: &'static str,
    message: impl Into<String>,
    help: impl Into<String>,
) -> Problem {
    Problem::new(code, message).at(&node.head()).help(help)
}

/// The name of a toolset in messages.
pub(super) const NAME: &str = "a toolset";

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
    no_effect("ignore_vcs", "`grep` and `glob` skip what `.gitignore` names"),
    no_effect("post_edit", "run the command in a hook of `post_tool_use` with the matcher `write_file|edit_file|apply_patch`"),
    no_effect("path", "memories are kept in Cachalot's own store: `cachalot cache stats` shows where"),
];

pub(super) const TYPE: Parameter = key("type", Kind::Text, "The type.");
pub(super) const SELECTION: &[Parameter] = &[
    key(
        "readonly",
        Kind::Boolean,
        "Selects only tools that change nothing.",
    )
    .default(Literal::Boolean(false))
    .with_aliases(&["read_only", "readOnly"]),
    key(
        "instruction",
        Kind::Text,
        "An instruction to the agent about the tools.",
    ),
];
