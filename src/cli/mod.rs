//! Subcommands of the `hapticd` program. Each lives in its own file and has one entry function.
