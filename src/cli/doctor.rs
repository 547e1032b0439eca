//! `rdiag doctor`: what can be measured here, what not, why, and the least that would change it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::hanging::hanging;
use super::root::open_host;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::rights::{self, Phase, Work};
use rdiag_kernel::mechanism::symbols::reader;
use rdiag_kernel::mechanism::tracefs::private;
use rdiag_model::{Facts, Reason, Unavailable};
use rdiag_probes::ProbeDef;
use rdiag_report::escape::visible;
use rdiag_session as session;

/// Say what can be measured on this host, what not, why, and the least remedy.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Look at this tree instead of the machine.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let host = Arc::new(open_host(&args.root)?);
    // As `run` and `probe` do, so that what is said here is what they meet.
    private::mount_for_itself(&host);
    // What the facts tell was asked before.
    rights::narrow(Phase::Attaching(Work { probes: true, task_states: true }));
    let survey = session::survey(&host).map_err(Failure::io("asking the sources"))?;
    let mut out = describe(host.facts());
    out.push_str(&kernel(&host));
    let works = survey.iter().filter(|source| source.gaps.is_empty()).count();
    let _ = writeln!(out, "\n{works} of {} sources answer in full.\n", survey.len());
    let mut by_gap: BTreeMap<(Reason, &str), (&Unavailable, Vec<&str>)> = BTreeMap::new();
    for source in &survey {
        for (_, gap) in &source.gaps {
            let entry = by_gap.entry((gap.reason, &gap.why)).or_insert((gap, Vec::new()));
            if !entry.1.contains(&source.collector) {
                entry.1.push(source.collector);
            }
        }
    }
    section(&mut out, "Cannot be measured", by_gap.values().filter(|(gap, _)| gap.reason != Reason::NotApplicable));
    section(&mut out, "Does not apply here", by_gap.values().filter(|(gap, _)| gap.reason == Reason::NotApplicable));
    // The probes take some seconds, and what is known by then can be read meanwhile.
    let shown = |text: String| Text::lines(if ui.is_terminal() { hanging(&text, ui.style().width) } else { text });
    ui.print(&shown(out))?;
    let count = rdiag_probes::ALL.len();
    let bar = ui.bar(&Text::seen(format!("trying {count} probes inside the kernel")));
    let tried = session::survey_probes(&host, &|done| bar.set_position((done * 1000 / count) as u64));
    bar.finish_and_clear();
    ui.print(&shown(probes(&tried)))?;
    Ok(if works == 0 { Exit::Nothing } else { Exit::Done })
}

fn section<'g>(out: &mut String, title: &str, gaps: impl Iterator<Item = &'g (&'g Unavailable, Vec<&'g str>)>) {
    let mut gaps = gaps.peekable();
    if gaps.peek().is_none() {
        return;
    }
    let _ = writeln!(out, "{title}");
    for (gap, collectors) in gaps {
        let _ = writeln!(out, "  {} ({}): {}", collectors.join(", "), gap.reason.word(), visible(&gap.why));
        if let Some(remedy) = &gap.remedy {
            let _ = writeln!(out, "      → {}", visible(remedy));
        }
    }
    out.push('\n');
}

fn describe(facts: &Facts) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Host:       {}, {}, Linux {} ({})",
        visible(&facts.hostname),
        visible(&facts.os),
        visible(&facts.kernel),
        facts.arch
    );
    let place = if facts.virtual_machine { "a virtual machine" } else { "no sign of a virtual machine" };
    let container =
        facts.container.as_deref().map_or("no sign of a container".to_owned(), |how| format!("a container ({how})"));
    let _ = writeln!(out, "Runs in:    {place}; {container}; cgroup {}", facts.cgroup);
    let _ = writeln!(out, "CPUs:       {} online of {}", facts.cpus, facts.cpus_present);
    let user = if facts.uid == 0 { "root".to_owned() } else { format!("user id {}", facts.uid) };
    let rights = if facts.capabilities == 0 { "no capabilities".to_owned() } else { capabilities(facts.capabilities) };
    let _ = writeln!(out, "Running as: {user}, {rights}");
    out
}

