use super::*;
use crate::contact::{Friction, Material, ObjectShape, Texture};
use crate::geometry::Point;
use crate::geometry::field::Field;
use crate::scene::history::keep;
use crate::scene::snapshot::{MOTION_HISTORY, MotionSample};
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

const MS: u64 = 1_000_000;

fn object() -> SnapshotObject {
    let field = Field::from_fn(Point::origin(), 1.0, [2; 3], |_| 0.0);
    SnapshotObject {
        id: 7,
        incarnation: 3,
        slot: 0,
        motion: Some(0),
        pose: Pose::translation(0.0, 0.0, 0.0),
        shape: ObjectShape::Field(Arc::new(field)),
        material: Material {
            stiffness: 500.0,
            reference_area: 1e-4,
            damping: 0.0,
            friction: Friction::NONE,
            texture: Texture::NONE,
        },
        bound_centre: Point::origin(),
        bound_radius: 0.05,
    }
}

/// The stream's motion: 5 mm at 2 Hz beside 2 mm at 5 Hz, starting from rest at the origin.
fn truth(t: f64) -> f64 {
    let tau = std::f64::consts::TAU;
    0.005 * (1.0 - (2.0 * tau * t).cos()) + 0.002 * (1.0 - (5.0 * tau * t).cos())
}

/// A stream as control publishes it: arrival times jittered, some samples lost, the newest samples by sender time.
struct Sender {
    /// (arrival, sample), by arrival.
    arrivals: Vec<(u64, MotionSample)>,
    held: Vec<MotionSample>,
    next: usize,
    delay_ns: u64,
}

impl Sender {
    fn new(rate: f64, jitter: f64, loss: f64, seed: u64, until: f64) -> Self {
        let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
        let mut arrivals: Vec<(u64, MotionSample)> = (0..)
            .map(|k| 0.1 + f64::from(k) / rate)
            .take_while(|t| *t < until)
            .filter_map(|t| {
                let lost = rng.random::<f64>() < loss;
                let arrival = t + 1e-3 + jitter * rng.random::<f64>();
                let pose = Pose::translation(truth(t - 0.1), 0.0, 0.0);
                let sample = MotionSample { time_ns: (t * 1e9) as u64, pose };
                (!lost).then_some(((arrival * 1e9) as u64, sample))
            })
            .collect();
        arrivals.sort_by_key(|a| a.0);
        let delay_ns = crate::servo::handle::motion_delay_ns((1e9 / rate) as u64, (jitter * 1e9) as u64);
        Self { arrivals, held: Vec::new(), next: 0, delay_ns }
    }

    fn frame(&mut self, now_ns: u64) -> MotionFrame {
        while self.arrivals.get(self.next).is_some_and(|(at, _)| *at <= now_ns) {
            let sample = self.arrivals[self.next].1;
            self.next += 1;
            keep(&mut self.held, sample, self.delay_ns);
        }
        let mut samples = [MotionSample { time_ns: 0, pose: Pose::identity() }; MOTION_HISTORY];
        samples[..self.held.len()].copy_from_slice(&self.held);
        let entry = MotionEntry {
            id: 7,
            incarnation: 3,
            samples,
            len: self.held.len() as u8,
            delay_ns: self.delay_ns,
            lease_until_ns: u64::MAX,
        };
        MotionFrame { sequence: self.next as u64, entries: vec![(!self.held.is_empty()).then_some(entry)] }
    }
}

#[test]
fn a_clean_stream_is_followed_after_exactly_its_delay() {
    let mut motions = Motions::default();
    let mut sender = Sender::new(200.0, 0.0, 0.0, 1, 2.0);
    let delay = sender.delay_ns as f64 * 1e-9;
    let mut worst = (0.0f64, 0.0f64);
    for k in 0..1500u64 {
        let frame = sender.frame(k * MS);
        let played = motions.play(&object(), Some(&frame), k * MS);
        let t = k as f64 * 1e-3 - delay - 0.1;
        if t > 0.05 {
            assert_eq!(played.stream, Stream::Playing);
            let e = (played.pose.translation.vector.x - truth(t)).abs();
            worst.0 = worst.0.max(e);
            let speed = (truth(t + 1e-6) - truth(t - 1e-6)) / 2e-6;
            worst.1 = worst.1.max((played.twist.linear.x - speed).abs());
        }
    }
    // A sixth of the finest encoder step that a hand will ever feel this through (30 um), and 0.1 % of the peak speed.
    assert!(worst.0 < 5e-6 && worst.1 < 1.3e-4, "{worst:?}");
}

