//! The `hapticd` program: parses its arguments and calls [`hapticd::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    hapticd::cli::main()
}
