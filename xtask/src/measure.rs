//! One run of a reading program: what it says it read, and what the system says it cost.

use crate::dataset::Topic;
use crate::failure::{During, Result, fail};
use crate::watchdog::Watchdog;
use crate::workspace::shown;
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use wait4::Wait4;

/// A program's own line of JSON (n, bytes, secs, first) and the system's account of its process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// From before connecting to the last record.
    pub(crate) seconds: f64,
    /// From before connecting to the first record.
    pub(crate) first: f64,
    /// Of the whole process, user and system.
    pub(crate) cpu: Duration,
    pub(crate) system: Duration,
    pub(crate) peak_memory: u64,
}

/// `ottla bench` of a whole topic; the broker comes from the environment.
pub(crate) fn ottla_bench(ottla: &Path, topic: Topic, records: u64, api: &str) -> Command {
    let mut bench = Command::new(ottla);
    bench.args(["bench", topic.name, "--count", &records.to_string(), "--api", api]);
    if topic.partitions == 1 {
        bench.args(["-p", "0"]);
    }
    bench
}

/// Runs a program that reads a topic and prints one line of JSON.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Sample> {
    let name = shown(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().during(|| format!("starting {name}"))?;
    let watchdog = Watchdog::set(child.id(), limit);
    let mut output = String::new();
    let read = child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut output));
    let used = child.wait4().during(|| format!("waiting for {name}"))?;
    if watchdog.call_off() {
        return fail(format!("{name} did not end within {} s", limit.as_secs()));
    }
    if !used.status.success() || !matches!(read, Some(Ok(_))) {
        return fail(format!("{name} failed ({})", used.status));
    }
    let sample = Sample {
        cpu: used.rusage.utime + used.rusage.stime,
        system: used.rusage.stime,
        peak_memory: used.rusage.maxrss,
        ..parse(&output).during(|| name)?
    };
    Ok(sample)
}

impl Sample {
    pub(crate) fn cpu_per_record(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.records as f64
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "n": self.records,
            "bytes": self.bytes,
            "secs": self.seconds,
            "first": self.first,
            "cpu_secs": self.cpu.as_secs_f64(),
            "system_secs": self.system.as_secs_f64(),
            "peak_memory": self.peak_memory,
        })
    }
}

/// What the program itself said; the system's part is still empty.
fn parse(output: &str) -> Result<Sample> {
    let Some(line) = output.lines().rfind(|line| line.starts_with('{')) else {
        return fail("it printed no line of JSON");
    };
    let told: Value = serde_json::from_str(line).during(|| format!("reading `{line}`"))?;
    let [records, bytes] = ["n", "bytes"].map(|name| told[name].as_u64());
    let [seconds, first] = ["secs", "first"].map(|name| told[name].as_f64());
    let (Some(records), Some(bytes), Some(seconds), Some(first)) = (records, bytes, seconds, first) else {
        return fail(format!("n, bytes, secs or first is missing in `{line}`"));
    };
    let (cpu, system, peak_memory) = (Duration::ZERO, Duration::ZERO, 0);
    Ok(Sample { records, bytes, seconds, first, cpu, system, peak_memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"client":"x","n":5,"bytes":500,"secs":0.25,"first":0.001}"#;

    #[test]
    fn the_line_of_json_is_found_among_others() {
        let sample = parse(&format!("hello\n{LINE}\nbye\n")).unwrap();
        assert_eq!((sample.records, sample.bytes), (5, 500));
        assert_eq!((sample.seconds, sample.first), (0.25, 0.001));
        assert!(parse("hello\n").is_err());
        assert!(parse(r#"{"n":5}"#).unwrap_err().to_string().contains("missing"));
    }

    #[test]
    fn a_process_is_charged_for_what_it_did() {
        let script = format!("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo '{LINE}'");
        let sample = run(Command::new("sh").args(["-c", &script]), Duration::from_secs(60)).unwrap();
        assert!(sample.cpu > Duration::from_millis(1) && sample.peak_memory > 100_000, "{sample:?}");
    }

    #[test]
    fn a_failing_and_a_hanging_program_are_told() {
        let failed = run(Command::new("sh").args(["-c", "exit 3"]), Duration::from_secs(60));
        assert!(failed.unwrap_err().to_string().contains("failed"));
        let hung = run(Command::new("sleep").arg("60"), Duration::from_millis(20));
        assert!(hung.unwrap_err().to_string().contains("did not end"));
    }
}
