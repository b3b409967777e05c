//! Any report in, any currents out: within the limit.
#![no_main]
use hapticd::device::wire::hid_haptic::{Layout, MAX_CURRENT, currents, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (Vec<u8>, [i32; 3])| {
    let (bytes, wanted) = data;
    for layout in [Layout::Short, Layout::Padded] {
        assert_eq!(decode(layout, &bytes).is_some(), bytes.len() == layout.length());
        let packet = currents(layout, &wanted);
        for pair in packet.bytes()[1..7].chunks_exact(2) {
            assert!(i32::from(i16::from_le_bytes([pair[0], pair[1]])).abs() <= MAX_CURRENT);
        }
    }
});
