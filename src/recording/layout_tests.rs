use super::*;
use proptest::prelude::*;

/// A record whose every float has the given bits and whose integers differ from each other.
fn record_of(bits: u64, n: u64) -> TickRecord {
    let f = f64::from_bits(bits);
    let g = f64::from_bits(bits.rotate_left(13));
    TickRecord {
        tick: n,
        planned_ns: n.wrapping_mul(3),
        wake_ns: -(n as i64 >> 1),
        compute_ns: !n,
        skipped: n as u32,
        generation: n ^ 0x55,
        motion_seq: n ^ 0xaa,
        state: ServoState::Rendering,
        zero: ZeroReason::Clutch,
        fault: Fault::Overrun,
        flags: !(n as u32),
        buttons: 5,
        sample_seq: n ^ 7,
        lost: 9,
        position: [f, g, 1.0],
        orientation: [g, f, -0.0, 1.0],
        velocity: [f; 3],
        angular_velocity: [g; 3],
        force: [f, 2.0, g],
        torque: [3.0, f, g],
        applied_force: [f; 3],
        applied_torque: [g; 3],
        contact_force: [f, g, f],
        depth: f,
        distance: f64::INFINITY,
        stiffness: g,
        cap: f,
        ramp: g,
        energy: f,
        bound: g,
        work: n as u32 ^ 1,
        queried: n as u16,
        touched: !(n as u16),
        deepest_object: n as u32 ^ 3,
    }
}

fn bytes(record: &TickRecord) -> Vec<u8> {
    let mut out = Vec::new();
    encode(record, &mut out);
    out
}

proptest! {
    #[test]
    fn every_bit_comes_back(bits: u64, n: u64) {
        let before = bytes(&record_of(bits, n));
        let record = decode(&before).unwrap();
        // Records with NaN are not equal to themselves: compare what they encode to, and one float by its bits.
        prop_assert_eq!(record.depth.to_bits(), bits);
        prop_assert_eq!(record.compute_ns, !n);
        prop_assert_eq!(bytes(&record), before);
    }

    #[test]
    fn any_bytes_are_refused_or_read(noise in proptest::collection::vec(any::<u8>(), 0..600)) {
        if let Ok(record) = decode(&noise) {
            prop_assert_eq!(bytes(&record).len(), noise.len());
        }
    }
}

#[test]
fn nan_payloads_survive() {
    let payload = 0x7ff8_dead_beef_0001;
    let back = decode(&bytes(&record_of(payload, 1))).unwrap();
    assert_eq!(back.force[0].to_bits(), payload);
}

#[test]
fn offsets_follow_the_cdr_alignment_rule() {
    // Head 4; tick at 4, planned 12, wake 20, compute 28, skipped 36, then generation aligned to 8 counted from the
    // head: 36 + 4 = 40 -> body offset 36 -> next multiple of 8 is 40 -> byte 44.
    let record = TickRecord { tick: 1, skipped: 2, generation: 3, ..TickRecord::default() };
    let b = bytes(&record);
    assert_eq!(&b[..4], &[0, 1, 0, 0]);
    assert_eq!(b[4], 1);
    assert_eq!(b[36], 2);
    assert_eq!(&b[40..44], &[0; 4]);
    assert_eq!(b[44], 3);
}

#[test]
fn a_wrong_length_head_or_code_is_named() {
    let good = bytes(&TickRecord::default());
    assert_eq!(decode(&[]), Err(DecodeError::Head));
    assert!(matches!(decode(&good[..good.len() - 1]), Err(DecodeError::Length { .. })));
    let mut long = good.clone();
    long.push(0);
    assert_eq!(decode(&long), Err(DecodeError::Length { got: good.len() + 1, want: good.len() }));
    let mut big_endian = good.clone();
    big_endian[1] = 0;
    assert_eq!(decode(&big_endian), Err(DecodeError::Head));
    // `state` follows generation (44) and motion_seq (52).
    let mut state = good;
    state[60] = 200;
    assert_eq!(decode(&state), Err(DecodeError::Code { field: "ServoState", code: 200 }));
}

#[test]
fn the_schema_lists_each_field_once_in_order() {
    let text = schema();
    let names: Vec<&str> = text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.contains('='))
        .chain(std::iter::empty())
        .map(|l| l.split_whitespace().nth(1).unwrap())
        .collect();
    // Lines with '=' are constants, and "deepest_object ... 0 = none" has one in its comment.
    let expected: Vec<&str> = FIELDS.iter().copied().filter(|f| *f != "deepest_object").collect();
    assert_eq!(names, expected);
    assert!(text.contains("uint8 STATE_RENDERING=5\n"));
    assert!(text.contains("uint32 FLAG_HELD_SAMPLE=1024\n"));
    assert!(text.contains("float64[4] orientation"));
}
