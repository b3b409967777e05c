//! `hapticd plot`: a recording as a picture.

pub mod draw;
pub mod reduce;
mod scale;

use super::exit::Usage;
use crate::recording::Recording;
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `hapticd plot`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Recording to plot (MCAP, from `demo`, `simulate`, `run` or `ctl record`)
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Picture to write [default: RUN with the ending .png]
    #[arg(long, short, value_name = "PNG")]
    pub out: Option<PathBuf>,
    /// Begin this many seconds after the first record
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = super::numbers::not_negative)]
    pub from: f64,
    /// End this many seconds after the first record [default: the whole recording]
    #[arg(long, value_name = "SECONDS", value_parser = super::numbers::not_negative)]
    pub to: Option<f64>,
    /// Size of the picture in pixels
    #[arg(long, value_name = "WxH", default_value = "1600x1280", value_parser = parse_size)]
    pub size: (u32, u32),
}

fn parse_size(text: &str) -> Result<(u32, u32), String> {
    let (w, h) = text.split_once('x').ok_or("give WIDTHxHEIGHT, for instance 1600x1280")?;
    let side = |t: &str| t.trim().parse::<u32>().map_err(|e| format!("'{t}': {e}"));
    match (side(w)?, side(h)?) {
        (w @ 480..=8192, h @ 480..=8192) => Ok((w, h)),
        _ => Err("each side must be 480 to 8192 pixels".into()),
    }
}

/// Runs `hapticd plot`.
///
/// # Errors
/// The recording cannot be read, holds nothing in the range, or the picture cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (from, to) = (args.from, args.to.unwrap_or(f64::INFINITY));
    if from > to {
        return Err(Usage(format!("--from {from} comes after --to {to}")).into());
    }
    let out = args.out.unwrap_or_else(|| args.run.with_extension("png"));
    draw::must_be_png(&out).map_err(|e| Usage(format!("{}: {e}", out.display())))?;
    super::outputs::keep_apart(&[("RUN", &args.run)], &[("the picture", &out)])?;
    let mut recording = Recording::open(&args.run)?;
    let header = recording.header().clone();
    let mut columns = reduce::Columns::new(args.size.0 as usize, header.period_ns);
    let mut first = None;
    for record in recording.by_ref() {
        let start = *first.get_or_insert(record.planned_ns);
        let seconds = record.planned_ns.saturating_sub(start) as f64 * 1e-9;
        if seconds >= from && seconds <= to {
            columns.push(&record);
        }
    }
    if let Some(notice) = recording.notice() {
        super::out::note(format_args!("hapticd: {notice}"));
    }
    anyhow::ensure!(columns.records() > 0, "{}: no records {}", args.run.display(), range(from, args.to));
    let name = args.run.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    draw::draw(&out, args.size, &name, &header, &columns)
        .with_context(|| format!("cannot write {}", out.display()))?;
    let ticks = crate::geometry::import::count(columns.records() as usize, "tick");
    super::out::line(format_args!("{} ({ticks})", out.display()))?;
    Ok(super::exit::OK)
}

fn range(from: f64, to: Option<f64>) -> String {
    match to {
        Some(to) => format!("between {from} s and {to} s"),
        None if from > 0.0 => format!("after {from} s"),
        None => "in it".into(),
    }
}
