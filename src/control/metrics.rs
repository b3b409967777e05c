//! Prometheus text on loopback: just enough HTTP for a scraper.

use super::ipc::Server;
use super::lobby::Lobby;
use super::names;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Scrapes at a time; of more, the one that has not asked for longest gives way.
const MAX_SCRAPES: usize = 16;
/// Longest request, bytes.
const MAX_REQUEST: usize = 8192;
/// Time for a scrape.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers scrapes for ever.
pub async fn serve(server: Arc<Server>, listener: TcpListener) {
    let lobby = Lobby::new(MAX_SCRAPES);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // TCP does not say who is there.
        let mut place = lobby.enter(0, 0);
        let server = server.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = tokio::time::timeout(PATIENCE, scrape(&server, stream)) => {}
                () = place.given_away() => {}
            }
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
    stream.write_all(answer(&head, || text(server)).as_bytes()).await?;
    stream.shutdown().await
}

/// The answer to a request that begins with `head`.
fn answer(head: &[u8], text: impl FnOnce() -> String) -> String {
    let line = head.split(|b| *b == b'\r').next().unwrap_or_default();
    let words: Vec<&str> = std::str::from_utf8(line).map(|l| l.split(' ').collect()).unwrap_or_default();
    let (method, target) = match words.as_slice() {
        [method, target, version] if version.starts_with("HTTP/") => (*method, *target),
        _ => ("", ""),
    };
    let only = || "only GET /metrics is served\n".to_owned();
    let (status, more, body) = match (method, target.split('?').next()) {
        ("", _) => ("400 Bad Request", "", only()),
        ("GET" | "HEAD", Some("/metrics")) => ("200 OK", "", text()),
        (_, Some("/metrics")) => ("405 Method Not Allowed", "Allow: GET, HEAD\r\n", only()),
        _ => ("404 Not Found", "", only()),
    };
    let length = body.len();
    let body = if method == "HEAD" { "" } else { &body };
    format!(
        "HTTP/1.1 {status}\r\n{more}Content-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: \
         close\r\n\r\n{body}"
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_decides_the_status() {
        for (line, status, length) in [
            ("GET /metrics HTTP/1.1", "200 OK", 3),
            ("GET /metrics?name=x HTTP/1.0", "200 OK", 3),
            ("HEAD /metrics HTTP/1.1", "200 OK", 0),
            ("POST /metrics HTTP/1.1", "405 Method Not Allowed", 28),
            ("DELETE /metrics HTTP/1.1", "405 Method Not Allowed", 28),
            ("GET / HTTP/1.1", "404 Not Found", 28),
            ("POST /metricsx HTTP/1.1", "404 Not Found", 28),
            ("GET /metrics", "400 Bad Request", 28),
            ("\u{16}\u{3}\u{1}", "400 Bad Request", 28),
        ] {
            let head = format!("{line}\r\nHost: x\r\n\r\n");
            let answer = answer(head.as_bytes(), || "x 1".into());
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            assert_eq!(head.lines().next(), Some(format!("HTTP/1.1 {status}").as_str()), "{line}");
            assert_eq!(body.len(), length, "{line}");
            // RFC 9110, section 15.5.6: a 405 names what is allowed.
            assert_eq!(head.contains("Allow: GET, HEAD"), status.starts_with("405"), "{line}");
        }
        assert!(answer(&[0xff, b'\r'], String::new).contains("400"));
    }
}
