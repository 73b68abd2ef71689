//! `add_directory_listing`: adds a listing of the working directory.

use std::collections::BTreeSet;
use std::path::Path;

use async_trait::async_trait;

use super::simple::SimpleBuiltin;
use crate::Event;
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::paragraph::{add, single_line};

/// Maximum number of entries in the listing.
const MAX_ENTRIES: usize = 100;

/// Adds a listing of the working directory once per session.
pub(super) struct AddDirectoryListing;

#[async_trait]
impl SimpleBuiltin for AddDirectoryListing {
    const NAME: &'static str = "add_directory_listing";
    const ABOUT: &'static str = "Adds a listing of the working directory to the context: at most 100 entries, sorted, without those whose names begin with a dot.";
    const EVENTS: &'static [Event] = &[Event::SessionStart];

    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        if input.cwd.as_os_str().is_empty() {
            return Ok(Output::default());
        }
        let directory = input.cwd.clone();
        let listing = tokio::task::spawn_blocking(move || listing(&directory)).await;
        Ok(match listing {
            Ok(Some(listing)) => add(listing, input),
            _ => Output::default(),
        })
    }
}

/// Returns `None` if the directory cannot be read or has no visible entries.
fn listing(directory: &Path) -> Option<String> {
    let mut first = BTreeSet::new();
    let mut count = 0_usize;
    for entry in std::fs::read_dir(directory).ok()?.flatten() {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        count += 1;
        first.insert((name, is_directory));
        if first.len() > MAX_ENTRIES {
            first.pop_last();
        }
    }
    if count == 0 {
        return None;
    }
    let mut lines = vec!["<directory_listing>".to_owned()];
    lines.extend(first.iter().map(|(name, is_directory)| {
        let slash = if *is_directory { "/" } else { "" };
        format!("{}{slash}", single_line(&name.to_string_lossy()))
    }));
    if count > first.len() {
        lines.push(format!("… and {} more", count - first.len()));
    }
    lines.push("</directory_listing>".to_owned());
    Some(lines.join("\n"))
}
