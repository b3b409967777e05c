//! Prometheus text on loopback: just enough HTTP for a scraper.

use super::ipc::Server;
use super::names;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Scrapes at a time.
const MAX_SCRAPES: usize = 8;
/// Longest request, bytes.
const MAX_REQUEST: usize = 8192;
/// Time for a scrape.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers scrapes for ever.
pub async fn serve(server: Arc<Server>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(MAX_SCRAPES));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let server = server.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(PATIENCE, scrape(&server, stream)).await;
            drop(place);
        });
    }
}

async fn scrape(server: &Server, mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = stream.read(&mut chunk).await?;
        if n == 0 || head.len() + n > MAX_REQUEST {
            return Ok(());
        }
        head.extend_from_slice(&chunk[..n]);
    }
    let (status, body) = if head.starts_with(b"GET /metrics ") {
        ("200 OK", text(server))
    } else {
        ("404 Not Found", "only GET /metrics is served\n".into())
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn text(server: &Server) -> String {
    let mut out = String::new();
    for (name, value) in server.count() {
        // Maxima fall when the servo starts anew; everything else only rises.
        let kind = if name.contains("max") { "gauge" } else { "counter" };
        let _ = writeln!(out, "# TYPE hapticd_{name} {kind}\nhapticd_{name} {value}");
    }
    let mut gauge = |name: &str, value: f64| {
        let _ = writeln!(out, "# TYPE hapticd_{name} gauge\nhapticd_{name} {value}");
    };
    gauge("generation", server.scene.generation() as f64);
    gauge("armed", f64::from(u8::from(server.bridge.shared.owner.load(Relaxed) != 0)));
    gauge("sessions", server.sessions.list().len() as f64);
    if let Some(r) = server.bridge.shared.latest() {
        let norm = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        gauge("generation_felt", r.generation as f64);
        gauge("force_newton", norm(r.force));
        gauge("torque_newton_metre", norm(r.torque));
        gauge("depth_metre", r.depth);
        gauge("tick_compute_seconds", r.compute_ns as f64 * 1e-9);
        for (label, value, kind) in
            [("state", names::state(r.state), "state"), ("fault", names::fault(r.fault), "fault")]
        {
            let _ = writeln!(out, "# TYPE hapticd_{label} gauge\nhapticd_{label}{{{kind}=\"{value}\"}} 1");
        }
    }
    out
}
