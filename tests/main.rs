//! Integration tests, all on the shipped binary. Those that need more than a laptop gives are ignored with the need as
//! the reason, and run by `.ci/run`: `cargo test -- --ignored --test-threads=1`.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    clippy::print_stdout,
    unreachable_pub,
    reason = "tests start programs and read files as a user would, and fail by panicking"
)]

mod baseline;
mod begin;
mod captures;
mod cli;
mod completions;
mod contradictions;
mod conversation;
mod detection;
mod distrusted;
mod documents;
mod drill_down;
mod elsewhere;
mod examples;
mod exports;
mod false_words;
mod fleet;
mod fleet_truth;
mod fuzzed;
mod history;
mod hostile;
mod incidents;
mod krew;
mod lab;
mod layering;
mod method_r;
mod mutants;
mod one_group;
mod page;
mod past;
mod perf_data;
mod probe;
mod readers;
mod readers_confined;
mod readers_memory;
mod readme;
mod recorded;
mod recorder;
mod relocation;
mod replay;
mod reported_ids;
mod rows;
mod scale;
mod schema;
mod security;
mod skips;
mod sosreport;
mod streaming;
#[expect(clippy::allow_attributes, reason = "which helpers are used depends on which tests there are")]
#[allow(dead_code, reason = "the same")]
mod support;
mod tiers;
mod tools;
mod typed;
mod usage;
mod use_rows;
mod words;

#[path = "privileged/mod.rs"]
mod privileged;
