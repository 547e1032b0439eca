use super::sample::{core_ok, finding, report, saturated, unknown};
use rdiag_model::finding::Levels;
use rdiag_model::{Confidence, Culprit, Resource, Status};

fn headline(findings: Vec<rdiag_model::Finding>) -> (Status, String) {
    let verdict = report(findings).verdict;
    (verdict.status, verdict.headline.to_string())
}

#[test]
fn the_headline_names_the_bottleneck_the_culprit_and_its_share() {
    let (status, headline) = headline(saturated());
    assert_eq!(status, Status::Critical);
    assert_eq!(
        headline,
        "Bottleneck: CPU saturation — threads waited 70.0% of the time they were runnable; \
         stress-ng (8 processes) used 98.0% of the busy CPU time"
    );
}

#[test]
fn the_headline_names_the_code_that_a_finding_of_the_same_resource_knows() {
    let mut findings = saturated();
    let mut code = finding("cpu.utilization.hottest_code", Status::Info);
    code.culprit = Some(Culprit {
        kind: "function".into(),
        name: "hot".into(),
        pids: Vec::new(),
        count: 1,
        share: Some(0.7),
        value: None,
        unit: None,
        metric: Some("profile.function.ratio".into()),
        deed: super::sample::deed_of("profile.function.ratio"),
        labels: [("object".to_owned(), "app".to_owned())].into(),
    });
    findings.push(code.clone());
    let (_, told) = headline(findings.clone());
    let expected = "98.0% of the busy CPU time; function hot of app took 70.0% of the sampled CPU time";
    assert!(told.ends_with(expected), "{told}");
    findings.last_mut().unwrap().culprit.as_mut().unwrap().name = "[no symbols: app]".into();
    let (_, told) = headline(findings.clone());
    assert!(told.ends_with("; code without symbols of app took 70.0% of the sampled CPU time"), "{told}");
    findings.last_mut().unwrap().culprit.as_mut().unwrap().name = "[no symbols: compiled at run time]".into();
    let (_, told) = headline(findings.clone());
    assert!(told.ends_with("; code compiled at run time took 70.0% of the sampled CPU time"), "{told}");
    findings.last_mut().unwrap().culprit.as_mut().unwrap().name = "[no symbols: unknown]".into();
    let (_, told) = headline(findings);
    assert!(told.ends_with("; code of unknown origin took 70.0% of the sampled CPU time"), "{told}");
    let mut findings = saturated();
    findings.push(rdiag_model::Finding { resource: Resource::Disk, ..code });
    assert!(!headline(findings).1.contains("function hot"), "the code of another resource");
}

#[test]
fn a_run_with_unknown_cells_is_never_all_clear() {
    let mut findings = core_ok();
    findings.push(unknown("hardware.errors", "EDAC is not loaded"));
    let (status, headline) = headline(findings);
    assert_eq!(status, Status::Ok);
    assert_eq!(headline, "No bottleneck found in what could be measured; 1 of 5 checks could not be made");
}

#[test]
fn a_quiet_run_that_did_not_see_a_core_queue_is_inconclusive() {
    let mut findings = core_ok();
    findings.retain(|f| f.resource != Resource::Memory);
    findings.push(unknown("memory.saturation", "PSI is switched off"));
    let report = report(findings);
    assert_eq!(report.verdict.status, Status::Unknown);
    assert!(report.verdict.headline.title.starts_with("Inconclusive: memory saturation could not be measured"));
    assert!(report.verdict.limits.iter().any(|limit| limit.contains("boot with psi=1")), "{:?}", report.verdict.limits);
}

#[test]
fn a_run_that_measured_nothing_is_inconclusive_and_one_without_findings_too() {
    assert!(headline(vec![unknown("cpu.saturation", "/proc is empty")]).1.contains("nothing could be measured (/proc"));
    assert_eq!(headline(Vec::new()).0, Status::Unknown);
}

#[test]
fn a_complete_quiet_run_says_so_and_info_is_no_bottleneck() {
    assert_eq!(headline(core_ok()), (Status::Ok, "No bottleneck found: 4 checks made, none fired".into()));
    let mut findings = core_ok();
    findings.push(finding("cpu.utilization", Status::Info));
    let (status, headline) = headline(findings);
    assert_eq!(status, Status::Info);
    assert!(headline.starts_with("No bottleneck found") && headline.contains("CPU utilization"), "{headline}");
}

