//! Any answers of the boot loader: the dialogue ends in bounded time.
#![no_main]
use hapticd::device::wire::boot::{Action, Boot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|answers: Vec<Vec<u8>>| {
    let mut boot = Boot::new(Some((0..200u8).collect()));
    let (mut now, mut answers) = (0, answers.into_iter());
    for _ in 0..100_000 {
        match boot.next(now) {
            Action::Wait(until) => now = until,
            Action::Send => boot.heard(&answers.next().unwrap_or_default()),
            Action::Control(_) => {}
            Action::Running | Action::Failed(_) | Action::Silent => return,
        }
    }
    panic!("the dialogue does not end");
});
