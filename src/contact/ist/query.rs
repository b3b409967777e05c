//! What a tick asks of a sphere tree: everything below runs on the servo.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod bound;
mod boxes;
mod cells;
mod distance;
mod frame;
mod groups;
mod kernel;
mod nodes;
mod respond;
mod sums;
mod threshold;
mod triangles;
mod volume;

use super::{model, tree};
pub(crate) use distance::witnesses;
pub(crate) use volume::query;

#[cfg(test)]
mod tests;
