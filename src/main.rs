//! The `hapticd` program.

fn main() {}
