//! A SpaceMouse: tells deflections when they change, in either report layout.

use super::bus::Gadget;
use crate::device::io::link::LONGEST;
use std::collections::VecDeque;

/// The device.
#[derive(Debug, Default)]
pub struct SpaceMouse {
    /// Translation and rotation in one report.
    pub new_layout: bool,
    reports: VecDeque<Vec<u8>>,
}

impl SpaceMouse {
    /// A user's hand deflects it so.
    pub fn deflect(&mut self, axes: [i16; 6]) {
        let bytes = |words: &[i16]| -> Vec<u8> {
            words.iter().flat_map(|w| [(*w & 0xff) as u8, (*w >> 8 & 0xff) as u8]).collect()
        };
        if self.new_layout {
            self.reports.push_back([vec![1], bytes(&axes)].concat());
        } else {
            self.reports.push_back([vec![1], bytes(&axes[..3])].concat());
            self.reports.push_back([vec![2], bytes(&axes[3..])].concat());
        }
    }

    /// The user presses buttons.
    pub fn press(&mut self, buttons: u8) {
        self.reports.push_back(vec![3, buttons, 0]);
    }
}

impl Gadget for SpaceMouse {
    fn frame(&mut self, _now_ns: u64) {}

    fn output(&mut self, _now_ns: u64, _bytes: &[u8]) {}

    fn input(&mut self, _now_ns: u64, buffer: &mut [u8; LONGEST]) -> Option<usize> {
        let report = self.reports.pop_front()?;
        buffer[..report.len()].copy_from_slice(&report);
        Some(report.len())
    }

    fn control(&mut self, _now_ns: u64, _request: u8, _value: u16) {}

    fn power_on(&mut self, _now_ns: u64) {}

    fn power_off(&mut self, _now_ns: u64) {
        self.reports.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written out by hand: report 1 translation, report 2 rotation, or both in report 1; report 3 buttons.
    #[test]
    fn deflections_are_told_in_both_layouts() {
        let told = |new_layout| {
            let mut mouse = SpaceMouse { new_layout, ..SpaceMouse::default() };
            mouse.deflect([350, -350, 1, 0, -1, 256]);
            mouse.press(2);
            let mut buffer = [0; LONGEST];
            let mut all = Vec::new();
            while let Some(len) = mouse.input(0, &mut buffer) {
                all.push(buffer[..len].to_vec());
            }
            all
        };
        let (move_, turn) = ([0x5e, 0x01, 0xa2, 0xfe, 0x01, 0x00], [0x00, 0x00, 0xff, 0xff, 0x00, 0x01]);
        let with = |id: u8, words: &[&[u8]]| [&[id], words.concat().as_slice()].concat();
        assert_eq!(told(false), [with(1, &[&move_]), with(2, &[&turn]), vec![3, 2, 0]]);
        assert_eq!(told(true), [with(1, &[&move_, &turn]), vec![3, 2, 0]]);
    }
}
