//! The tests of the hooks, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod acceptance;
mod additions;
mod aggregation;
mod claude;
mod configuration;
mod contracts;
mod cut_output;
mod dedup;
mod dialects;
mod docker_agent;
mod elision;
mod handler_fixture;
mod hook_builder;
mod http;
mod http_post;
mod iterations;
mod large_results;
mod limits;
mod matching;
mod mcp_tool;
mod modalities;
mod model;
mod odd_handlers;
mod pipeline;
mod process;
mod redaction;
mod response_cache;
mod response_cache_fixture;
mod scripts;
mod seam;
mod sources;
mod store_tests;
mod strict;
mod unload;
mod weaknesses;

use cachalot_test_support::program_file;
