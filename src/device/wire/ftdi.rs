//! Control requests of the FTDI chip in front of the Falcon, and the status bytes in front of its data.
//!
//! Source: libnifalcon src/comm/FalconCommLibUSB.cpp. All are vendor requests to the device (bmRequestType 0x40) without
//! data.

/// OUT endpoint for data.
pub const OUT: u8 = 0x02;
/// IN endpoint for data.
pub const IN: u8 = 0x81;
/// Length of an IN transfer.
pub const IN_LENGTH: usize = 64;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Drops what the chip has received for the host.
    PurgeRx,
    /// Drops what the host has sent.
    PurgeTx,
    /// DTR line.
    Dtr(bool),
    /// RTS low.
    RtsLow,
    /// No flow control.
    NoFlow,
    /// Divisor of 3 MHz with the fraction's code in the upper bits.
    Divisor(u16),
    /// 8 bits, no parity, 1 stop bit.
    Line8N1,
    /// Milliseconds after which the chip sends what it has.
    Latency(u8),
}

impl Control {
    /// bRequest and wValue; wIndex is 0.
    pub fn setup(self) -> (u8, u16) {
        match self {
            Self::PurgeRx => (0, 1),
            Self::PurgeTx => (0, 2),
            Self::Dtr(false) => (1, 0x0100),
            Self::Dtr(true) => (1, 0x0101),
            Self::RtsLow => (1, 0x0200),
            Self::NoFlow => (2, 0),
            Self::Divisor(divisor) => (3, divisor),
            Self::Line8N1 => (4, 8),
            Self::Latency(ms) => (9, u16::from(ms)),
        }
    }
}

/// The data of an IN transfer: what follows the two status bytes. Real-time safe.
pub fn data(transfer: &[u8]) -> &[u8] {
    transfer.get(2..).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of research/devices.md section 1.
    #[test]
    fn requests_are_the_published_ones() {
        for (control, request, value) in [
            (Control::PurgeRx, 0, 1),
            (Control::PurgeTx, 0, 2),
            (Control::Dtr(false), 1, 0x0100),
            (Control::Dtr(true), 1, 0x0101),
            (Control::RtsLow, 1, 0x0200),
            (Control::NoFlow, 2, 0),
            (Control::Divisor(0x4138), 3, 0x4138),
            (Control::Line8N1, 4, 8),
            (Control::Latency(16), 9, 16),
        ] {
            assert_eq!(control.setup(), (request, value), "{control:?}");
        }
    }

    #[test]
    fn two_status_bytes_are_no_data() {
        assert_eq!(data(&[]), &[] as &[u8]);
        assert_eq!(data(&[1]), &[] as &[u8]);
        assert_eq!(data(&[1, 0x60]), &[] as &[u8]);
        assert_eq!(data(&[1, 0x60, 7, 8]), &[7, 8]);
    }
}
