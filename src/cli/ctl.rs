//! `hapticd ctl`: talks to a running service.

mod arm;
mod commands;
mod shell;
mod show;

use super::{numbers, out};
use crate::control::client::Client;
use anyhow::Context;
use clap::Subcommand;
use commands::{
    DeleteArgs, EffectArgs, LimitArgs, LoadArgs, MaterialArgs, MoveArgs, ObjectArgs, PlaceArgs, SetArgs,
    ToolArgs,
};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `hapticd ctl`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Control socket; without it /run/hapticd and $XDG_RUNTIME_DIR/hapticd are tried in turn
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// Longest silence of the service before ctl gives up, s; 0 waits for ever. Long builds are no silence
    #[arg(long, value_name = "S", global = true, default_value_t = 10.0, value_parser = numbers::seconds)]
    timeout: f64,
    /// Print answers as JSON, one object a line
    #[arg(long, global = true)]
    json: bool,
    /// Role of the device that is meant, where the service has several; without it the first one (tool and place: all; disarm: those
    /// that the session holds, else all)
    #[arg(long, value_name = "ROLE", global = true)]
    device: Option<String>,
    /// What to do
    #[command(subcommand)]
    command: Command,
}

/// What `ctl` can do.
#[derive(Debug, Subcommand)]
enum Command {
    /// Show the state of the service: device, force, faults, real-time status, sessions, counters
    Status,
    /// List materials, meshes, objects and effects
    Scene,
    /// Create a material, or change one (while it is touched, too)
    Material(MaterialArgs),
    /// Load a mesh file; ctl opens it and passes the descriptor
    Load(LoadArgs),
    /// Put a loaded mesh into the scene
    Object(ObjectArgs),
    /// Move an object
    Move(MoveArgs),
    /// Change an object: material, mesh, scale, how contact with it is computed, whether it may be moved
    Set(SetArgs),
    /// Delete an object, with --mesh or --material what no object uses, or with --effect an effect
    Delete(DeleteArgs),
    /// Create a viscosity, a constant force, a spring to a point or a magnet, or change one
    Effect(EffectArgs),
    /// Change the tool
    Tool(ToolArgs),
    /// Place the device's frame in the scene
    Place(PlaceArgs),
    /// Delete everything in the scene (admins)
    Wipe,
    /// Arm, show forces, and disarm on Ctrl-C; the force is yours as long as this runs
    Arm(arm::ArmArgs),
    /// As arm, taking the force from whoever has it
    Takeover(arm::ArmArgs),
    /// Show forces without arming
    Watch(arm::WatchArgs),
    /// Take the force away
    Disarm,
    /// Leave a latched fault
    Clear,
    /// Set the frame of a device whose arm is held in its calibration pose right now (docs/devices.md)
    Calibrate,
    /// Lower the limits on force, torque and velocity until the service restarts
    Limits(LimitArgs),
    /// Hold the tool while the device moves freely
    Clutch {
        /// on or off
        #[arg(value_parser = ["on", "off"])]
        state: String,
    },
    /// Make the device's present position this point of the scene
    Recentre {
        /// Point, m
        #[arg(value_name = "X,Y,Z", value_parser = numbers::list::<3>, allow_hyphen_values = true)]
        to: [f64; 3],
    },
    /// Start or stop a recording in the service's recording directory
    Record {
        /// on or off
        #[arg(value_parser = ["on", "off"])]
        state: String,
    },
    /// End the service (admins)
    Shutdown,
    /// Send any request: a method and its arguments as JSON
    Raw {
        /// Method
        method: String,
        /// Arguments
        #[arg(default_value = "{}")]
        params: String,
    },
    /// Read commands from standard input, all in one session
    Shell,
}

/// Where answers go and what new parts are.
struct Manner {
    json: bool,
    /// One-shot commands leave what they create; a shell's goes with its session.
    keep: bool,
    /// The device that is meant.
    device: Option<String>,
}

impl Manner {
    /// The arguments of a request about a device.
    fn of_device(&self, mut params: serde_json::Value) -> serde_json::Value {
        if let (Some(role), Some(map)) = (&self.device, params.as_object_mut()) {
            map.insert("device".into(), role.as_str().into());
        }
        params
    }

