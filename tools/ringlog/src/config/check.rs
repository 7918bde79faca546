//! `ringlog config check`: reads a configuration as `serve` would, without starting anything.

use std::path::PathBuf;

use clap::Args;
use net_server::Watermarks;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Counted, print, tell};
use crate::serve::{Planned, plan};

/// What `ringlog config check` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog config check /etc/ringlog/ringlog.toml")]
pub(crate) struct Arguments {
    /// The configuration (TOML).
    #[arg(default_value = "ringlog.toml")]
    file: PathBuf,
    /// Print one object of JSON.
    #[arg(long)]
    json: bool,
}

/// Tells what would run, or all that is wrong.
///
/// # Errors
/// Something is wrong.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match plan(&arguments.file) {
        Ok(planned) if arguments.json => print(as_json(&planned)),
        Ok(planned) => print(as_text(&planned)),
        Err(faults) => refuse(arguments, faults),
    }
}

/// Tells each fault; the last is what the command ends with.
fn refuse(arguments: &Arguments, mut faults: Vec<Failure>) -> Result<(), Failure> {
    if arguments.json {
        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
        print(json!({ "ok": false, "faults": told }))?;
    }
    let count = faults.len();
    // What the file can't help comes last, and only where nothing else is wrong.
    faults.sort_by_key(|fault| fault.code() != Failure::USAGE);
    if count == 1 {
        return Err(faults.swap_remove(0));
    }
    for fault in &faults {
        tell(format_args!("ringlog: {fault}"));
    }
    let summary = format!("{} in {}", Counted(count as u64, "fault"), arguments.file.display());
    Err(match faults.first() {
        Some(Failure::Machine(_)) => Failure::machine(summary),
        Some(Failure::Usage(_) | Failure::Failed(_)) | None => Failure::usage(summary),
    })
}

fn as_text(planned: &Planned) -> String {
    let Watermarks { soft, hard } = planned.watermarks;
    let mut lines = vec![
        "ok".to_owned(),
        format!("node      {}", planned.node),
        format!("routing   {}", planned.routing.name()),
    ];
    let shards = planned.cpus.iter().zip(&planned.addresses).enumerate();
    lines
        .extend(shards.map(|(shard, (cpu, addresses))| {
            format!("shard {shard:<3} CPU {cpu}, {}", addresses.join(", "))
        }));
    lines.push(format!("data      {}", planned.data_folder.display()));
    lines.push(format!("memory    {}", planned.memory));
    lines.extend(planned.memory.shortage().map(|shortage| format!("warning   {shortage}")));
    lines.push(format!("drive     no records below {soft} free, no topics below {hard}"));
    lines.extend(planned.changed.iter().map(|(name, value)| format!("setting   {name} = {value}")));
    lines.join("\n")
}

fn as_json(planned: &Planned) -> Value {
    let shards = planned.cpus.iter().zip(&planned.addresses);
    let shards: Vec<_> = shards.map(|(cpu, listen)| json!({ "cpu": cpu, "listen": listen })).collect();
    let changed = planned.changed.iter().map(|(name, value)| (name.clone(), json!(value)));
    json!({
        "ok": true,
        "node_id": planned.node,
        "routing": planned.routing.name(),
        "data_dir": planned.data_folder,
        "memory": planned.memory.as_json(),
        "disk_soft_watermark": planned.watermarks.soft.to_string(),
        "disk_hard_watermark": planned.watermarks.hard.to_string(),
        "shards": shards,
        "settings": changed.collect::<serde_json::Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// What is made of a file with this text: the output, or the faults.
    fn planned(text: &str) -> Result<Planned, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ringlog.toml");
        fs::write(&path, text).unwrap();
        plan(&path).map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    fn first_cpu() -> u32 {
        tuning::usable_cores(Path::new("/")).unwrap().cpus[0].id
    }

    #[test]
    fn what_would_run_is_told() {
        let cpu = first_cpu();
        let text = format!(
            "node_id = 7\ncpus = \"{cpu},{cpu}\"\nlisten = \"127.0.0.1:19092\"\n[kafka]\nnum.partitions = 3\n"
        );
        let told = as_text(&planned(&text).unwrap());
        let expected = format!(
            "ok\nnode      7\nrouting   shard\nshard 0   CPU {cpu}, PLAINTEXT://127.0.0.1:19092\nshard 1   CPU {cpu}, PLAINTEXT://127.0.0.1:19093\n\
             data      ringlog-data\nmemory    {}\ndrive     no records below 5%, at most 5GiB free, no topics below 1%, at most 1GiB\n\
             setting   num.partitions = 3",
            planned(&text).unwrap().memory,
        );
        assert_eq!(told, expected);
        let one_port = as_text(&planned(&format!("routing = \"node\"\n{text}")).unwrap());
        assert!(
            one_port.contains(&format!("shard 1   CPU {cpu}, PLAINTEXT://127.0.0.1:19092\n")),
            "{one_port}"
        );
        assert_eq!(as_json(&planned(&text).unwrap())["settings"]["num.partitions"], "3");
    }

    #[test]
    fn each_fault_is_told_and_not_the_first_alone() {
        let text = "node_id = -1\nlisten = \"h:x\"\nrouting = \"never\"\ncpus = \"8191\"\ndata_dri = \"x\"\n\
                    [kafka]\nnum.partitions = 0\nlog.segment.byte = 5\n\"log.roll.ms\" = 1\nlog.roll.ms = 2\n\
                    log.dirs = \"/no/such,/no/such\"\n";
        let faults = planned(text).unwrap_err();
        for part in [
            "setting `node_id`: -1 is outside",
            "setting `listen`: ",
            "setting `routing`: ",
            "this process may not use CPU 8191",
            "did you mean `data_dir`?",
            "setting `num.partitions`: `0` is not a count from 1 to 10000",
            "did you mean `log.segment.bytes`?",
            "`log.roll.ms` is given twice",
            "log.dirs names a folder twice: ",
        ] {
            assert_eq!(faults.iter().filter(|fault| fault.contains(part)).count(), 1, "{part}: {faults:#?}");
        }
        assert_eq!(faults.len(), 9, "{faults:#?}");
    }
}
