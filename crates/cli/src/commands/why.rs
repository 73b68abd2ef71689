//! `cachalot why`.

use cachalot_cache::Ledger;

use crate::arguments::Why;
use crate::outcome::{Result, Trouble};
use crate::render;
use crate::wiring::{Surroundings, Warn};

pub(crate) fn why(arguments: &Why, surroundings: &Surroundings, warn: Warn) -> Result<()> {
    let home = surroundings.home(arguments.place.db.as_deref(), None)?;
    let ledger = Ledger::at(&home.ledger, "why", warn);
    let explained = ledger
        .explain(arguments.key.as_deref())
        .map_err(Trouble::failed)?;
    let Some(explanation) = explained else {
        return Err(Trouble::failed(match &arguments.key {
            Some(key) => format!(
                "the ledger {} knows no call of {key}",
                home.ledger.display()
            ),
            None => format!(
                "the ledger {} is empty: nothing was run yet",
                home.ledger.display()
            ),
        }));
    };
    if arguments.json {
        render::json(&explanation)
    } else {
        render::out(&render::explanation::render(&explanation))
    }
}
