use super::*;

/// Plays the other side: answers by a rule, and keeps what was asked of the line.
struct Chip<F: FnMut(&[u8]) -> Vec<u8>> {
    answer: F,
    controls: Vec<Control>,
    sent: Vec<Vec<u8>>,
}

impl<F: FnMut(&[u8]) -> Vec<u8>> Chip<F> {
    fn new(answer: F) -> Self {
        Self { answer, controls: Vec::new(), sent: Vec::new() }
    }

    fn run(&mut self, boot: &mut Boot) -> (Action, u64) {
        let mut now = 0;
        for _ in 0..100_000 {
            match boot.next(now) {
                Action::Control(c) => self.controls.push(c),
                Action::Send => {
                    let said = boot.outgoing().to_vec();
                    let answer = (self.answer)(&said);
                    boot.heard(&answer);
                    self.sent.push(said);
                }
                Action::Wait(until) => {
                    assert!(until > now, "a wait that waits for nothing");
                    now = until;
                }
                end => return (end, now),
            }
        }
        panic!("the dialogue does not end");
    }
}

fn image(len: usize) -> Arc<[u8]> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

const REPLY: &[u8] = b"<AAAAAAAAAAAAAA>";

/// The published dialogue, byte for byte (research/devices.md section 1).
#[test]
fn the_firmware_is_loaded_as_published() {
    let firmware = image(150);
    let mut boot = Boot::new(Some(firmware.clone()));
    let mut loaded = Vec::new();
    let mut begun = false;
    let mut chip = Chip::new(|said: &[u8]| match said {
        [0x0a, 0x43, 0x0d] => vec![0x00, 0x0a, 0x44, 0x2c, 0x0d],
        [0x41] if !begun => {
            begun = true;
            vec![0x41]
        }
        chunk if begun && loaded.len() < 150 => {
            loaded.extend_from_slice(chunk);
            chunk.to_vec()
        }
        _ if loaded.len() == 150 => REPLY.to_vec(),
        _ => Vec::new(),
    });
    assert_eq!(chip.run(&mut boot).0, Action::Running);
    assert_eq!(boot.attempts(), 1);
    let chunks: Vec<usize> = chip.sent.iter().filter(|s| s.len() > 16).map(Vec::len).collect();
    assert_eq!(chunks, [62, 62, 26]);
    // Slow while loading, fast afterwards; DTR as published.
    let wanted = [
        Control::Latency(16),
        Control::Divisor(0x4138),
        Control::Line8N1,
        Control::NoFlow,
        Control::RtsLow,
        Control::Dtr(false),
        Control::Dtr(true),
        Control::Dtr(false),
        Control::Divisor(0x15),
        Control::Latency(1),
        Control::Divisor(2),
    ];
    let from = chip.controls.iter().position(|c| *c == Control::Latency(16)).expect("slow");
    assert_eq!(chip.controls[from..from + wanted.len()], wanted);
    drop(chip);
    assert_eq!(loaded, firmware.to_vec());
}

#[test]
fn a_running_falcon_is_left_alone() {
    let mut boot = Boot::new(None);
    let mut chip = Chip::new(|_: &[u8]| REPLY.to_vec());
    assert_eq!(chip.run(&mut boot).0, Action::Running);
    // No force; 9 = homing and the red light.
    assert_eq!(chip.sent, [b"<AAAAAAAAAAAAJA>"]);
    assert!(!chip.controls.iter().any(|c| matches!(c, Control::Dtr(_))));
    assert_eq!(boot.attempts(), 0);
}

