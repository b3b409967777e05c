//! What goes over the wire, as pure functions on bytes: no I/O, no clock, no allocation, no panic on any input.
//!
//! Facts of the formats, with their sources, stand at each module. Numbers on the wire are what the device counts (encoder
//! counts, motor codes); [`crate::device::profile`] turns them into angles and torques.

pub mod boot;
pub mod falcon;
pub mod ftdi;
pub mod hid_haptic;
pub mod spacemouse;

/// Scales three motor codes by one common factor so that none exceeds `max`: the direction of the force stays, and no code
/// can wrap on its way into 16 bits. Rounds towards zero. Real-time safe.
pub fn bounded(codes: &[i32; 3], max: i32) -> [i16; 3] {
    let max = i64::from(max.clamp(0, i32::from(i16::MAX)));
    let largest = codes.iter().map(|c| i64::from(*c).abs()).max().unwrap_or(0);
    codes.map(|code| {
        let code = i64::from(code);
        let scaled = if largest > max { code * max / largest } else { code };
        i16::try_from(scaled).unwrap_or(0)
    })
}

/// Extends counters of 16 bits that wrap to 32 bits, one by one, by the shortest way from the last value. Real-time safe.
#[derive(Clone, Copy, Debug)]
pub struct Unwrap<const N: usize> {
    last: Option<[i16; N]>,
    total: [i32; N],
}

impl<const N: usize> Unwrap<N> {
    /// The extended counts; the first call returns them as they are.
    pub fn extend(&mut self, counts: &[i16; N]) -> [i32; N] {
        match &self.last {
            None => self.total = counts.map(i32::from),
            Some(last) => {
                for ((total, now), before) in self.total.iter_mut().zip(counts).zip(last) {
                    *total = total.wrapping_add(i32::from(now.wrapping_sub(*before)));
                }
            }
        }
        self.last = Some(*counts);
        self.total
    }

    /// Forgets the past: the device's counters have been set anew.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

impl<const N: usize> Default for Unwrap<N> {
    fn default() -> Self {
        Self { last: None, total: [0; N] }
    }
}

#[cfg(test)]
mod fuzz_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_factor_for_all_motors_and_no_wrap() {
        assert_eq!(bounded(&[10, -20, 4096], 4096), [10, -20, 4096]);
        assert_eq!(bounded(&[8192, -4096, 0], 4096), [4096, -2048, 0]);
        assert_eq!(bounded(&[i32::MIN, i32::MAX, 0], 4096), [-4096, 4095, 0]);
        assert_eq!(bounded(&[40_000, -40_000, 1], 1 << 30), [32767, -32767, 0]);
        assert_eq!(bounded(&[5, 5, 5], -1), [0, 0, 0]);
    }

    #[test]
    fn counters_of_16_bits_go_on_past_their_end() {
        let mut unwrap = Unwrap::<1>::default();
        let mut truth = 32_000i32;
        assert_eq!(unwrap.extend(&[truth as i16]), [truth]);
        for step in [700, 700, 30_000, -31_000, -1000, -32_000, 12] {
            truth += step;
            assert_eq!(unwrap.extend(&[truth as i16]), [truth], "after {step}");
        }
        unwrap.reset();
        assert_eq!(unwrap.extend(&[-3]), [-3]);
    }
}
