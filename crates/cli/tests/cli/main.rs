//! The `cachalot` command as a person at a terminal meets it: real processes, a home of its own for
//! every test, real files and loopback servers.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod approvals;
mod attachments;
mod backends;
mod cache_commands;
mod cassette;
mod chat;
mod chat_commands;
mod chat_faults;
#[cfg(unix)]
mod chat_keys;
#[cfg(unix)]
mod chat_screens;
mod default_agent;
mod digest_key;
mod docker_agent;
mod doctor;
mod durations;
mod encryption;
#[cfg(unix)]
mod exec;
#[cfg(unix)]
mod exports;
mod faults;
mod first_steps;
mod fleet_ledger;
mod formats;
#[cfg(target_os = "linux")]
mod full_disk;
mod guarded;
mod hammer;
mod hash;
mod home;
mod hook_chats;
mod hooks;
mod html_reports;
mod inline_code;
mod input;
mod ledger;
mod live;
#[cfg(unix)]
mod live_output;
#[cfg(unix)]
mod live_region;
mod local_copies;
mod loops;
#[cfg(unix)]
mod mcp_cache;
mod mcp_headers;
mod mcp_install;
mod mcp_logins;
#[cfg(unix)]
mod mcp_proxy;
mod mcp_why;
mod memory;
mod mistakes;
mod models;
mod nanobot;
mod operations;
mod prefix;
mod prefix_guard;
mod prefix_live;
mod prefix_plan;
mod prefix_what_if;
mod processes;
mod provider;
mod rag;
#[cfg(unix)]
mod rate_limits;
#[cfg(unix)]
mod reference_servers;
mod reference_states;
mod required_store;
mod response_cache;
mod review;
mod run;
mod sandbox;
mod sandbox_chats;
mod secrets;
mod serve;
mod server_faults;
mod sessions;
mod sessions_tree;
#[cfg(unix)]
mod shared_cases;
mod simulate;
mod spend;
mod spend_session;
mod store_links;
mod story;
mod subgraphs;
mod support;
mod talk;
mod teams;
mod terminal;
#[cfg(unix)]
mod terminal_mode;
mod tool_server;
mod toolsets;
mod upgrade;
mod validate;
mod why;

use cachalot_test_support::{bodies, fakes, program_file};