/// The bus stands still for a while, or for good: with and without a firmware file that is no missing firmware, and nothing is loaded.
#[test]
fn a_chip_that_is_not_heard_is_not_said_to_lack_its_firmware() {
    for firmware in [None, Some(image(100))] {
        for still_ms in [0, 199, 201, 350, 495, 505, u64::MAX / MS] {
            let (mut boot, mut now, mut end) = (Boot::new(firmware.clone()), 0, None);
            let mut asked = false;
            while end.is_none() && now < 5_000 * MS {
                match boot.next(now) {
                    Action::Control(control) => assert!(!matches!(control, Control::Dtr(_)), "{still_ms} ms"),
                    Action::Send => asked = true,
                    Action::Wait(_) => {
                        now += MS;
                        // Its status, and in the frame after it an answer.
                        if now > still_ms.saturating_mul(MS) {
                            boot.heard(if asked && now > (still_ms + 1) * MS { REPLY } else { &[] });
                        }
                    }
                    action => end = Some(action),
                }
            }
            let wanted = if still_ms < 500 { Action::Running } else { Action::Silent };
            assert_eq!((end, boot.attempts()), (Some(wanted), 0), "{still_ms} ms");
        }
    }
}

#[test]
fn without_a_firmware_file_the_cure_is_told() {
    let mut boot = Boot::new(None);
    let (end, at) = Chip::new(|_: &[u8]| Vec::new()).run(&mut boot);
    assert_eq!(end, Action::Failed(Stage::Probe));
    assert!((PROBE_NS..PROBE_NS + 10 * MS).contains(&at));
    assert!(Stage::Probe.trouble().contains("device.firmware"));
}

/// Each stage fails for ever: five attempts, a bounded time, the right stage named.
#[test]
fn loading_gives_up_after_bounded_attempts() {
    type Answer = Box<dyn FnMut(&[u8]) -> Vec<u8>>;
    let hello = |said: &[u8]| (said == HELLO).then(|| HELLO_ANSWER.to_vec());
    let cases: Vec<(Stage, Answer)> = vec![
        (Stage::Greeting, Box::new(|_: &[u8]| Vec::new())),
        (Stage::Greeting, Box::new(|_: &[u8]| vec![0xff; 200])),
        (Stage::Ready, Box::new(move |s: &[u8]| hello(s).unwrap_or_default())),
        (Stage::Ready, Box::new(move |s: &[u8]| hello(s).unwrap_or_else(|| vec![0x42]))),
        (
            Stage::Image,
            Box::new(move |s: &[u8]| {
                hello(s).unwrap_or_else(|| {
                    let mut echo = s.to_vec();
                    if s.len() > 1 {
                        echo[s.len() / 2] ^= 1;
                    }
                    if s.starts_with(b"<") { Vec::new() } else { echo }
                })
            }),
        ),
        (
            Stage::Start,
            Box::new(move |s: &[u8]| {
                hello(s).unwrap_or_else(|| if s.starts_with(b"<") { Vec::new() } else { s.to_vec() })
            }),
        ),
    ];
    for (stage, answer) in cases {
        let mut boot = Boot::new(Some(image(100)));
        let (end, at) = Chip::new(answer).run(&mut boot);
        assert_eq!(end, Action::Failed(stage));
        assert_eq!(boot.attempts(), ATTEMPTS);
        assert!(at < 60_000 * MS, "{stage:?} took {} ms", at / MS);
    }
}

/// It fails at random in half of the attempts' stages and still comes up: the users' complaint.
#[test]
fn a_flaky_loader_is_overcome() {
    let mut greetings = 0;
    let mut echoes = 0;
    let mut boot = Boot::new(Some(image(130)));
    let mut chip = Chip::new(|said: &[u8]| match said {
        HELLO => {
            greetings += 1;
            if greetings % 3 == 0 { HELLO_ANSWER.to_vec() } else { vec![0x0a, 0x99] }
        }
        packet if packet.len() == 16 && packet.starts_with(b"<") => {
            if echoes >= 4 {
                REPLY.to_vec()
            } else {
                Vec::new()
            }
        }
        [0x41] => vec![0x41],
        chunk => {
            echoes += 1;
            if echoes == 1 { chunk[1..].to_vec() } else { chunk.to_vec() }
        }
    });
    assert_eq!(chip.run(&mut boot).0, Action::Running);
    assert_eq!(boot.attempts(), 2);
}