#[test]
fn jitter_and_loss_neither_jump_nor_stray() {
    let usual = [60.0, 200.0, 500.0, 1000.0, 2000.0].map(|rate| (rate, 5e-3));
    for (rate, jitter) in usual.into_iter().chain([(1000.0, 20e-3), (2000.0, 20e-3), (2000.0, 60e-3)]) {
        let mut motions = Motions::default();
        let mut sender = Sender::new(rate, jitter, 0.05, 9, 8.0);
        let delay = sender.delay_ns as f64 * 1e-9;
        assert!(delay < 0.06 + jitter, "the delay is bounded: {delay}");
        let (mut last, mut square, mut worst, mut bend) = (Vec::new(), Vec::new(), 0.0f64, 0.0f64);
        for k in 0..7500u64 {
            let frame = sender.frame(k * MS);
            let played = motions.play(&object(), Some(&frame), k * MS);
            let x = played.pose.translation.vector.x;
            let t = k as f64 * 1e-3 - delay - 0.1;
            if t > 0.1 {
                let e = (x - truth(t)).abs();
                square.push(e * e);
                worst = worst.max(e);
                last.push(x);
                if let [.., a, b, c] = last[..] {
                    bend = bend.max((a - 2.0 * b + c).abs() / 1e-6);
                }
            }
        }
        // One lost sample goes unnoticed; a second one in a row means extrapolation for less than an interval, at no
        // more than the peak speed of 0.126 m/s. Most of the time the error is below one encoder step.
        // Samples that come faster than 24 in a delay are thinned to that.
        assert!(worst < 0.126 * (1.0 / rate).max(delay / 24.0), "{rate} Hz, {jitter} s: strays {worst}");
        let rms = (square.iter().sum::<f64>() / square.len() as f64).sqrt();
        assert!(rms < 30e-6, "{rate} Hz: rms {rms}");
        // The motion's own acceleration is at most 0.79 + 1.97 m/s^2.
        assert!(bend < 8.0, "{rate} Hz: bends {bend} m/s^2");
    }
}

#[test]
fn a_stopped_stream_freezes_the_object_and_a_new_one_takes_over() {
    let mut motions = Motions::default();
    let mut sender = Sender::new(500.0, 0.0, 0.0, 1, 2.0);
    let mut frame = MotionFrame::default();
    for k in 0..500u64 {
        frame = sender.frame(k * MS);
        if let Some(Some(entry)) = frame.entries.first_mut() {
            entry.lease_until_ns = k * MS + 100 * MS;
        }
        motions.play(&object(), Some(&frame), k * MS);
    }
    let entry = frame.entries[0].unwrap();
    let last = motions.play(&object(), Some(&frame), entry.lease_until_ns - 1);
    let frozen = motions.play(&object(), Some(&frame), entry.lease_until_ns);
    assert_eq!((frozen.stream, frozen.twist, frozen.jumped), (Stream::Stopped, Twist::ZERO, false));
    assert_eq!(frozen.pose, last.pose);
    assert_eq!(motions.play(&object(), None, entry.lease_until_ns + MS).pose, last.pose, "stays frozen");
    // A stream that starts again far away is a jump, taken at once.
    let mut far = entry;
    far.lease_until_ns = u64::MAX;
    for (i, s) in far.samples.iter_mut().enumerate() {
        *s = MotionSample { time_ns: (1000 + i as u64) * MS, pose: Pose::translation(0.1, 0.0, 0.0) };
    }
    let frame = MotionFrame { sequence: 99, entries: vec![Some(far)] };
    let played = motions.play(&object(), Some(&frame), 1100 * MS);
    assert_eq!((played.stream, played.jumped), (Stream::Playing, true));
    assert!((played.pose.translation.vector.x - 0.1).abs() < 1e-12);
}

#[test]
fn entries_of_another_object_or_incarnation_are_ignored() {
    let mut motions = Motions::default();
    let mut sender = Sender::new(500.0, 0.0, 0.0, 1, 2.0);
    let mut frame = sender.frame(600 * MS);
    for (id, incarnation) in [(8, 3), (7, 4)] {
        let entry = frame.entries[0].as_mut().unwrap();
        (entry.id, entry.incarnation) = (id, incarnation);
        let played = motions.play(&object(), Some(&frame), 600 * MS);
        assert_eq!((played.stream, played.pose), (Stream::Rest, Pose::identity()));
    }
    let mut far = object();
    far.motion = Some(200);
    assert_eq!(motions.play(&far, Some(&frame), 600 * MS).stream, Stream::Rest);
}

#[test]
fn an_object_that_an_edit_moves_at_rest_jumps_once() {
    let mut motions = Motions::default();
    let mut o = object();
    motions.play(&o, None, MS);
    o.pose = Pose::translation(0.02, 0.0, 0.0);
    assert!(motions.play(&o, None, 2 * MS).jumped);
    assert!(!motions.play(&o, None, 3 * MS).jumped);
}
