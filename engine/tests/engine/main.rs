//! Communicators between threads of one process: every plan, futures, messages, and what happens when something goes wrong.

mod allocated;
mod any_rank;
mod choice;
mod claims;
mod closing;
mod common;
mod created;
mod deterministic;
mod dropped;
mod early_messages;
mod ends;
mod failures;
#[cfg(feature = "msccl")]
mod imported;
mod landings;
mod large;
mod lists;
mod messages;
mod mismatch;
mod narrowed;
mod own_messages;
mod own_plans;
mod plans;
mod refused_buffers;
mod split_deaths;
mod starting;
mod statistics;
mod takeoffs;
mod user_code;
mod works;
