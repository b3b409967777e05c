use super::*;

const ON: Situation =
    Situation { dt: 1e-3, small: true, scene: true, fresh: true, clutched: false, held: true };

fn config() -> ServoConfig {
    ServoConfig::default()
}

/// Armed by session 1 with an endless lease.
fn armed() -> Arming {
    let mut a = Arming::new(0);
    a.device(Lifecycle::Ready);
    assert_eq!(a.arm(1, 0, 0, 0, &config()), Ok(()));
    a.lease(u64::MAX);
    a
}

fn rendering() -> Arming {
    let mut a = armed();
    let ticks = (1..2000).find(|_| {
        a.device(Lifecycle::Ready);
        a.step(&ON, &config()) >= 1.0
    });
    assert!(ticks.is_some_and(|n| n >= 50 + 300), "gate and ramp take their time: {ticks:?}");
    assert_eq!(a.state(), ServoState::Rendering);
    a
}

#[test]
fn the_gate_holds_zero_while_the_wanted_force_is_large() {
    let mut a = armed();
    for _ in 0..1000 {
        assert_eq!(a.step(&Situation { small: false, ..ON }, &config()), 0.0);
    }
    assert_eq!((a.state(), a.zero(&ON, true, false)), (ServoState::Armed, ZeroReason::ArmingGate));
}

#[test]
fn a_disarm_ramps_down_within_fifty_milliseconds_and_ends_idle() {
    let mut a = rendering();
    a.watch(2, 0);
    let mut last = 1.0;
    let ticks = (1..100).find(|_| {
        let gain = a.step(&ON, &config());
        assert!(gain <= last);
        last = gain;
        gain == 0.0
    });
    assert!(ticks.is_some_and(|n| (20..=50).contains(&n)), "{ticks:?}");
    assert_eq!((a.state(), a.owner(), a.zero(&ON, true, false)), (ServoState::Idle, 0, ZeroReason::Disarmed));
}

#[test]
fn an_arm_command_from_before_a_disarm_does_not_count() {
    let mut a = Arming::new(0);
    a.device(Lifecycle::Ready);
    assert_eq!(a.arm(1, 0, 1, 0, &config()), Err(Refusal::Disarmed));
    assert_eq!(a.arm(1, 1, 1, 0, &config()), Ok(()));
}

#[test]
fn the_lease_ends_and_the_force_with_it() {
    let mut a = Arming::new(0);
    a.device(Lifecycle::Ready);
    a.arm(1, 0, 0, 1_000, &config()).unwrap();
    a.watch(0, 1_000 + 500_000_000 - 1);
    a.step(&ON, &config());
    assert_eq!(a.state(), ServoState::Armed);
    a.watch(0, 1_000 + 500_000_000);
    a.step(&ON, &config());
    assert_eq!((a.state(), a.zero(&ON, false, false)), (ServoState::Idle, ZeroReason::LeaseLost));
}

#[test]
fn others_are_refused_and_the_owner_is_not() {
    let mut a = rendering();
    assert_eq!(a.arm(2, 0, 0, 0, &config()), Err(Refusal::Owned));
    assert_eq!(a.arm(1, 0, 0, 0, &config()), Ok(()));
    a.leave(ZeroReason::Disarmed);
    assert_eq!(a.arm(1, 0, 0, 0, &config()), Err(Refusal::Disarmed));
}

#[test]
fn without_a_device_in_a_fault_or_degraded_nobody_arms() {
    let mut a = Arming::new(0);
    for lifecycle in [Lifecycle::Absent, Lifecycle::Booting, Lifecycle::Uncalibrated] {
        a.device(lifecycle);
        assert_eq!(a.arm(1, 0, 0, 0, &config()), Err(Refusal::NotReady));
    }
    a.device(Lifecycle::Ready);
    a.rt_ok = false;
    assert_eq!(a.arm(1, 0, 0, 0, &config()), Err(Refusal::Degraded));
    a.rt_ok = true;
    a.fail(Fault::Overrun);
    assert_eq!(a.arm(1, 0, 0, 0, &config()), Err(Refusal::InFault));
}