/// Capabilities that let rdiag see more, by their bit.
const CAPABILITIES: [(u32, &str); 6] = [
    (2, "CAP_DAC_READ_SEARCH"),
    (19, "CAP_SYS_PTRACE"),
    (21, "CAP_SYS_ADMIN"),
    (34, "CAP_SYSLOG"),
    (38, "CAP_PERFMON"),
    (39, "CAP_BPF"),
];

fn capabilities(held: u64) -> String {
    let named = |wanted: bool| -> Vec<&str> {
        CAPABILITIES.iter().filter(|(bit, _)| (held >> bit & 1 == 1) == wanted).map(|(_, name)| *name).collect()
    };
    match (named(true).as_slice(), named(false).as_slice()) {
        (_, []) => "every capability that rdiag can use".to_owned(),
        ([], _) => format!("capabilities {held:#x}, none of which rdiag can use"),
        (held, missing) => format!("with {}, without {}", held.join(", "), missing.join(", ")),
    }
}

/// What decides whether programs may be loaded into the kernel, and what they can see.
fn kernel(host: &Host) -> String {
    let mut out = String::new();
    let btf = if host.exists("sys/kernel/btf/vmlinux") {
        "described (BTF in /sys/kernel/btf/vmlinux)"
    } else {
        "not described (no /sys/kernel/btf/vmlinux)"
    };
    let lockdown = match host.read_line("sys/kernel/security/lockdown") {
        Ok(modes) => modes.split(['[', ']']).nth(1).map_or(modes.clone(), str::to_owned),
        Err(_) => "not shown (no securityfs, or no lockdown)".to_owned(),
    };
    let paranoid = host.read_line("proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.unwrap_or_else(|_| "not shown".to_owned());
    let tracefs = tracefs(host);
    let _ = writeln!(out, "Kernel:     its types are {btf}; lockdown: {}", visible(&lockdown));
    let _ = writeln!(out, "            perf_event_paranoid: {}; tracefs: {tracefs}", visible(&paranoid));
    let confined = match reader::missing_layers() {
        Ok(missing) if missing.is_empty() => "without privileges, under Landlock and seccomp".to_owned(),
        Ok(missing) => format!("this is missing here: {}", missing.join(", ")),
        Err(error) => format!("which cannot be started ({error}), so programs have no function names"),
    };
    let _ = writeln!(out, "Symbols:    of programs are read by a process of their own: {}", visible(&confined));
    out
}

/// Where the kernel's events are described: where tracefs is mounted, its folder is not empty.
fn tracefs(host: &Host) -> String {
    let mut denied = false;
    for path in ["sys/kernel/tracing", "sys/kernel/debug/tracing"] {
        match host.list(path) {
            Ok(names) if !names.is_empty() && private::left().is_some() => {
                return format!("not mounted on this host; each run as root mounts it at /{path} for itself");
            }
            Ok(names) if !names.is_empty() => return format!("/{path}"),
            Ok(_) => {}
            Err(problem) => denied |= problem.reason == Reason::Denied,
        }
    }
    if denied { "may not be read by this user".to_owned() } else { "not mounted".to_owned() }
}

/// Which probes can run here: each was attached for a moment.
fn probes(tried: &[(&'static ProbeDef, Option<Unavailable>)]) -> String {
    let mut out = String::new();
    let can: Vec<&str> = tried.iter().filter(|(_, gap)| gap.is_none()).map(|(def, _)| def.id).collect();
    let _ = writeln!(out, "{} of {} probes inside the kernel can run here as they are.", can.len(), tried.len());
    if !can.is_empty() {
        let options = textwrap::Options::new(100).initial_indent("  ").subsequent_indent("  ");
        let _ = writeln!(out, "{}", textwrap::fill(&can.join(", "), options));
    }
    out.push('\n');
    let mut by_gap: BTreeMap<(Reason, &str), (&Unavailable, Vec<&str>)> = BTreeMap::new();
    for (def, gap) in tried {
        if let Some(gap) = gap {
            by_gap.entry((gap.reason, &gap.why)).or_insert((gap, Vec::new())).1.push(def.id);
        }
    }
    let idle = |gap: &Unavailable| gap.reason == Reason::NotApplicable;
    section(&mut out, "Probes that have to be told what to look at", by_gap.values().filter(|(gap, _)| idle(gap)));
    section(&mut out, "Probes that cannot run", by_gap.values().filter(|(gap, _)| !idle(gap)));
    out
}
