//! The beat of two clocks: the servo's ticks and the device's frames, each of a millisecond by its own crystal.

use super::*;

/// Effects whose delays are taken together.
const WINDOW: usize = 100;
const SECONDS: u64 = 60;

/// What a series of delays does over its time.
struct Beat {
    /// Times the delay rises by half a frame or more from one window to the next.
    rises: usize,
    /// Of the windows' medians the largest less the least, ns.
    swing: u64,
    /// Mean of all, ns.
    mean: f64,
}

impl Beat {
    fn of(series: &[u64]) -> Self {
        let medians: Vec<u64> = series
            .chunks_exact(WINDOW)
            .map(|window| {
                let mut window = window.to_vec();
                window.sort_unstable();
                window[WINDOW / 2]
            })
            .collect();
        let (least, most) = (medians.iter().min().expect("windows"), medians.iter().max().expect("windows"));
        Self {
            rises: medians.windows(2).filter(|w| w[1] >= w[0] + MS / 2).count(),
            swing: most - least,
            mean: series.iter().sum::<u64>() as f64 / series.len() as f64,
        }
    }
}

/// Clocks that differ by 200 ppm pass each other once in 1 ms / 200e-6 = 5 s: in a minute the delay of ticks that run free goes twelve times through a frame.
/// Of ticks that follow the device it does not move.
fn check<G: Witness>(name: &str, ppm: f64, make: impl Fn(f64) -> Stepped<G>) {
    let [free, following] = [false, true].map(|follows| {
        let beat = Beat::of(&measure(&mut make(ppm), SECONDS, &[], follows).series);
        println!(
            "{name}, frames {ppm:+} ppm, {SECONDS} s, ticks that {}: the delay rises by a frame {} times, swing {:.3} ms, mean {:.3} ms",
            if follows { "follow  " } else { "run free" },
            beat.rises,
            beat.swing as f64 * 1e-6,
            beat.mean * 1e-6
        );
        beat
    });
    assert!((11..=13).contains(&free.rises), "{}", free.rises);
    assert!((900_000..=1_100_000).contains(&free.swing), "a frame: {}", free.swing);
    assert_eq!(following.rises, 0);
    assert!(following.swing <= 100_000, "{}", following.swing);
    // On average half a frame is what the beat costs.
    assert!(free.mean - following.mean > 0.3e6, "{} {}", free.mean, following.mean);
}

#[test]
fn the_falcon_s_delay_does_not_beat() {
    for ppm in [-200.0, 200.0] {
        check("Falcon", ppm, |ppm| falcon_driver(Bus::new(counting_falcon(), ppm, 123_456, false)));
    }
}

#[test]
fn the_hid_device_s_delay_does_not_beat() {
    check("HID haptic", 200.0, |ppm| hid_driver(Bus::new(counting_hid(), ppm, 123_456, true)));
}
