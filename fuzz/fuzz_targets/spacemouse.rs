//! Any reports: the deflection stays within its range.
#![no_main]
use hapticd::device::wire::spacemouse::{Deflection, FULL, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|reports: Vec<Vec<u8>>| {
    let mut deflection = Deflection::default();
    for report in &reports {
        if let Some(report) = decode(report) {
            deflection.apply(&report);
        }
        assert!(deflection.axes.iter().all(|a| a.abs() <= FULL));
    }
});
