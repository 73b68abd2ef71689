//! The tests of the hooks, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod acceptance;
mod additions;
mod aggregation;
mod answering;
mod bench;
mod claude;
mod configuration;
mod contracts;
mod dedup;
mod dialects;
mod docker_agent;
mod elision;
mod http;
mod iterations;
mod large_results;
mod limits;
mod made;
mod matching;
mod modalities;
mod model;
mod odd_handlers;
mod pipeline;
mod posting;
mod process;
mod redaction;
mod response_cache;
mod scripts;
mod seam;
mod sources;
mod store_tests;
mod strict;
mod unloading;
mod weaknesses;