#[test]
fn a_fault_is_zero_at_once_latches_and_is_left_explicitly() {
    let mut a = rendering();
    a.fail(Fault::Velocity);
    a.fail(Fault::Overrun);
    assert_eq!((a.state(), a.fault(), a.gain(), a.owner()), (ServoState::Fault, Fault::Velocity, 0.0, 0));
    a.device(Lifecycle::Ready);
    assert_eq!(a.state(), ServoState::Fault);
    assert_eq!(a.clear(), Ok(()));
    assert_eq!(a.clear(), Err(Refusal::NoFault));
    a.device(Lifecycle::Ready);
    assert_eq!((a.state(), a.fault()), (ServoState::Idle, Fault::None));
}

#[test]
fn a_device_lost_while_armed_is_a_fault_with_a_reason() {
    for lifecycle in [Lifecycle::Absent, Lifecycle::Fault, Lifecycle::Booting, Lifecycle::Uncalibrated] {
        let mut a = rendering();
        a.device(lifecycle);
        assert_eq!((a.state(), a.fault(), a.gain()), (ServoState::Fault, Fault::DeviceGone, 0.0));
    }
}

#[test]
fn a_new_tool_fades_the_last_command_and_goes_through_the_gate() {
    let mut a = rendering();
    let last = Wrench { force: crate::geometry::Vec3::new(3.0, 0.0, 0.0), ..Wrench::ZERO };
    a.regate(&last);
    assert_eq!((a.frozen(), a.gain()), (Some(last), 1.0));
    let ticks = (1..100).find(|_| a.step(&ON, &config()) == 0.0);
    assert!(ticks.is_some_and(|n| (20..=50).contains(&n)), "{ticks:?}");
    assert_eq!((a.state(), a.owner(), a.frozen()), (ServoState::Armed, 1, None));
    for _ in 0..49 {
        assert_eq!(a.step(&ON, &config()), 0.0);
    }
    a.step(&ON, &config());
    assert_eq!(a.state(), ServoState::Rendering);
}

#[test]
fn a_disarm_during_a_tool_change_wins() {
    let mut a = rendering();
    a.regate(&Wrench::ZERO);
    a.watch(2, 0);
    while a.gain() > 0.0 {
        a.step(&ON, &config());
    }
    assert_eq!((a.state(), a.zero(&ON, false, false)), (ServoState::Idle, ZeroReason::Disarmed));
}

/// One tick as the servo has it.
fn tick(a: &mut Arming, s: &Situation) -> f64 {
    a.look(s.fresh, !s.clutched && s.scene, &config());
    let coming = a.lapse(s.dt, 1.0, 1.0, &config()).gain.comes;
    let gain = a.step(s, &config());
    if matches!(a.phase, Phase::Known | Phase::Back) {
        assert_eq!(gain, coming, "what the contacts are told comes");
    }
    gain
}

#[test]
fn stale_samples_clutch_and_a_missing_scene_ramp_down_and_back_up() {
    // Only samples come back within a quarter of a second: the hand is still there.
    for (off, reason, over) in [
        (Situation { fresh: false, ..ON }, ZeroReason::StaleSample, 30),
        (Situation { clutched: true, ..ON }, ZeroReason::Clutch, 300),
        (Situation { scene: false, ..ON }, ZeroReason::NoScene, 300),
        (Situation { fresh: false, clutched: true, ..ON }, ZeroReason::StaleSample, 300),
    ] {
        let mut a = rendering();
        let down = (1..100).find(|_| tick(&mut a, &off) == 0.0);
        assert!(down.is_some_and(|n| (20..=50).contains(&n)), "{down:?}");
        assert_eq!((a.state(), a.zero(&off, true, false)), (ServoState::Rendering, reason));
        let up = (1..1000).find(|_| tick(&mut a, &ON) >= 1.0);
        // Thirty thirtieths may be a little less than one.
        assert!(up.is_some_and(|up: u32| up.abs_diff(over) <= 1), "{reason:?}: {up:?}");
    }
}

