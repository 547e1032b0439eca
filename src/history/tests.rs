//! Blocks and tails as a whole: what goes in comes out, and damage costs no more than it must.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::numbers::tests::number;
use super::*;
use rdiag_model::recording::{CollectorRecord, LogLine, Number, Process, ProcessPoint, Series, Tool};
use rdiag_model::{Facts, RawUnit, Reason, SeriesKind, Unavailable};

fn header() -> Header {
    Header {
        format_version: FORMAT_VERSION,
        tool: Tool { name: "rdiag".into(), version: "0.1.0".into() },
        host: Facts::default(),
        boot: "0f0e0d0c".into(),
        wall_micros: 1_760_000_000_000_000,
        monotonic: 1234.5,
        boottime: 2234.5,
        seconds: 595.0,
        interval_seconds: 5.0,
        recorded_every: None,
        stretched: BTreeMap::from([("processes".into(), 2)]),
        settings: BTreeMap::new(),
        cost: Cost::default(),
    }
}

/// A host with some devices that did something.
fn block(samples: usize) -> Block {
    let times: Vec<f64> = (0..samples).map(|at| at as f64 * 5.0 + (at % 3) as f64 * 0.000_217).collect();
    let series = |name: &str, instance: Option<String>, step: u64| Series {
        name: name.into(),
        instance,
        kind: SeriesKind::Counter,
        unit: RawUnit::Sectors,
        values: (0..samples).map(|at| Some(Number::Whole(1_000_000 + step * at as u64 + at as u64 % 7))).collect(),
    };
    let mut disks = CollectorRecord { times: times.clone(), ..CollectorRecord::default() };
    for disk in 0..20 {
        disks.series.push(series("diskstats.read", Some(format!("vd{disk:02}")), disk));
        disks.labels.insert(format!("vd{disk:02}"), BTreeMap::from([("kind".into(), "flash".into())]));
    }
    disks.gaps.insert("diskstats.x|vd1".into(), Unavailable::new(Reason::Absent, "it is not there"));
    let load = CollectorRecord {
        times: times.clone(),
        series: vec![Series {
            name: "loadavg.one".into(),
            instance: None,
            kind: SeriesKind::Gauge,
            unit: RawUnit::Count,
            values: (0..samples).map(|at| (at % 5 != 2).then_some(Number::Real(at as f64 / 100.0))).collect(),
        }],
        log: vec![LogLine {
            gone: false,
            class: "oom".into(),
            seconds_since_boot: 3.5,
            in_window: true,
            subject: Some("x\u{1b}".into()),
            text: "Out of memory".into(),
        }],
        ..CollectorRecord::default()
    };
    let mut processes = CollectorRecord { times, ..CollectorRecord::default() };
    for pid in 1..30_u32 {
        let point = |at: usize| ProcessPoint {
            at: at as u16,
            state: if pid == 7 { 'D' } else { 'S' },
            utime: 100 + at as u64 * u64::from(pid),
            resident_pages: 1000,
            threads: 3,
            run_ns: Some(at as u64 * 1_000_003),
            read_bytes: (pid % 2 == 0).then_some(at as u64 * 4096),
            ..ProcessPoint::default()
        };
        processes.processes.push(Process {
            pid,
            ppid: 1,
            start_ticks: u64::from(pid) * 100,
            comm: format!("worker/{pid}"),
            uid: (pid % 3 > 0).then_some(pid),
            cgroup: Some("/system.slice/x.service".into()),
            other_cgroups: vec!["/a".into(); (pid % 2) as usize],
            command: (pid < 5).then(|| "worker --all".into()),
            first: 0,
            last: (samples - 1) as u16,
            points: (0..samples).step_by(1 + pid as usize % 4).map(point).collect(),
        });
    }
    let collectors = [("diskstats", disks), ("loadavg", load), ("processes", processes)];
    let collectors = collectors.into_iter().map(|(id, record)| (id.to_owned(), rounded(record))).collect();
    Block { header: header(), collectors, idle: vec![(400, 90_000), (4_000_000, 8), (401, 90_001)] }
}

/// Times as they are kept.
fn rounded(mut record: CollectorRecord) -> CollectorRecord {
    record.times = tail::rounded(&record.times);
    record
}

#[test]
fn a_block_comes_back_as_it_was() {
    for samples in [1, 2, 120] {
        let block = block(samples);
        let bytes = write_block(&block);
        let (read, damage) = read_block(&bytes).unwrap();
        assert_eq!((read, damage), (block, vec![]), "{samples}");
        assert_eq!(header_of(&bytes).unwrap(), header());
    }
}

