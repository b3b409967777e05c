//! Input reports of 3Dconnexion's six-axis mice.
//!
//! Sources: docs.rs `spacemouse` 0.1.0 src/report.rs (both layouts), SpaceNavigator report descriptor (logical range). Old
//! layout: report 1 is translation, report 2 rotation, each three int16 (7 bytes with the number). New layout: report 1
//! holds all six (13 bytes). Report 3 is buttons. Values are deflections, not changes. The device's axes are x right, y
//! towards the user, z down.

/// Largest deflection that is believed; older devices say +-500, newer ones +-350.
pub const FULL: i16 = 500;
/// Deflection that counts as full speed.
pub const NOMINAL: f64 = 350.0;

/// What one report tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Translation alone (old layout).
    Translation([i16; 3]),
    /// Rotation alone (old layout).
    Rotation([i16; 3]),
    /// Translation and rotation (new layout).
    Both([i16; 6]),
    /// Buttons, bit 0 = first.
    Buttons(u32),
}

/// Reads a report with its number in front; `None` for one that is of another kind (battery, ...) or too short. Values are
/// bounded by [`FULL`]. Real-time safe.
pub fn decode(report: &[u8]) -> Option<Report> {
    let (number, body) = report.split_first()?;
    match number {
        1 if body.len() >= 12 => words::<6>(body).map(Report::Both),
        1 => words::<3>(body).map(Report::Translation),
        2 => words::<3>(body).map(Report::Rotation),
        3 if !body.is_empty() => {
            let bits = body.iter().take(4).rev().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
            Some(Report::Buttons(bits))
        }
        _ => None,
    }
}

fn words<const N: usize>(body: &[u8]) -> Option<[i16; N]> {
    let mut words = [0; N];
    let mut pairs = body.chunks_exact(2);
    for word in &mut words {
        let [low, high] = pairs.next()? else { return None };
        *word = i16::from_le_bytes([*low, *high]).clamp(-FULL, FULL);
    }
    Some(words)
}

/// The deflection that reports add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deflection {
    /// Translation and rotation in the device's own axes.
    pub axes: [i16; 6],
    /// Buttons.
    pub buttons: u32,
}

impl Deflection {
    /// Takes a report in. Real-time safe.
    pub fn apply(&mut self, report: &Report) {
        let [tx, ty, tz, rx, ry, rz] = self.axes;
        match *report {
            Report::Translation([x, y, z]) => self.axes = [x, y, z, rx, ry, rz],
            Report::Rotation([x, y, z]) => self.axes = [tx, ty, tz, x, y, z],
            Report::Both(axes) => self.axes = axes,
            Report::Buttons(bits) => self.buttons = bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_read_as_published() {
        assert_eq!(
            decode(&[1, 0x5e, 0x01, 0xa2, 0xfe, 0x01, 0x00]),
            Some(Report::Translation([350, -350, 1]))
        );
        assert_eq!(decode(&[2, 0x02, 0x00, 0x03, 0x00, 0xfc, 0xff]), Some(Report::Rotation([2, 3, -4])));
        assert_eq!(
            decode(&[1, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 0xfa, 0xff]),
            Some(Report::Both([1, 2, 3, 4, 5, -6]))
        );
        assert_eq!(decode(&[3, 0x02]), Some(Report::Buttons(2)));
        assert_eq!(decode(&[3, 0x01, 0x00, 0x80, 0x00, 0x07]), Some(Report::Buttons(0x0080_0001)));
    }

    #[test]
    fn rubbish_is_refused_or_bounded() {
        for bad in [&[][..], &[1], &[1, 0, 0, 0, 0, 0], &[2, 1], &[3], &[0x17, 50], &[9, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
        assert_eq!(decode(&[2, 0xff, 0x7f, 0, 0x80, 0, 0]), Some(Report::Rotation([500, -500, 0])));
    }

    #[test]
    fn reports_add_up() {
        let mut d = Deflection::default();
        for report in [
            Report::Translation([1, 2, 3]),
            Report::Rotation([4, 5, 6]),
            Report::Buttons(1),
            Report::Translation([0, 0, 0]),
        ] {
            d.apply(&report);
        }
        assert_eq!(d, Deflection { axes: [0, 0, 0, 4, 5, 6], buttons: 1 });
        d.apply(&Report::Both([9; 6]));
        assert_eq!(d.axes, [9; 6]);
    }
}
