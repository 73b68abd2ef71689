//! The providers' official clients against the simulator, directly and through the gateway: only if
//! `CACHALOT_TEST_SDKS=1`, because it installs packages from the registries.

use std::path::Path;
use std::process::Stdio;

use crate::support::Setup;

#[tokio::test]
async fn official_sdks_accept_the_simulator_and_the_gateway() {
    if std::env::var("CACHALOT_TEST_SDKS").as_deref() != Ok("1") {
        println!(
            "skipped: set CACHALOT_TEST_SDKS=1 to run the official clients (it installs packages)"
        );
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sdks");
    let script = std::fs::read_to_string(folder.join("script.yaml")).unwrap();
    // The prompt caches of the first simulator are warm afterwards.
    let (direct, setup) = (
        Setup::scripted(&script).await,
        Setup::scripted(&script).await,
    );
    let output = tokio::process::Command::new("bash")
        .arg(folder.join("run.sh"))
        .args([direct.simulator.url(), setup.gateway.url()])
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{out}{err}");
    assert!(output.status.success(), "{out}{err}");
    let reports = setup.reports.lock();
    println!("{} requests through the gateway", reports.len());
    if out.contains("checks passed") {
        assert!(reports.iter().any(|report| report.answered == "miss"));
    }
}
