//! `cachalot schema`.

use crate::outcome::Result;
use crate::render;

pub(crate) fn schema() -> Result<()> {
    render::json(&cachalot_workflow::format::schema(
        &cachalot_workflow::actions::builtin(),
    ))
}
