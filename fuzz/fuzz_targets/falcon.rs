//! Any stream of bytes into the Falcon's framer, any codes out: within the limit, and found again after the damage.
#![no_main]
use hapticd::device::wire::falcon::{Command, Framer, MAX_CODE, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (Vec<u8>, [i32; 3], u8)| {
    let (bytes, motors, leds) = data;
    let mut framer = Framer::default();
    for byte in &bytes {
        let _ = framer.push(*byte);
    }
    let packet = encode(&Command { motors, homing: true, leds });
    let sent = decode(&packet).expect("a packet");
    assert!(sent.encoders.iter().all(|c| i32::from(*c).abs() <= MAX_CODE));
    let found = packet.iter().chain(&packet).filter_map(|b| framer.push(*b)).last();
    assert_eq!(found.map(|r| r.encoders), Some(sent.encoders));
});