/// However far the gain was and however short the lapse: no farther than it was does it come back fast, and not if it fell a moment ago.
#[test]
fn a_lapse_does_not_shorten_the_ramp() {
    let off = Situation { fresh: false, ..ON };
    for (before, ms) in [(1.0, 1), (1.0, 10), (1.0, 29), (1.0, 200), (0.3, 5), (0.3, 8), (0.3, 60)] {
        for (again_ms, again) in [(5, false), (290 - ms, false), (310, true)] {
            let mut a = armed();
            while a.gain() < before {
                tick(&mut a, &ON);
            }
            for (off_ms, on_ms, fast) in [(ms, again_ms, true), (ms, 700, again)] {
                let reached = a.reached.max(a.gain());
                for _ in 0..off_ms {
                    tick(&mut a, &off);
                }
                // In full where all of it was lost, and not faster than else where half was left.
                let part = (1.0 - 2.0 * a.gain() / reached).clamp(0.0, 1.0);
                let back = config().ramp_up + (config().ramp_down - config().ramp_up) * part;
                for k in 0..on_ms {
                    let last = a.gain();
                    let gain = tick(&mut a, &ON);
                    let quick = fast && last < reached;
                    let over = if quick { back } else { config().ramp_up };
                    let expect = (last + 1e-3 / over).min(1.0);
                    assert!(
                        (gain - expect).abs() < 1e-9,
                        "{before} {ms} {again_ms} {k}: {last} {gain}, not {expect}"
                    );
                }
            }
            assert_eq!(a.gain(), 1.0);
        }
    }
}

/// One sample in four: three in a row missing let the third tick be stale, and what it takes does not come back in the others.
#[test]
fn samples_that_come_too_seldom_let_the_force_fade_out() {
    let mut a = rendering();
    let mut most = 0.0f64;
    for k in 0..1000 {
        let gain = tick(&mut a, &Situation { fresh: k % 4 != 3, ..ON });
        if k >= 400 {
            most = most.max(gain);
        }
    }
    assert!(most < 0.05, "{most}");
}

#[test]
fn the_first_tick_after_a_lapse_is_told_once_and_only_under_force() {
    let mut a = armed();
    for known in [true, false, true] {
        a.look(known, true, &config());
        assert_eq!(a.phase, Phase::Off, "armed alone, nothing has been felt");
    }
    let mut a = rendering();
    let told = [true, false, false, true, true, false, true, true].map(|known| {
        a.look(known, true, &config());
        a.phase
    });
    let (known, away, back) = (Phase::Known, Phase::Away, Phase::Back);
    assert_eq!(told, [known, away, away, back, known, away, back, known]);
    // What comes through the gate afterwards comes by the ramp.
    a.look(false, true, &config());
    a.fail(Fault::Stale);
    a.look(true, true, &config());
    assert_eq!(a.phase, Phase::Off);
}

/// Let go of, the force is gone within the release time and comes back through the gate, not under a hand that still presses.
#[test]
fn the_dead_man_button_takes_the_force_and_gives_it_back_through_the_gate() {
    let off = Situation { held: false, ..ON };
    let mut a = rendering();
    let down = (1..100).find(|_| a.step(&off, &config()) == 0.0);
    assert!(down.is_some_and(|n| (20..=50).contains(&n)), "{down:?}");
    a.step(&off, &config());
    assert_eq!(
        (a.state(), a.owner(), a.zero(&off, true, false)),
        (ServoState::Armed, 1, ZeroReason::DeadMan)
    );
    // Held again, but pressed against something.
    let pressed = Situation { small: false, ..ON };
    for _ in 0..500 {
        assert_eq!(a.step(&pressed, &config()), 0.0);
    }
    assert_eq!(a.zero(&pressed, true, false), ZeroReason::ArmingGate);
    // Not held in the free, it does not open either.
    for _ in 0..500 {
        assert_eq!(a.step(&off, &config()), 0.0);
    }
    let opened = (1..1000).find(|_| a.step(&ON, &config()) > 0.0);
    assert!(opened.is_some_and(|n| n >= config().gate_ticks), "{opened:?}");
    let up = (1..1000).find(|_| a.step(&ON, &config()) >= 1.0);
    assert!(up.is_some_and(|n| n >= 299), "{up:?}");
    // A press too short for the ramp does not stop it half way; what ends the force for good goes on to idle.
    a.step(&off, &config());
    let mut last = a.gain();
    while a.gain() > 0.0 {
        a.step(&ON, &config());
        assert!(a.gain() < last, "{} after {last}", a.gain());
        last = a.gain();
    }
    let mut a = rendering();
    a.step(&off, &config());
    a.leave(ZeroReason::Disarmed);
    while a.gain() > 0.0 {
        a.step(&off, &config());
    }
    assert_eq!((a.state(), a.zero(&off, false, false)), (ServoState::Idle, ZeroReason::Disarmed));
}
