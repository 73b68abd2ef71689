//! Templates: Jinja by minijinja, with native types for a text that is one `{{ expression }}`.
//!
//! - A text that is one `{{ expression }}`, with optional blanks around it, has the value and type of the
//!   expression. If the value is undefined, it is null. Integers are exact up to 64 bits.
//! - Any other text with `{{ … }}` or `{% … %}` renders to text. Values are formatted as in Python:
//!   `None`, `True`, `1.0`. Nothing is escaped for HTML. An undefined value in it is an error.
//! - Lists and mappings are rendered at all levels; the keys of mappings are not.
//! - A missing key is undefined, so `default('x')` applies. Keys shadow methods: `state.items` is the key
//!   `items`, `state.items()` the method.
//! - In `with`, `${name}` in text is replaced by the text of a variable of the file. A name that is not a
//!   variable is left unchanged. The output of expressions is not searched for `${name}`.
//! - An error in a template is an error of the node, with the place of the expression.
//!
//! Names: `state`, `variables`, `secrets`, `settings`, `env`, and `result` where it is available. Values
//! derived from a secret become secrets of the run.

mod bounds;
mod compile;
mod condition;
mod convert;
mod engine;
mod error;
mod filters;
mod group;
mod literal;
mod operators;
mod order;
mod path;
mod predicates;
mod prepared;
mod printing;
mod render;
mod scan;
mod scope;
mod source_place;
mod state;
mod step;
mod undefined;

use std::collections::BTreeSet;
use std::sync::Arc;

use cachalot_core::SourceSpan;
use minijinja::{Environment, UndefinedBehavior};

pub use condition::Condition;
pub(crate) use convert::printed;
pub use engine::{FILTERS, TESTS};
pub use literal::is_literal;
pub(crate) use prepared::LateArgument;
pub use prepared::{Prepared, TemplateUse};
pub use scope::{NAMES, Scope, TemplateContext};
pub use state::State;

/// The templates of one agent file. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Templates {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    strict: Environment<'static>,
    lenient: Environment<'static>,
    /// The text of the file, for the places of problems.
    file: String,
    variables: BTreeSet<String>,
}

/// A failure to render a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateFailure {
    /// The message: what failed, and in which expression. It may contain values of the state.
    pub message: String,
    /// The place of the expression in the file, as precisely as it is known.
    pub place: SourceSpan,
}

impl Templates {
    /// Creates templates for the agent file with this text and these `variables`.
    pub fn new<'a>(file: &str, variables: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            shared: Arc::new(Shared {
                strict: engine::environment(UndefinedBehavior::SemiStrict),
                lenient: engine::environment(UndefinedBehavior::Lenient),
                file: file.to_owned(),
                variables: variables.into_iter().map(str::to_owned).collect(),
            }),
        }
    }

    /// Returns the place of a line of the file that contains `place`.
    pub(crate) fn line(&self, place: &SourceSpan, line: u32) -> Option<SourceSpan> {
        source_place::span_of_line(&self.shared.file, &place.file, line)
    }
}
