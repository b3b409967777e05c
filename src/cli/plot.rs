//! `hapticd plot`: a recording as a picture.

pub mod draw;
pub mod reduce;
mod scale;

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
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub from: f64,
    /// End this many seconds after the first record [default: the whole recording]
    #[arg(long, value_name = "SECONDS")]
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
    let mut recording = Recording::open(&args.run)?;
    let header = recording.header().clone();
    let (from, to) = (args.from.max(0.0), args.to.unwrap_or(f64::INFINITY));
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
        eprintln!("hapticd: {notice}");
    }
    anyhow::ensure!(columns.records() > 0, "{}: no records between {from} s and {to} s", args.run.display());
    let name = args.run.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let out = args.out.unwrap_or_else(|| args.run.with_extension("png"));
    draw::draw(&out, args.size, &name, &header, &columns)
        .with_context(|| format!("cannot write {}", out.display()))?;
    super::out::line(format_args!("{} ({} ticks)", out.display(), columns.records()))?;
    Ok(super::exit::OK)
}