#[test]
fn a_sample_more_takes_few_bytes() {
    let size = |samples| write_block(&block(samples)).len();
    let (short, long) = (size(20), size(120));
    // 21 series and 29 processes that all do something.
    assert!((long - short) / 100 < 120, "{short} and {long} bytes");
}

#[test]
fn a_bit_anywhere_costs_one_column_and_says_which() {
    let whole = block(12);
    let bytes = write_block(&whole);
    for bit in (0..bytes.len() * 8).step_by(29) {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (read, damage) = read_block(&bytes).unwrap();
        assert_eq!(damage.len(), 1, "bit {bit}: {damage:?}");
        assert_eq!(read.header, whole.header, "it stands at both ends");
        let differ = |id: &&String| {
            let (whole, read) = (&whole.collectors[*id], read.collectors.get(*id));
            let Some(read) = read else { return true };
            // A column is lost or whole, never changed.
            assert!(read.series.is_empty() || read.series == whole.series);
            assert!(read.processes.is_empty() || read.processes == whole.processes);
            assert!(read.labels.is_empty() || read.labels == whole.labels);
            read != whole
        };
        assert!(whole.collectors.keys().filter(differ).count() <= 1, "bit {bit}");
    }
}

#[test]
fn a_block_that_is_cut_off_anywhere_says_so() {
    let bytes = write_block(&block(12));
    for length in 1..bytes.len() {
        let is_whole = read_block(&bytes[..length]).is_ok_and(|(_, damage)| damage.is_empty());
        assert!(!is_whole, "{length} of {} bytes", bytes.len());
    }
}

/// The tail of a block, sample by sample, and where each ends.
fn tail(block: &Block) -> (Vec<u8>, Vec<usize>) {
    let (mut tail, mut bytes) = Tail::begin(&block.header);
    let samples = block.collectors["diskstats"].times.len();
    let mut ends = vec![bytes.len()];
    for number in 0..samples {
        let cut = |record: &CollectorRecord| {
            let mut record = record.clone();
            record.times.truncate(number + 1);
            record.series.iter_mut().for_each(|series| series.values.truncate(number + 1));
            let all = std::mem::take(&mut record.processes);
            let news = all.into_iter().filter_map(|mut process| {
                process.points.retain(|point| usize::from(point.at) == number);
                (!process.points.is_empty()).then_some(process)
            });
            let news: Vec<Process> = news.collect();
            (record, news)
        };
        for (id, record) in &block.collectors {
            let (record, processes) = cut(record);
            tail.add(&Sample { id, record: &record, processes: &processes });
        }
        bytes.extend(tail.end(number));
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// A block as a tail gives it: who does nothing is known by a block alone.
fn without_idle(block: Block) -> Block {
    Block { idle: Vec::new(), ..block }
}

#[test]
fn a_tail_gives_the_block_that_it_would_have_become() {
    let block = without_idle(block(40));
    let (bytes, ends) = tail(&block);
    assert_eq!(read_tail(&bytes).unwrap(), (block, vec![]));
    let per_sample = (ends[40] - ends[1]) / 39;
    assert!(per_sample < 700, "{per_sample} bytes for a sample of 21 series and 29 processes");
}

#[test]
fn of_a_torn_tail_the_last_sample_is_lost() {
    let whole = without_idle(block(10));
    let (bytes, ends) = tail(&whole);
    for length in ends[0]..bytes.len() {
        let (read, damage) = read_tail(&bytes[..length]).unwrap();
        let samples = ends.iter().filter(|end| **end <= length).count() - 1;
        let disks = read.collectors.get("diskstats").map_or(0, |record| record.times.len());
        assert_eq!(disks, samples, "{length} of {}", bytes.len());
        // The first sample brings names as well, in pieces of their own.
        assert!(length < ends[1] || ends.contains(&length) || !damage.is_empty());
        for (id, record) in &read.collectors {
            for (read, whole) in record.series.iter().zip(&whole.collectors[id].series) {
                assert_eq!(read.values, whole.values[..samples], "{id}");
            }
        }
    }
}

#[test]
fn a_bit_in_a_tail_costs_one_sample_but_for_names() {
    let whole = without_idle(block(10));
    let (bytes, ends) = tail(&whole);
    for bit in (ends[1] * 8..bytes.len() * 8).step_by(41) {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (read, damage) = read_tail(&bytes).unwrap();
        assert_eq!(damage.len(), 1, "bit {bit}: {damage:?}");
        assert!(read.collectors["diskstats"].times.len() >= 9);
    }
    for bit in (ends[0] * 8..ends[1] * 8).step_by(41) {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (_, damage) = read_tail(&bytes).unwrap();
        assert!(!damage.is_empty());
    }
}

/// Pieces of a small block and tail, as fuzzing begins with them: `RDIAG_BLESS=1` writes them.
#[test]
#[expect(clippy::disallowed_methods, reason = "files of the source tree")]
fn what_fuzzing_begins_with_is_what_the_recorder_writes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/history");
    let small = without_idle(block(3));
    let pieces = |bytes: &[u8]| frame::read(bytes, &mut Vec::new());
    let (tail, _) = tail(&small);
    let all = [("block", pieces(&write_block(&small))), ("tail", pieces(&tail))];
    for (name, pieces) in all {
        for (at, piece) in pieces.into_iter().enumerate().filter(|(_, piece)| piece.kind != frame::Kind::Header) {
            let kind = (0..5).find(|kind| frame::Kind::of(*kind) == piece.kind).unwrap();
            let bytes = [&[kind], piece.content.as_slice()].concat();
            let path = folder.join(format!("{name}-{at}.column"));
            if std::env::var_os("RDIAG_BLESS").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, &bytes).unwrap();
            }
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{}: write it again by RDIAG_BLESS=1", path.display());
        }
    }
}

