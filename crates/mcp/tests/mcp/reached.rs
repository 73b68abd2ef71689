//! Servers behind streamable HTTP.

use std::time::Duration;

use serde_json::json;

use super::site::{KEY, Site};
use super::{House, call_the_usual_tools};
use crate::workshop::text;
use crate::workshop::until;

#[tokio::test]
async fn a_server_is_reached_with_its_headers() {
    let (house, site) = (House::new(), Site::open(0).await);
    let workshop = house.workshop(&[site.settings("test", KEY)]).await;
    call_the_usual_tools(&workshop).await;
    // Its headers are secrets from now on.
    assert_eq!(
        workshop.done("mcp_test_echo", json!({ "text": KEY })).await,
        "[secret]"
    );
}

#[tokio::test]
async fn wrong_credentials_and_addresses_say_what_to_do() {
    let (house, site) = (House::new(), Site::open(0).await);
    house
        .assemble(&[site.settings("locked", "wrong-key-entirely")])
        .await;
    let warning = house.warnings().pop().unwrap();
    assert!(
        warning.contains("401") && warning.contains("give valid credentials in `headers`"),
        "{warning}"
    );
    assert!(!warning.contains("wrong-key"), "{warning}");
    let settings = site.settings("gone", KEY);
    site.close().await;
    house.assemble(&[settings]).await;
    let warning = house.warnings().pop().unwrap();
    assert!(
        warning.contains("cannot be reached") && warning.contains("check its address"),
        "{warning}"
    );
}

#[tokio::test]
async fn a_new_list_is_announced_in_the_stream_of_an_answer() {
    let (house, site) = (House::new(), Site::open(0).await);
    let assembled = house.assemble(&[site.settings("test", KEY)]).await;
    let server = assembled.servers[0].clone();
    let mut changes = server.changes();
    let before = assembled.tools.len();
    let tools = assembled.tools_of(&server).await.unwrap();
    assert_eq!(tools.len(), before);
    let workshop = house.workshop(&[site.settings("test", KEY)]).await;
    workshop.done("mcp_test_more", json!({})).await;
    tokio::time::timeout(Duration::from_secs(20), changes.changed())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(assembled.tools_of(&server).await.unwrap().len(), before + 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_or_takes_too_long_is_cancelled() {
    let (house, site) = (House::new(), Site::open(0).await);
    let mut settings = site.settings("test", KEY);
    settings.timeout = Duration::from_millis(500);
    let workshop = house.workshop(&[settings]).await;
    let cancelled = || {
        site.methods()
            .iter()
            .filter(|method| *method == "notifications/cancelled")
            .count()
    };
    tokio::select! {
        output = workshop.call("mcp_test_slow", json!({})) => panic!("it ended: {}", text(&output)),
        () = until("it got the call", || site.methods().last().is_some_and(|last| last == "tools/call")) => {}
    }
    until("it is told to stop", || cancelled() == 1).await;
    let shown = workshop.fails("mcp_test_slow", json!({})).await;
    assert!(
        shown.contains("did not answer within 0.5 seconds"),
        "{shown}"
    );
    until("it is told to stop", || cancelled() == 2).await;
    assert_eq!(
        workshop
            .done("mcp_test_echo", json!({ "text": "still there" }))
            .await,
        "still there"
    );
}

#[tokio::test]
async fn a_server_that_was_away_is_connected_to_again() {
    let (house, site) = (House::new(), Site::open(0).await);
    let workshop = house.workshop(&[site.settings("test", KEY)]).await;
    let port = site.close().await;
    let shown = workshop
        .fails("mcp_test_echo", json!({ "text": "x" }))
        .await;
    assert!(
        shown.contains("could not be talked to") || shown.contains("cannot be reached"),
        "{shown}"
    );
    assert!(!shown.contains(KEY), "{shown}");
    let site = Site::open(port).await;
    // At once, since the server answered before: only who fails again and again has to wait.
    assert_eq!(
        workshop
            .done("mcp_test_echo", json!({ "text": "back" }))
            .await,
        "back"
    );
    assert!(site.methods().contains(&"initialize".to_owned()));
}
