//! Templates: Jinja by minijinja, with native types for a text that is one `{{ expression }}`.
//!
//! - A text that is one `{{ expression }}` and blanks around it is the value of the expression, with
//!   its type; if that is undefined, it is null. Whole numbers are exact up to 64 bits.
//! - Any other text with `{{ … }}` or `{% … %}` renders to text, as Python would print the values:
//!   `None`, `True`, `1.0`. Nothing is escaped for HTML. Something undefined in it is an error.
//! - Lists and mappings are rendered at all levels; the keys of mappings are not.
//! - A missing key is undefined, so `default('x')` applies. Keys shadow methods: `state.items` is the
//!   key `items`, `state.items()` the method.
//! - In `with`, `${name}` in text stands for the text of a variable of the file; a name that is no
//!   variable is left as it is. What an expression yields is not searched for it.
//! - An error in a template is an error of the node, with the place of the expression.
//!
//! Names: `state`, `variables`, `secrets`, `settings`, `env`, and `result` where there is one. What is
//! derived from a secret becomes a secret of the run.

mod condition;
mod convert;
mod engine;
mod literal;
mod path;
mod place;
mod prepared;
mod render;
mod scan;
mod scope;
mod state;

use std::collections::BTreeSet;
use std::sync::Arc;

use cachalot_core::Place;
use minijinja::{Environment, UndefinedBehavior};

pub use condition::Condition;
pub use engine::{FILTERS, TESTS};
pub use literal::is_literal;
pub use prepared::{Prepared, Use};
pub use scope::{NAMES, Scope, Surroundings};
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
    /// The text of the file, to point into.
    file: String,
    variables: BTreeSet<String>,
}

/// A template that could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateFailure {
    /// What went wrong, and with which expression. It may hold values of the state.
    pub message: String,
    /// The expression in the file, as nearly as can be told.
    pub place: Place,
}

impl Templates {
    /// For the agent file with this text, which has these `variables`.
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

    /// The place of a line of the file in which `place` is.
    pub(crate) fn line(&self, place: &Place, line: u32) -> Option<Place> {
        place::of_line(&self.shared.file, &place.file, line)
    }
}
