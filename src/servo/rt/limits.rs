//! The runaway guard and the idle states of the CPU.

use super::RtLine;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::{File, OpenOptions};
use std::io::Write;

/// Limits the time that real-time threads of this process may compute without sleeping.
pub(super) fn runaway(us: u64) -> RtLine {
    const WHAT: &str = "runaway guard";
    let result = getrlimit(Resource::RLIMIT_RTTIME).and_then(|(_, hard)| {
        let soft = us.min(hard);
        setrlimit(Resource::RLIMIT_RTTIME, soft, hard).map(|()| soft)
    });
    match result {
        Ok(soft) => RtLine::ok(WHAT, format!("RLIMIT_RTTIME {soft} us")),
        Err(e) => {
            RtLine::short(WHAT, format!("RLIMIT_RTTIME: {e}"), "add 'LimitRTTIME=500000' to the service")
        }
    }
}

/// Keeps the CPUs out of idle states that take longer to leave; ends when it is dropped.
pub(super) struct DmaLatency {
    _file: File,
}

/// Asks the kernel for wake-ups within `us` µs: PM QoS, Documentation/power/pm_qos_interface.rst.
pub(super) fn dma_latency(us: u32) -> (RtLine, Option<DmaLatency>) {
    const WHAT: &str = "idle states";
    const PATH: &str = "/dev/cpu_dma_latency";
    let opened = OpenOptions::new().write(true).open(PATH).and_then(|mut file| {
        file.write_all(&us.to_ne_bytes())?;
        Ok(file)
    });
    match opened {
        Ok(file) => (RtLine::ok(WHAT, format!("{PATH} held at {us} us")), Some(DmaLatency { _file: file })),
        Err(e) => (
            RtLine::short(
                WHAT,
                format!("{PATH}: {e}"),
                "install the udev rule that gives the group hapticd access to cpu_dma_latency, or run \
                 'cpupower idle-set -D 10'",
            ),
            None,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_request_is_held_or_explained() {
        let (line, held) = dma_latency(10);
        assert_eq!(line.ok, held.is_some(), "{line:?}");
        assert_eq!(line.ok, line.cure.is_empty());
    }
}
