//! The one place where the exchange gets its atomics and its memory orderings.
//!
//! `tests/exchange_loom.rs` compiles `exchange.rs` again beside a shim of loom's types in place of this one: once
//! with these orderings, which must hold, and once per ordering weakened to `Relaxed`, which must fail.

pub use std::sync::Arc;
pub use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering;

/// Publisher puts a value into the mailbox. Pairs with [`TAKE`]: the servo sees a whole value.
pub const PUBLISH: Ordering = Ordering::Release;
/// Servo takes the value. Pairs with [`PUBLISH`].
pub const TAKE: Ordering = Ordering::Acquire;
/// Servo gives a replaced value back. Pairs with [`COLLECT`]: the servo's last use happens before the free.
pub const GIVE_BACK: Ordering = Ordering::Release;
/// Control side collects a replaced value. Pairs with [`GIVE_BACK`].
pub const COLLECT: Ordering = Ordering::Acquire;