#[test]
fn what_is_no_block_says_so_and_a_newer_one_names_its_version() {
    for foreign in [&b""[..], b"{}", &[0x1f, 0x8b, 8], &[0xf5; 3000]] {
        assert!(read_block(foreign).unwrap_err().contains("no block"), "{foreign:?}");
        assert!(read_tail(foreign).unwrap_err().contains("no tail"), "{foreign:?}");
    }
    let newer = write_block(&Block { header: Header { format_version: 9, ..header() }, ..block(1) });
    assert!(read_block(&newer).unwrap_err().contains("format version 9, and this rdiag reads 1"));
    let odd = write_block(&Block { header: Header { monotonic: -1.0, ..header() }, ..block(1) });
    assert!(read_block(&odd).unwrap_err().contains("no clock"));
}

fn record() -> impl Strategy<Value = CollectorRecord> {
    let process = (any::<u32>(), any::<u64>(), "\\PC{0,12}", proptest::option::of(any::<u32>()), any::<[u64; 3]>());
    let processes = prop::collection::vec(process, 0..4);
    (1_usize..6).prop_flat_map(move |samples| {
        let values = prop::collection::vec(number(), samples);
        let series = prop::collection::vec(("[a-c]{1,3}", proptest::option::of("\\PC{0,4}"), values), 0..6);
        let times = prop::collection::vec(-1e6..1e6_f64, samples);
        (times, series, processes.clone()).prop_map(|(times, series, processes)| CollectorRecord {
            times: tail::rounded(&times),
            series: series
                .into_iter()
                .map(|(name, instance, values)| Series {
                    name,
                    instance,
                    kind: SeriesKind::Gauge,
                    unit: RawUnit::Ratio,
                    values,
                })
                .collect(),
            processes: processes
                .into_iter()
                .map(|(pid, start_ticks, comm, uid, [utime, stime, bytes])| Process {
                    pid,
                    start_ticks,
                    comm,
                    uid,
                    first: pid as u16,
                    last: utime as u16,
                    points: vec![ProcessPoint {
                        at: pid as u16,
                        state: 'Z',
                        utime,
                        stime,
                        write_bytes: Some(bytes),
                        ..ProcessPoint::default()
                    }],
                    ..Process::default()
                })
                .collect(),
            ..CollectorRecord::default()
        })
    })
}

proptest! {
    #[test]
    fn any_block_comes_back(a in record(), b in record(), idle: Vec<(u32, u64)>) {
        // Who did nothing belongs to the table of processes.
        let collectors = BTreeMap::from([("a".to_owned(), a), (Block::PROCESSES.to_owned(), b)]);
        let block = Block { header: header(), collectors, idle };
        let (read, damage) = read_block(&write_block(&block)).unwrap();
        prop_assert!(damage.is_empty(), "{:?}", damage);
        prop_assert_eq!(format!("{read:?}"), format!("{block:?}"));
    }

    #[test]
    fn columns_of_strangers_are_read_or_refused(content: Vec<u8>) {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, frame::Kind::Header, "", &serde_json::to_vec(&header()).unwrap());
        let head = bytes.len();
        for kind in [frame::Kind::Series, frame::Kind::Text, frame::Kind::Processes, frame::Kind::Sample] {
            bytes.truncate(head);
            frame::write(&mut bytes, kind, "x", &content);
            let _ = (read_block(&bytes).unwrap(), read_tail(&bytes).unwrap());
        }
    }
}
