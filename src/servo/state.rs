//! The servo's state machine, as one table.
