//! A child process in which a thread dies on any system call but its sleep.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// This test binary again, with one test alone, which finds its mode in the environment.
pub fn in_child(test: &str, variable: &str, mode: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("knows itself"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(variable, mode);
    command
}

/// How it ends; what it says where it fails by itself.
pub fn ends(child: &mut Command) -> ExitStatus {
    let output = child.output().expect("runs");
    if !output.status.success() && output.status.signal().is_none() {
        panic!("{child:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    output.status
}

pub fn deny_all_but_the_sleep() -> BpfProgram {
    let filter = SeccompFilter::new(
        [(libc::SYS_clock_nanosleep, vec![])].into_iter().collect(),
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into().expect("a known architecture"),
    );
    filter.expect("a sound filter").try_into().expect("compiles")
}
