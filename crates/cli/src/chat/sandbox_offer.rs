//! The offer to run commands in a sandbox without questions, once per workspace.

use std::path::Path;

use super::messages::sandbox_question;
use super::prompt::{AskedBy, Prompt};
use crate::arguments::SandboxMode;
use crate::render::visible::on_one_line;
use crate::sandbox::{self, NetworkAccess, SandboxSettings};
use crate::terminal::Reply;

/// Asks the user if commands in a workspace run in a sandbox without questions from now on, and saves the answer in
/// `file`. Without an answer, the settings stay as they are, and the next chat asks again.
pub(super) async fn offer(
    settings: &mut SandboxSettings,
    prompt: &Prompt,
    file: &Path,
    workspace: &Path,
) {
    let network = match settings.network {
        NetworkAccess::None => "have no network",
        NetworkAccess::Hosts(_) | NetworkAccess::All => {
            "have the network that your settings permit"
        }
    };
    prompt.tell(&format!(
        "Commands can run in a sandbox: they write in {} only, but not to protected files,\nread no credentials, and {network}.",
        on_one_line(&workspace.display().to_string())
    ));
    let Some(mode) = ask(prompt).await else {
        return;
    };
    settings.saved = Some(mode);
    let told = match sandbox::save(file, workspace, mode) {
        Ok(()) => format!("  saved in {}", file.display()),
        Err(error) => format!("  not saved in {}: {error}", file.display()),
    };
    prompt.tell(&told);
}

async fn ask(prompt: &Prompt) -> Option<SandboxMode> {
    let line = match prompt {
        Prompt::Live(console) => match console.ask(sandbox_question()).await {
            Reply::Choice(key) => key.to_string(),
            Reply::Text(..) | Reply::Interrupted => return None,
        },
        Prompt::Plain(_) => {
            let label =
                "run commands there without a question? [y]es, always in this workspace; [n]o: ";
            prompt.ask(label, AskedBy::Agent).await?
        }
    };
    match line.trim() {
        "y" | "Y" | "yes" | "Yes" => Some(SandboxMode::Auto),
        "n" | "N" | "no" | "No" => Some(SandboxMode::Ask),
        _ => None,
    }
}
