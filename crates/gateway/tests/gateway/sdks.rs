//! The providers' official clients against the simulator: only if `CACHALOT_TEST_SDKS=1`, because it
//! installs packages from the registries.

use std::path::Path;
use std::process::Stdio;

use cachalot_simulator::Script;

use crate::start;

#[tokio::test]
async fn official_sdks_accept_the_simulator() {
    if std::env::var("CACHALOT_TEST_SDKS").as_deref() != Ok("1") {
        eprintln!(
            "skipped: set CACHALOT_TEST_SDKS=1 to run the official clients (it installs packages)"
        );
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sdks");
    let script = std::fs::read_to_string(folder.join("script.yaml")).unwrap();
    let running = start(Script::parse("script.yaml", &script).unwrap()).await;
    let output = tokio::process::Command::new("bash")
        .arg(folder.join("run.sh"))
        .arg(running.url())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    eprintln!("{out}{err}");
    assert!(output.status.success(), "{out}{err}");
}
