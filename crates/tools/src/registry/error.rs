//! Errors of building a registry.

use cachalot_operation::Origin;

/// The reason why a registry cannot be built. A retry does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two tools have the same name.
    #[error(
        "two tools are called `{name}`: {}, and {}; rename or leave out one of them",
        describe_origin(.first),
        describe_origin(.second)
    )]
    DuplicateName {
        /// The name.
        name: String,
        /// The origin of the first, in the order of definitions.
        first: Origin,
        /// The origin of the second.
        second: Origin,
    },
    /// A name that some provider refuses.
    #[error(
        "`{name}` is no name for a tool ({}): providers take 1 to 64 ASCII letters, digits, `_` and `-`",
        describe_origin(.origin)
    )]
    Name {
        /// The name.
        name: String,
        /// The origin of the tool.
        origin: Origin,
    },
    /// A schema of arguments is invalid.
    #[error("the arguments of `{name}` ({}) have no usable schema: {reason}", describe_origin(.origin))]
    Schema {
        /// The tool.
        name: String,
        /// The origin of the tool.
        origin: Origin,
        /// The problem of the schema.
        reason: String,
    },
}

fn describe_origin(origin: &Origin) -> String {
    match origin {
        Origin::BuiltIn => "a built-in tool".to_owned(),
        Origin::Mcp(server) => format!("a tool of the MCP server `{server}`"),
    }
}
