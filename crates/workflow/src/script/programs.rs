//! The compiled programs of a worker. A block in a loop or a branch is compiled once.

use std::collections::HashMap;
use std::rc::Rc;

use monty::MontyRun;
use monty_types::{AssertMessageAnnotations, CompileOptions, MontyException};

use super::block::{self, Program};
use super::{ScriptFailure, diagnose};

/// The maximum number of programs that a worker keeps.
const MAX_PROGRAMS: usize = 32;

/// A block, ready to run.
#[derive(Clone)]
pub(super) struct Compiled {
    pub(super) program: Rc<Program>,
    pub(super) run: MontyRun,
}

impl Compiled {
    /// Compiles a block that begins on line `first_line` of its file. `has_results` is true if its state has
    /// results of branches.
    ///
    /// # Errors
    /// The block is refused.
    pub(super) fn new(
        source: &str,
        first_line: u32,
        has_results: bool,
    ) -> Result<Self, ScriptFailure> {
        let program = block::prepare(source, has_results)
            .map_err(|refused| diagnose::block_error(&refused, first_line))?;
        match compile(&program) {
            Ok(run) => Ok(Self {
                program: Rc::new(program),
                run,
            }),
            Err(raised) => Err(diagnose::exception(&raised, &program, first_line, None)),
        }
    }
}

fn compile(program: &Program) -> Result<MontyRun, MontyException> {
    // A failed `assert` has the same message as in Python.
    let options = CompileOptions {
        assert_message_annotations: AssertMessageAnnotations::Off,
    };
    let inputs = vec!["state".to_owned(), "variables".to_owned()];
    MontyRun::new(program.text.clone(), "block", inputs, options)
}

/// Compiled programs by their source, apart for states with and without results of branches. A full set is
/// emptied.
#[derive(Default)]
pub(super) struct ProgramCache([HashMap<String, Compiled>; 2]);

impl ProgramCache {
    /// Returns the program of a block, compiled at its first use.
    ///
    /// # Errors
    /// The block is refused.
    pub(super) fn get(
        &mut self,
        source: &str,
        first_line: u32,
        has_results: bool,
    ) -> Result<Compiled, ScriptFailure> {
        let programs = &mut self.0[usize::from(has_results)];
        if let Some(compiled) = programs.get(source) {
            return Ok(compiled.clone());
        }
        let compiled = Compiled::new(source, first_line, has_results)?;
        if programs.len() >= MAX_PROGRAMS {
            programs.clear();
        }
        programs.insert(source.to_owned(), compiled.clone());
        Ok(compiled)
    }
}
