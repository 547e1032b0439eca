use sha2::Digest as _;

use super::flame::SCRIPT;
use super::html;
use super::html::{COPY, COPY_HASH, SCRIPT_HASH, STYLE, STYLE_HASH};
use super::sample::{report, saturated};

#[test]
fn the_page_loads_nothing_and_has_every_part() {
    let page = html(&report(saturated())).unwrap();
    let page = page.replace("http-equiv", "");
    for outside in ["http", "<script ", "url(", "@import", "src=", "<link", "<iframe", " style="] {
        assert!(!page.contains(outside), "{outside}");
    }
    for part in ["default-src 'none'", "<h1>web-03: CPU saturation</h1>", "<svg class=\"plot\"", "changes the host"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.len() < 60_000, "{}", page.len());
}

#[test]
fn every_link_within_the_page_has_a_target() {
    let page = html(&report(saturated())).unwrap();
    let targets: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|part| part.split('"').next()).collect();
    assert!(targets.len() > 8);
    for target in targets {
        assert_eq!(page.matches(&format!("id=\"{target}\"")).count(), 1, "{target}");
    }
}

pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at)) as usize & 63] as char;
            text.push(if at > chunk.len() { '=' } else { digit });
        }
    }
    text
}

#[test]
fn a_page_with_a_flame_graph_runs_the_script_for_it_and_no_other() {
    let page = html(&super::sample_probes::report("nginx")).unwrap();
    assert_eq!(page.matches("<script>").count(), 2, "and that which copies the verdict");
    assert!(page.contains(&format!("script-src '{COPY_HASH}' '{SCRIPT_HASH}';")) && page.contains(SCRIPT.trim()));
    assert_eq!(
        SCRIPT_HASH,
        format!("sha256-{}", base64(&sha2::Sha256::digest(SCRIPT))),
        "set SCRIPT_HASH to the right side"
    );
    // It may stand in HTML and in the CDATA of a picture.
    assert!(!SCRIPT.contains("</") && !SCRIPT.contains("]]>") && !SCRIPT.contains("innerHTML"));
}

#[test]
fn the_verdict_is_copied_as_one_sentence_by_the_only_script() {
    let page = html(&report(saturated())).unwrap();
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(page.contains(&format!("script-src '{COPY_HASH}';")) && page.contains(COPY.trim()));
    assert!(page.contains("data-text=\"web-03: CPU saturation — threads waited 70.0%"), "{page}");
    // Where no script runs there is no button that would do nothing.
    assert!(page.contains("aria-live=\"polite\" hidden>") && COPY.contains("button.hidden = false"));
    assert_eq!(COPY_HASH, format!("sha256-{}", base64(&sha2::Sha256::digest(COPY))), "set COPY_HASH to the right side");
    assert!(!COPY.contains("</") && !COPY.contains("innerHTML"));
}

#[test]
fn findings_of_one_shortage_are_one_problem_and_the_others_are_inside() {
    let page = html(&report(saturated())).unwrap();
    assert!(page.contains("1 problem seen by 2 checks, the most urgent first."));
    let (_, from) = page.split_once("id=\"finding-1\"").unwrap();
    let (problem, _) = from.split_once("</article>").unwrap();
    assert!(problem.contains("id=\"finding-2\"") && problem.contains("cpu.utilization"), "{problem}");
}

#[test]
fn who_used_it_and_what_to_do_stand_before_the_findings() {
    let page = html(&report(saturated())).unwrap();
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part} is not in {page}"));
    let order = ["<h1>", "id=\"timeline\"", "id=\"used\"", "id=\"next\"", "id=\"findings\"", "id=\"matrix\""].map(at);
    assert!(order.is_sorted(), "{order:?}");
    assert!(page.contains("stress-ng × 2") && page.contains("Shares are of 2 CPUs for 10.0 s."));
}

#[test]
fn the_policy_admits_exactly_the_style_sheet_of_this_build() {
    assert_eq!(
        STYLE_HASH,
        format!("sha256-{}", base64(&sha2::Sha256::digest(STYLE))),
        "set STYLE_HASH to the right side"
    );
}

#[test]
fn the_hour_around_a_window_stands_behind_the_findings_with_the_window_shaded_and_gaps_named() {
    let mut report = report(saturated());
    assert!(!html(&report).unwrap().contains("id=\"around\""));
    report.around = Some(super::sample::around());
    let page = html(&report).unwrap();
    let (before, from) = page.split_once("id=\"around\"").unwrap();
    let (section, _) = from.split_once("</section>").unwrap();
    assert!(before.contains("id=\"findings\""), "who opens the page wants to know what is wrong");
    // CPU, PSI some and full, most CPU time, most I/O, what changed, what was not recorded.
    assert_eq!(section.matches("<rect class=\"drill\" x=\"40.00%\" width=\"40.00%\"").count(), 7, "{section}");
    // The gap is framed in each lane of figures, and in a lane of its own.
    assert_eq!(section.matches("<rect class=\"around\" x=\"20.00%\" width=\"20.00%\"").count(), 6, "{section}");
    assert_eq!(section.matches("<span class=\"chip info\">judged</span>").count(), 2, "{section}");
    assert_eq!(section.matches("<td colspan=\"5\" class=\"soft\">not recorded</td>").count(), 1, "{section}");
    for part in [
        ">02:53:00</text>",
        ">03:03:00</text>",
        ">03:18:00</text>",
        "report-job, 10.0 min",
        "postgres, 10.0 min",
        "Not recorded: 02:58:00 to 03:03:00.",
        "OOM kill, 2 processes",
        "io, highest 0.4%",
        "In figures, every 5 min",
    ] {
        assert!(section.contains(part), "{part} is not in {section}");
    }
}
