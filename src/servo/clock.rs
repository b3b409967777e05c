//! The clock trait: real (absolute monotonic sleep) and virtual.