#[test]
fn errors_lead_and_the_bottleneck_is_named_all_the_same() {
    let mut cpu = finding("cpu.saturation", Status::Warning);
    cpu.culprit = Some(super::sample::stress());
    let (_, headline) = headline(vec![cpu, finding("disk.errors", Status::Warning)]);
    assert!(headline.starts_with("Errors: disk — "), "{headline}");
    assert!(headline.contains("Bottleneck: CPU saturation; stress-ng (8 processes)"), "{headline}");
}

#[test]
fn the_title_is_whole_whatever_the_name_in_it() {
    let mut finding = finding("filesystem.saturation", Status::Warning);
    finding.instance = Some("/srv/a — b; c".into());
    let headline = report(vec![finding]).verdict.headline;
    assert_eq!(headline.title, "Bottleneck: file system saturation (/srv/a — b; c)");
    assert_eq!(headline.detail, "the summary of filesystem.saturation");
}

#[test]
fn findings_come_worst_first_then_errors_then_what_can_be_trusted() {
    let mut doubtful = finding("network.saturation", Status::Warning);
    doubtful.confidence = Confidence::Low;
    let report = report(vec![
        finding("cpu.utilization", Status::Ok),
        unknown("locks.saturation", "needs tracing"),
        doubtful,
        finding("disk.utilization", Status::Warning),
        finding("cpu.saturation", Status::Warning),
        finding("memory.saturation", Status::Warning),
        finding("disk.errors", Status::Warning),
        finding("cgroup.saturation", Status::Critical),
    ]);
    let ids: Vec<&str> = report.findings.iter().map(|f| f.id.as_str()).collect();
    let expected = [
        "cgroup.saturation",
        "disk.errors",
        "memory.saturation",
        "cpu.saturation",
        "network.saturation",
        "disk.utilization",
        "locks.saturation",
        "cpu.utilization",
    ];
    assert_eq!(ids, expected);
}

#[test]
fn of_many_instances_the_worst_value_stands_first_also_where_low_is_bad() {
    let instance = |name: &str, value: f64| {
        let mut finding = finding("disk.saturation", Status::Warning);
        finding.instance = Some(name.into());
        finding.value = Some(value);
        finding
    };
    let first = |low_is_bad: bool| {
        let mut findings = [instance("a", 0.3), instance("b", 0.6)];
        let levels = Levels { low_is_bad, ..Levels::default() };
        super::order::sort(&mut findings, &[("disk.saturation".to_owned(), levels)].into());
        findings.first().unwrap().instance.clone().unwrap()
    };
    assert_eq!(first(false), "b");
    assert_eq!(first(true), "a");
}

#[test]
fn of_shares_of_one_whole_the_larger_leads_and_what_cannot_be_compared_goes_by_name() {
    let share = |id: &str, value: f64| rdiag_model::Finding { value: Some(value), ..finding(id, Status::Warning) };
    let order = |slab: f64, tables: f64| {
        let mut findings = [
            share("memory.utilization.swap", 0.99),
            share("memory.utilization.slab", slab),
            share("memory.utilization.maps", 0.5),
            share("memory.utilization.page_tables", tables),
        ];
        super::order::sort(&mut findings, &std::collections::BTreeMap::new());
        findings.map(|finding| finding.id.rsplit('.').next().unwrap_or_default().to_owned())
    };
    assert_eq!(order(0.27, 0.12), ["maps", "slab", "page_tables", "swap"]);
    assert_eq!(order(0.26, 0.31), ["maps", "page_tables", "slab", "swap"]);
}

#[test]
fn what_fired_for_one_instance_is_not_ruled_out_by_another() {
    let mut vda = finding("disk.saturation", Status::Critical);
    vda.instance = Some("vda".into());
    let mut vdb = finding("disk.saturation", Status::Ok);
    vdb.instance = Some("vdb".into());
    let report = report(vec![vda, vdb, finding("disk.errors", Status::Ok)]);
    let disk = report.ruled_out.iter().find(|out| out.resource == Resource::Disk).unwrap();
    assert_eq!(disk.sentences, ["The summary of disk.errors."]);
    assert!(!disk.complete);
}

