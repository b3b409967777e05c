//! Damaged packets into every decoder. Truth: no panic, nothing out of range comes out, and the stream is found again.

use super::boot::{Action, Boot};
use super::falcon::{self, Framer};
use super::{ftdi, hid_haptic, spacemouse};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

/// Into each decoder; seconds in all.
const PACKETS: u64 = 10_000_000;

fn below(rng: &mut Pcg64Mcg, n: usize) -> usize {
    (rng.next_u64() >> 33) as usize % n.max(1)
}

/// Flips, drops, doubles, inserts and cuts.
fn damage(rng: &mut Pcg64Mcg, bytes: &mut Vec<u8>) {
    for _ in 0..=below(rng, 3) {
        let at = below(rng, bytes.len());
        match below(rng, 6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << below(rng, 8),
            1 if at < bytes.len() => bytes[at] = rng.next_u64() as u8,
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.insert(at, rng.next_u64() as u8),
            4 => bytes.truncate(at),
            _ => bytes.extend_from_within(at.min(bytes.len())..),
        }
    }
}

fn falcon_stream(packets: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(11);
    let (mut framer, mut found) = (Framer::default(), 0u64);
    let mut bytes = Vec::new();
    for k in 0..packets {
        let codes = [0; 3].map(|_| rng.next_u64() as i32 >> below(&mut rng, 31));
        let command = falcon::Command { motors: codes, homing: k % 2 == 0, leds: rng.next_u64() as u8 };
        let packet = falcon::encode(&command);
        // Whatever is asked for, what goes out is a packet within the limit.
        let sent = falcon::decode(&packet).expect("a packet");
        assert!(sent.encoders.iter().all(|c| i32::from(*c).abs() <= falcon::MAX_CODE));
        assert!((0..3).all(|i| i64::from(sent.encoders[i]) * i64::from(codes[i]) >= 0), "the sign stays");
        bytes.clear();
        bytes.extend_from_slice(&packet);
        damage(&mut rng, &mut bytes);
        found += bytes.iter().filter(|b| framer.push(**b).is_some()).count() as u64;
        if k % 64 == 0 {
            // Two whole packets at most bring it back.
            let clean = b"<BAAACAAADAAAAA>";
            let seen: Vec<_> = clean.iter().chain(clean).filter_map(|b| framer.push(*b)).collect();
            assert_eq!(seen.last().map(|r| r.encoders), Some([1, 2, 3]));
        }
    }
    assert!(found > packets / 20, "{found} of {packets}: the damage leaves nothing to decode");
}

fn hid_reports(packets: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(12);
    let mut bytes = Vec::new();
    let mut read = 0;
    for k in 0..packets {
        let layout = if k % 2 == 0 { hid_haptic::Layout::Short } else { hid_haptic::Layout::Padded };
        bytes.clear();
        bytes.extend((0..layout.length()).map(|_| rng.next_u64() as u8));
        if k % 3 != 0 {
            damage(&mut rng, &mut bytes);
        }
        let report = hid_haptic::decode(layout, &bytes);
        assert_eq!(report.is_some(), bytes.len() == layout.length());
        read += u64::from(report.is_some());
        let wanted = [0; 3].map(|_| rng.next_u64() as i32 >> below(&mut rng, 31));
        let packet = hid_haptic::currents(layout, &wanted);
        let body = &packet.bytes()[1..];
        assert_eq!(body.len(), layout.length());
        for i in 0..3 {
            let current = i16::from_le_bytes([body[2 * i], body[2 * i + 1]]);
            assert!(i32::from(current).abs() <= hid_haptic::MAX_CURRENT);
            assert!(i64::from(current) * i64::from(wanted[i]) >= 0, "the sign stays");
        }
        assert!(body[6..].iter().all(|b| *b == 0), "a current command presets nothing");
    }
    assert!(read > packets / 3);
}

fn mouse_reports(packets: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(13);
    let mut deflection = spacemouse::Deflection::default();
    let mut bytes = Vec::new();
    for _ in 0..packets {
        bytes.clear();
        bytes.push(below(&mut rng, 5) as u8);
        bytes.extend((0..below(&mut rng, 14)).map(|_| rng.next_u64() as u8));
        damage(&mut rng, &mut bytes);
        if let Some(report) = spacemouse::decode(&bytes) {
            deflection.apply(&report);
        }
        assert!(deflection.axes.iter().all(|a| a.abs() <= spacemouse::FULL));
    }
}

/// Transfers of a Falcon that starts, damaged as they come: what is sent are greetings, the image and packets without force, and each dialogue ends. Returns how many
/// ended with a running firmware, in vain, and unheard.
fn dialogues(transfers: u64) -> [u64; 3] {
    const LOADED: &[u8] = b"<AAAAAAAAAAAAAA>";
    let mut rng = Pcg64Mcg::seed_from_u64(14);
    let image: Arc<[u8]> = (0..200u8).map(|i| i.wrapping_mul(7)).collect();
    let (mut heard, mut ends) = (0, [0; 3]);
    let mut transfer = Vec::with_capacity(256);
    while heard < transfers {
        let mut boot = Boot::new(Some(image.clone()).filter(|_| below(&mut rng, 8) > 0));
        // Of what comes, this share in 16 is damaged, in all of this dialogue; and its chip may say nothing at all.
        let (bad, mute) = (below(&mut rng, 9), below(&mut rng, 32) == 0);
        let (mut now, mut loaded) = (0u64, 0);
        let end = loop {
            let (said, until): (&[u8], u64) = match boot.next(now) {
                Action::Control(_) => continue,
                Action::Wait(until) => (&[], until),
                Action::Send => match boot.outgoing() {
                    [0x0a, 0x43, 0x0d] => {
                        loaded = 0;
                        (&[0x0a, 0x44, 0x2c, 0x0d], now)
                    }
                    [0x41] => (&[0x41], now),
                    packet if packet.starts_with(b"<") && packet.len() == falcon::PACKET => {
                        assert_eq!(&packet[..13], b"<AAAAAAAAAAAA", "a force while it starts");
                        (if loaded >= image.len() { LOADED } else { &[] }, now)
                    }
                    chunk => {
                        assert_eq!(Some(chunk), image.get(loaded..loaded + chunk.len()), "not the image");
                        loaded += chunk.len();
                        (&image[loaded - chunk.len()..loaded], now)
                    }
                },
                end => break end,
            };
            assert!(until >= now && until < 120_000_000_000, "it does not end: {until}");
            now = until;
            transfer.clear();
            transfer.extend([0x01, 0x60]);
            transfer.extend_from_slice(said);
            if below(&mut rng, 16) < bad {
                damage(&mut rng, &mut transfer);
            }
            let data = ftdi::data(&transfer);
            assert_eq!(data, if transfer.len() > 2 { &transfer[2..] } else { &[] });
            heard += 1;
            if !mute {
                boot.heard(data);
            }
        };
        ends[match end {
            Action::Running => 0,
            Action::Failed(_) => 1,
            _ => 2,
        }] += 1;
    }
    ends
}

#[test]
fn a_damaged_start_does_no_harm() {
    let ends = dialogues(PACKETS);
    println!("{PACKETS} transfers: {} starts, {} in vain, {} unheard", ends[0], ends[1], ends[2]);
    assert!(ends.iter().all(|n| *n > 300), "all ends are to be reached: {ends:?}");
}

#[test]
fn damaged_packets_do_no_harm() {
    falcon_stream(PACKETS);
    hid_reports(PACKETS);
    mouse_reports(PACKETS);
}
