//! The device's side of USB: an emulated full-speed device behind the kernel's virtual host controller (vhci_hcd), spoken to
//! in the USB/IP protocol over one end of a socket pair (Documentation/usb/usbip_protocol.rst).
//!
//! It runs in a process of its own: one that dies with transfers open in its own device can hang in the kernel.

use hapticd::device::emulated::bus::Gadget;
use hapticd::device::io::link::LONGEST;
use hapticd::device::io::thread::now_ns;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

const SUBMIT: u32 = 1;
const UNLINK: u32 = 2;
const RET_SUBMIT: u32 = 3;
const RET_UNLINK: u32 = 4;
const HEADER: usize = 48;
/// -ECONNRESET and -EPIPE, as the kernel wants them.
const CONNRESET: u32 = (-104i32) as u32;
const PIPE: u32 = (-32i32) as u32;

/// A Falcon's descriptors: one vendor interface with bulk OUT 2 and bulk IN 1.
const DEVICE: [u8; 18] = [18, 1, 0x00, 0x02, 0, 0, 0, 64, 0x03, 0x04, 0x48, 0xcb, 0x00, 0x06, 1, 2, 3, 1];
const CONFIGURATION: [u8; 32] = [
    9, 2, 32, 0, 1, 1, 0, 0x80, 50, 9, 4, 0, 0, 2, 0xff, 0xff, 0xff, 0, 7, 5, 0x81, 2, 64, 0, 0, 7, 5, 0x02,
    2, 64, 0, 0,
];
const STRINGS: [&str; 3] = ["Novint", "Falcon (emulated)", "F1"];

fn string(index: u8) -> Vec<u8> {
    if index == 0 {
        return vec![4, 3, 0x09, 0x04];
    }
    let text = STRINGS.get(usize::from(index) - 1).copied().unwrap_or("");
    let body: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    [vec![body.len() as u8 + 2, 3], body].concat()
}

struct Urb {
    seqnum: u32,
    length: usize,
}

fn word(header: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

fn answer(
    socket: &mut UnixStream,
    command: u32,
    seqnum: u32,
    status: u32,
    length: usize,
    data: &[u8],
) -> bool {
    let mut packet = vec![0; HEADER];
    packet[..4].copy_from_slice(&command.to_be_bytes());
    packet[4..8].copy_from_slice(&seqnum.to_be_bytes());
    packet[20..24].copy_from_slice(&status.to_be_bytes());
    if command == RET_SUBMIT {
        packet[24..28].copy_from_slice(&(length as u32).to_be_bytes());
    }
    packet.extend_from_slice(data);
    socket.write_all(&packet).is_ok()
}

/// Serves until the other end closes: one frame a millisecond, one transfer a frame and direction. To take its power is left to the caller.
pub fn serve(mut socket: UnixStream, gadget: &mut dyn Gadget) {
    gadget.power_on(now_ns());
    let (mut ins, mut outs): (VecDeque<Urb>, VecDeque<(Urb, Vec<u8>)>) = Default::default();
    let mut frames = super::Frames::new();
    let mut frame = now_ns();
    loop {
        let now = now_ns();
        if now >= frame {
            frames.begins();
            gadget.frame(now);
            let mut buffer = [0; LONGEST];
            if !ins.is_empty()
                && let Some(len) = gadget.input(now, &mut buffer)
                && let Some(urb) = ins.pop_front()
            {
                let len = len.min(urb.length);
                if !answer(&mut socket, RET_SUBMIT, urb.seqnum, 0, len, &buffer[..len]) {
                    break;
                }
            }
            if let Some((urb, bytes)) = outs.pop_front() {
                gadget.output(now, &bytes);
                if !answer(&mut socket, RET_SUBMIT, urb.seqnum, 0, bytes.len(), &[]) {
                    break;
                }
            }
            frame = now_ns() + frames.ends();
        }
        let left = frame.saturating_sub(now_ns()).div_ceil(1_000_000).min(1);
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(left as u8)).unwrap_or(0) == 0 {
            continue;
        }
        let mut header = [0; HEADER];
        if socket.read_exact(&mut header).is_err() {
            break;
        }
        let (seqnum, is_in, endpoint) = (word(&header, 4), word(&header, 12) == 1, word(&header, 16));
        let ok = match word(&header, 0) {
            SUBMIT => {
                let length = word(&header, 24) as usize;
                let mut data = vec![0; if is_in { 0 } else { length }];
                if socket.read_exact(&mut data).is_err() {
                    break;
                }
                let urb = Urb { seqnum, length };
                match (endpoint, is_in) {
                    (0, _) => control(&mut socket, gadget, &urb, &header[40..48]),
                    (_, true) => {
                        ins.push_back(urb);
                        true
                    }
                    (_, false) => {
                        outs.push_back((urb, data));
                        true
                    }
                }
            }
            UNLINK => {
                let victim = word(&header, 20);
                let waiting = ins.len() + outs.len();
                ins.retain(|u| u.seqnum != victim);
                outs.retain(|(u, _)| u.seqnum != victim);
                let status = if ins.len() + outs.len() < waiting { CONNRESET } else { 0 };
                answer(&mut socket, RET_UNLINK, seqnum, status, 0, &[])
            }
            _ => false,
        };
        if !ok {
            break;
        }
    }
}

fn control(socket: &mut UnixStream, gadget: &mut dyn Gadget, urb: &Urb, setup: &[u8]) -> bool {
    let (kind, request) = (setup[0], setup[1]);
    let value = u16::from_le_bytes([setup[2], setup[3]]);
    let reply = match (kind, request, value >> 8) {
        (0x80, 6, 1) => DEVICE.to_vec(),
        (0x80, 6, 2) => CONFIGURATION.to_vec(),
        (0x80, 6, 3) => string(value as u8),
        (0x80 | 0x81, 0, _) => vec![0, 0],
        (0x80, 8, _) => vec![1],
        (0x40, _, _) => {
            gadget.control(now_ns(), request, value);
            Vec::new()
        }
        (0x00..=0x02, 1 | 3 | 9 | 11, _) => Vec::new(),
        _ => return answer(socket, RET_SUBMIT, urb.seqnum, PIPE, 0, &[]),
    };
    let len = reply.len().min(urb.length);
    answer(socket, RET_SUBMIT, urb.seqnum, 0, len, &reply[..len])
}
