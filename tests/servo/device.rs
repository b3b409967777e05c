//! Devices of the tests: one on strings, which is where the test puts it and keeps what it was told to do, and a simulated one that
//! can be looked into.

use hapticd::device::profile::Profile;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::SimulatedDevice;
use hapticd::device::{
    Accepted, Device, DeviceError, Emergency, Lifecycle, ReadFault, Sample, WriteFault, actuators,
};
use hapticd::geometry::{Pose, Vec3, Wrench};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug)]
pub struct State {
    pub pose: Pose,
    pub lifecycle: Lifecycle,
    pub read: Option<ReadFault>,
    pub write: Option<WriteFault>,
    /// Samples keep their number: nothing new arrives.
    pub frozen: bool,
    /// Panics in the next read.
    pub panic: bool,
    pub seq: u64,
    /// Last accepted command, and when.
    pub command: Wrench,
    pub at_ns: u64,
    pub zeros: u32,
}

/// Shared between test and servo.
#[derive(Clone, Debug)]
pub struct Puppet {
    profile: Arc<Profile>,
    state: Arc<Mutex<State>>,
}

impl Puppet {
    pub fn new(at: Vec3) -> Self {
        Self::of("ideal-6dof", at)
    }

    /// One with the profile of a shipped device.
    pub fn of(name: &str, at: Vec3) -> Self {
        let profile = Registry::builtin().profile(name).expect("shipped");
        let state = State {
            pose: Pose::translation(at.x, at.y, at.z),
            lifecycle: Lifecycle::Ready,
            read: None,
            write: None,
            frozen: false,
            panic: false,
            seq: 0,
            command: Wrench::ZERO,
            at_ns: 0,
            zeros: 0,
        };
        Self { profile, state: Arc::new(Mutex::new(state)) }
    }

    pub fn with(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.state.lock().unwrap());
    }

    pub fn get(&self) -> State {
        self.state.lock().unwrap().clone()
    }

    /// As [`get`](Self::get), also after a panic while the state was held.
    pub fn get_poisoned(&self) -> State {
        self.state.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub fn place(&self, at: Vec3) {
        self.with(|s| s.pose.translation = at.into());
    }
}

impl Device for Puppet {
    fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    fn lifecycle(&self) -> Lifecycle {
        self.state.lock().unwrap().lifecycle
    }

    fn calibrate(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        let mut s = self.state.lock().unwrap();
        assert!(!s.panic, "a puppet's panic");
        if let Some(fault) = s.read {
            return Err(fault);
        }
        if !s.frozen {
            s.seq += 1;
        }
        Ok(Sample { pose: s.pose, joints: [0.0; 6], time_ns: now_ns, seq: s.seq, lost: 0, buttons: 0 })
    }

    fn write(&mut self, now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        let mut s = self.state.lock().unwrap();
        if let Some(fault) = s.write {
            return Err(fault);
        }
        (s.command, s.at_ns) = (*wrench, now_ns);
        Ok(Accepted { applied: *wrench, saturated: false })
    }

    fn zero(&mut self, now_ns: u64) {
        let mut s = self.state.lock().unwrap_or_else(|e| e.into_inner());
        (s.command, s.at_ns) = (Wrench::ZERO, now_ns);
        s.zeros += 1;
    }
}

/// Code of the test's own at each read, inside the servo thread: it gets the read's number, from 1, and may make the read fail.
pub type Hook = Box<dyn FnMut(u64) -> Option<ReadFault> + Send>;

/// A device with a hook.
pub struct Hooked {
    inner: Box<dyn Device>,
    hook: Hook,
    reads: u64,
}

impl Hooked {
    pub fn new(inner: Box<dyn Device>, hook: Hook) -> Box<Self> {
        Box::new(Self { inner, hook, reads: 0 })
    }
}

impl Device for Hooked {
    fn profile(&self) -> &Arc<Profile> {
        self.inner.profile()
    }

    fn lifecycle(&self) -> Lifecycle {
        self.inner.lifecycle()
    }

    fn calibrate(&mut self) -> Result<(), DeviceError> {
        self.inner.calibrate()
    }

    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        self.reads += 1;
        let fault = (self.hook)(self.reads);
        let sample = self.inner.read(now_ns);
        fault.map_or(sample, Err)
    }

    fn write(&mut self, now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        self.inner.write(now_ns, wrench)
    }

    fn zero(&mut self, now_ns: u64) {
        self.inner.zero(now_ns);
    }

    fn emergency(&self) -> Option<Arc<dyn Emergency>> {
        self.inner.emergency()
    }

    fn next_sample_ns(&self, now_ns: u64) -> Option<u64> {
        self.inner.next_sample_ns(now_ns)
    }

    fn delay_ns(&self) -> Option<u64> {
        self.inner.delay_ns()
    }
}

/// A simulated device whose true state and last command can be seen from outside.
pub struct Watched {
    profile: Arc<Profile>,
    inside: Arc<Mutex<Inside>>,
}

/// What can be seen of it.
pub struct Inside {
    pub device: SimulatedDevice,
    /// The last sample that was read.
    pub sample: Option<Sample>,
    /// The last command, as the servo gave it.
    pub asked: Wrench,
    /// What the motors were told last: the same, in their codes.
    pub command: actuators::Command,
}

impl Watched {
    pub fn new(device: SimulatedDevice) -> (Self, Arc<Mutex<Inside>>) {
        let profile = device.profile().clone();
        let inside = Arc::new(Mutex::new(Inside {
            device,
            sample: None,
            asked: Wrench::ZERO,
            command: actuators::Command::ZERO,
        }));
        (Self { profile, inside: inside.clone() }, inside)
    }
}

impl Device for Watched {
    fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }
    fn lifecycle(&self) -> Lifecycle {
        self.inside.lock().unwrap().device.lifecycle()
    }
    fn calibrate(&mut self) -> Result<(), DeviceError> {
        self.inside.lock().unwrap().device.calibrate()
    }
    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        let mut inside = self.inside.lock().unwrap();
        let sample = inside.device.read(now_ns)?;
        inside.sample = Some(sample);
        Ok(sample)
    }
    fn write(&mut self, now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        let mut inside = self.inside.lock().unwrap();
        let joints = inside.sample.map_or([0.0; 6], |s| s.joints);
        inside.asked = *wrench;
        inside.command = actuators::command(&self.profile, &joints, wrench).0;
        inside.device.write(now_ns, wrench)
    }
    fn zero(&mut self, now_ns: u64) {
        let mut inside = self.inside.lock().unwrap();
        (inside.asked, inside.command) = (Wrench::ZERO, actuators::Command::ZERO);
        inside.device.zero(now_ns);
    }
}
