//! 3Dconnexion mice: deflections in, nothing out.

use crate::device::io::port::{Arrived, Latest, Pace, Port, Start};
use crate::device::wire::spacemouse::{self, Deflection};

/// The reports of a SpaceMouse.
#[derive(Debug, Default)]
pub struct SpaceMouse {
    deflection: Deflection,
}

impl Port for SpaceMouse {
    fn pace(&self) -> Pace {
        Pace::Changes
    }

    fn begin(&mut self, _product: u16) {
        self.deflection = Deflection::default();
    }

    fn start(&mut self, _now_ns: u64) -> Start {
        Start::Running
    }

    fn arrived(&mut self, bytes: &[u8]) -> Arrived {
        // Reports of other kinds (battery) are no damage.
        let Some(report) = spacemouse::decode(bytes) else { return Arrived::default() };
        self.deflection.apply(&report);
        Arrived { reports: 1, garbled: false }
    }

    fn latest(&self) -> Latest {
        let counts = self.deflection.axes.map(i32::from);
        Latest { counts, buttons: self.deflection.buttons, calibrated: true, refused: false }
    }

    fn prepare(&mut self, _codes: &[i32; 3]) {}

    fn outgoing(&self) -> &[u8] {
        &[]
    }
}