    /// Whoever names a device expects something of it.
    fn check(&self, command: &Command) -> anyhow::Result<()> {
        use Command as C;
        let takes = matches!(
            command,
            C::Tool(_)
                | C::Place(_)
                | C::Arm(_)
                | C::Takeover(_)
                | C::Watch(_)
                | C::Disarm
                | C::Clear
                | C::Calibrate
                | C::Limits(_)
                | C::Clutch { .. }
                | C::Recentre { .. }
                | C::Record { .. }
        );
        if self.device.is_some() && !takes {
            let text = "--device: this command is about no single device; leave it out";
            return Err(super::exit::Usage(text.into()).into());
        }
        Ok(())
    }
}

/// Runs `hapticd ctl`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let context = Manner { json: args.json, keep: true, device: args.device };
    context.check(&args.command)?;
    let patience = (args.timeout > 0.0).then(|| Duration::from_secs_f64(args.timeout));
    let client = Client::connect_within(args.socket.as_deref(), "hapticd ctl", None, None, patience)?;
    if !context.json {
        out::note(format_args!("{} (session {})", client.path().display(), client.welcome().session));
    }
    match args.command {
        Command::Shell => shell::run(client, context.json),
        Command::Arm(a) => arm::arm(client, &context, "arm", &a),
        Command::Takeover(a) => arm::arm(client, &context, "takeover", &a),
        Command::Watch(a) => arm::watch(client, &context, &a),
        command => {
            let mut client = client;
            execute(&mut client, &context, command)?;
            Ok(super::exit::OK)
        }
    }
}

/// Carries out a command that ends by itself.
fn execute(client: &mut Client, context: &Manner, command: Command) -> anyhow::Result<()> {
    use serde_json::json;
    let answer = match command {
        Command::Status => client.call("status", json!({}))?,
        Command::Scene => client.call("scene", json!({}))?,
        Command::Material(a) => client.call("material.set", a.params(context.keep))?,
        Command::Load(a) => {
            let file = crate::config::open_regular(&a.file)
                .with_context(|| format!("cannot open {}", a.file.display()))?;
            let id = client.start(
                "mesh.load",
                a.params(context.keep)?,
                Some(std::os::fd::AsRawFd::as_raw_fd(&file)),
            )?;
            client.finish(id)?
        }
        Command::Object(a) => client.call("object.create", a.params(context.keep))?,
        Command::Move(a) => client.call("object.update", a.params())?,
        Command::Set(a) => client.call("object.update", a.params())?,
        Command::Delete(a) => {
            let (method, params) = a.request();
            client.call(method, params).map_err(|e| a.explain(e))?
        }
        Command::Effect(a) => client.call("effect.set", a.params(context.keep))?,
        Command::Tool(a) => client.call("tool.set", context.of_device(a.params()))?,
        Command::Place(a) => client.call("device.place", context.of_device(a.params()))?,
        Command::Wipe => client.call("scene.clear", json!({}))?,
        Command::Disarm => client.call("disarm", context.of_device(json!({})))?,
        Command::Clear => client.call("clear_fault", context.of_device(json!({})))?,
        Command::Calibrate => client.call("calibrate", context.of_device(json!({})))?,
        Command::Limits(a) => client.call("limits", context.of_device(a.params()))?,
        Command::Clutch { state } => {
            client.call("clutch", context.of_device(json!({"held": state == "on"})))?
        }
        Command::Recentre { to } => client.call("recentre", context.of_device(json!({"to": to})))?,
        Command::Record { state } => {
            client.call("record", context.of_device(json!({"on": state == "on"})))?
        }
        Command::Shutdown => client.call("shutdown", json!({}))?,
        Command::Raw { method, params } => {
            let params = serde_json::from_str(&params)
                .map_err(|e| super::exit::Usage(format!("the arguments are not JSON: {e}")))?;
            client.call(&method, params)?
        }
        Command::Arm(_) | Command::Takeover(_) => client.call("arm", context.of_device(json!({})))?,
        Command::Watch(a) => return arm::glance(client, context, &a),
        Command::Shell => anyhow::bail!("a shell runs already"),
    };
    show::answer(&answer, context.json)
}
