//! Why there is no registry of some tools.

use crate::tool::Origin;

/// Why tools do not make a registry. Trying again does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two tools have one name.
    #[error(
        "two tools are called `{name}`: {}, and {}; rename or leave out one of them",
        whose(.first),
        whose(.second)
    )]
    Twice {
        /// The name.
        name: String,
        /// Where the first comes from, in the order of definitions.
        first: Origin,
        /// Where the second comes from.
        second: Origin,
    },
    /// A name that some provider refuses.
    #[error(
        "`{name}` is no name for a tool ({}): providers take 1 to 64 ASCII letters, digits, `_` and `-`",
        whose(.origin)
    )]
    Name {
        /// The name.
        name: String,
        /// Where the tool comes from.
        origin: Origin,
    },
    /// A schema of arguments that is none.
    #[error("the arguments of `{name}` ({}) have no usable schema: {reason}", whose(.origin))]
    Schema {
        /// The tool.
        name: String,
        /// Where it comes from.
        origin: Origin,
        /// What is wrong with the schema.
        reason: String,
    },
    /// A tool among those of another origin.
    #[error("`{name}` is {}, not {}", whose(.found), whose(.expected))]
    Origin {
        /// The tool.
        name: String,
        /// Whose tools were announced.
        expected: Origin,
        /// Where it says that it comes from.
        found: Origin,
    },
}

fn whose(origin: &Origin) -> String {
    match origin {
        Origin::BuiltIn => "a built-in tool".to_owned(),
        Origin::Mcp(server) => format!("a tool of the MCP server `{server}`"),
    }
}