#[test]
fn a_figure_beyond_its_threshold_rules_nothing_out_though_another_condition_kept_the_rule_quiet() {
    let mut waits = finding("cpu.saturation", Status::Ok);
    waits.value = Some(0.75);
    let report = report(vec![waits, finding("cpu.saturation.pressure", Status::Ok)]);
    let cpu = report.ruled_out.iter().find(|out| out.resource == Resource::Cpu).unwrap();
    assert_eq!(cpu.sentences, ["The summary of cpu.saturation.pressure."]);
    assert!(!cpu.complete);
}

#[test]
fn the_headline_names_no_function_that_only_ends_a_stretch_without_interrupts() {
    let code = |name: &str| {
        let mut code = finding("cpu.utilization.kernel_code", Status::Info);
        code.culprit = Some(rdiag_model::Culprit {
            kind: "function".into(),
            name: name.into(),
            pids: Vec::new(),
            count: 1,
            share: Some(0.27),
            value: None,
            unit: None,
            metric: None,
            deed: rdiag_model::DeedOfMetric::default(),
            labels: [].into(),
        });
        headline(vec![finding("cpu.saturation", Status::Critical), code]).1
    };
    assert!(code("copy_page").contains("copy_page"), "{}", code("copy_page"));
    assert!(!code("_raw_spin_unlock_irqrestore").contains("unlock"));
}

#[test]
fn gaps_with_one_cause_are_told_once_with_the_checks_they_cost() {
    let report = report(saturated());
    let [group] = report.coverage.groups.as_slice() else { panic!("{:?}", report.coverage.groups) };
    assert_eq!(group.metrics, ["cpu.pressure.ratio"]);
    assert_eq!(group.rules, ["memory.saturation"]);
    assert_eq!(report.coverage.checks.unknown, 1);
}

#[test]
fn the_top_table_has_the_shares_of_all_and_the_curve_its_thresholds() {
    let report = report(saturated());
    let top = report.top.first().unwrap();
    assert_eq!((top.rows.len(), top.rows.first().unwrap().name.as_str()), (3, "stress-ng"));
    let plot = report.plots.first().unwrap();
    assert_eq!(plot.points.len(), 10);
    assert_eq!(plot.thresholds, [(Status::Warning, 0.2), (Status::Critical, 0.5)]);
}

#[test]
fn the_general_rule_leads_its_cell_unless_it_cannot_be_trusted() {
    let first = |confidence| {
        let mut general = finding("cpu.saturation", Status::Critical);
        general.confidence = confidence;
        let report = report(vec![finding("cpu.saturation.pressure", Status::Critical), general]);
        report.findings.first().unwrap().id.clone()
    };
    assert_eq!(first(Confidence::Medium), "cpu.saturation");
    assert_eq!(first(Confidence::Low), "cpu.saturation.pressure");
}

#[test]
fn a_cpu_is_named_as_one_and_nothing_else_with_a_number_is() {
    let of = |id: &str, instance: &str| {
        let mut own = finding(id, Status::Warning);
        own.instance = Some(instance.into());
        super::words::full_title(&own).rsplit_once('(').unwrap().1.to_owned()
    };
    assert_eq!(of("cpu.utilization.core", "3"), "CPU 3)");
    assert_eq!(of("cpu.utilization.process", "4711:816"), "pid 4711)");
    assert_eq!(of("tasks.utilization.users", "1000"), "1000)");
}

#[test]
fn pressure_on_disks_names_the_one_disk_that_fired_and_none_of_two() {
    let of = |id: &str, disk: &str| {
        let mut slow = finding(id, Status::Critical);
        slow.instance = Some(disk.into());
        slow
    };
    let pressure = || finding("disk.saturation.pressure", Status::Critical);
    let place = |others: &[rdiag_model::Finding]| {
        let (_, told) = headline([&[pressure()], others].concat());
        told.split(" — ").next().unwrap_or_default().to_owned()
    };
    let [first, second] = ["sda", "sdb"].map(|disk| of("disk.saturation.read_latency", disk));
    assert_eq!(place(&[]), "Bottleneck: disk saturation");
    assert_eq!(place(std::slice::from_ref(&first)), "Bottleneck: disk saturation (sda)");
    assert_eq!(place(&[first, second]), "Bottleneck: disk saturation");
    assert_eq!(place(&[of("filesystem.utilization", "/srv")]), "Bottleneck: disk saturation");
}
