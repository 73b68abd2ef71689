//! The surroundings of a hook that is parsed, and the problems that were found.

use cachalot_core::Problem;

use super::plugin::Plugin;
use crate::builtin::Builtins;

/// The surroundings of the hooks of one file, and the problems that were found in it.
pub(crate) struct ParserContext<'a> {
    pub(super) builtins: &'a Builtins,
    /// Set if the file belongs to another runtime: it may contain features that we do not have.
    pub(super) foreign: bool,
    /// The plugin that the file belongs to.
    pub(crate) plugin: Option<Plugin>,
    /// The errors.
    pub(crate) problems: Vec<Problem>,
    /// The warnings: features that are ignored.
    pub(crate) warnings: Vec<Problem>,
}

impl ParserContext<'_> {
    /// Reports a feature of another runtime that we do not have: a warning in that runtime's files, an
    /// error in ours.
    pub(super) fn unsupported(&mut self, problem: Problem) {
        match self.foreign {
            true => self.warnings.push(problem),
            false => self.problems.push(problem),
        }
    }
}
