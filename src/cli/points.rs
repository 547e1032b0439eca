//! `rdiag probe list NAME`: what there is to look at under a name.

use std::path::Path;

use super::list::table;
use super::root::open_host;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::mechanism::points::PointError;
use rdiag_model::{Reason, Unavailable};
use rdiag_playbook::suggest::did_you_mean;
use rdiag_probes::listing::{self, Details, Listed, Listing};
use rdiag_report::shown;
use rdiag_report::shown::json_line;

pub(super) fn main(name: &str, as_json: bool, ui: &Ui) -> Result<Exit, Failure> {
    let host = open_host(Path::new("/"))?;
    let listing = match listing::list(&host, name) {
        Ok(listing) => listing,
        Err(error) => {
            let gap = error.clone().gap();
            wrong_point(error)?;
            return Err(Failure::Unavailable { what: name.to_owned(), gap });
        }
    };
    if as_json {
        ui.print(&json_line(&listing).map_err(|error| Failure::io("writing JSON")(error.into()))?)?;
    } else {
        ui.print(&text(&listing))?;
    }
    Ok(Exit::Done)
}

/// A typing error is reported here with what was meant; what prevents looking is reported when the probe starts.
pub(super) fn wrong_point(error: PointError) -> Result<(), Failure> {
    if !matches!(error.reason, Reason::Absent | Reason::Malformed) {
        return Ok(());
    }
    let near = error.near.as_ref();
    let hint = near.and_then(|(written, known)| did_you_mean(written, known.iter().map(String::as_str)));
    Err(Failure::Usage { message: error.message, hint })
}

fn text(listing: &Listing) -> Text {
    let plain = |point: &&Listed| point.details.is_none();
    let names: Vec<Vec<Text>> = listing
        .points
        .iter()
        .filter(plain)
        .map(|point| vec![Text::seen(&point.name), Text::of(point.kind.words())])
        .collect();
    let mut text = table(&names);
    if listing.others > 0 {
        text.push(shown!("and {} more\n", listing.others));
    }
    let blocks = listing.points.iter().filter_map(|point| Some(block(point, point.details.as_ref()?)));
    text.push(Text::joined(blocks, "\n"));
    text
}

fn block(point: &Listed, details: &Details) -> Text {
    let mut text: Text = shown!("{}: {}\n", Text::seen(&point.name), point.kind.words());
    if !details.declared.is_empty() {
        text.push(shown!("  {}\n", Text::seen(&details.declared)));
    }
    text.push(match &details.unavailable {
        None => shown!("  can be probed here ({})\n", details.back_end),
        Some(Unavailable { why, remedy, .. }) => {
            let remedy = remedy.as_ref().map_or_else(Text::new, |remedy| shown!("; {}", Text::seen(remedy)));
            shown!("  cannot be probed here ({}): {}{}\n", details.back_end, Text::seen(why), remedy)
        }
    });
    if details.fields.is_empty() {
        text.push("  has nothing that can be read\n");
    }
    let rows: Vec<Vec<Text>> = details
        .fields
        .iter()
        .map(|field| {
            let when = if field.at_return { "when it returns" } else { "" };
            let [names, declared] = [&field.names.join(" or "), &field.declared].map(Text::seen);
            vec![Text::of("   "), names, declared, Text::of(field.usable), Text::of(when)]
        })
        .collect();
    text.push(table(&rows));
    let param = format!("{}={}", point.kind.param(), point.name);
    if details.unavailable.is_none()
        && param.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:=/.+-".contains(&byte))
    {
        text.push(shown!("  rdiag probe count --param {}\n", Text::seen(param)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_probes::listing::{Kind, Readable};

    fn point(name: &str, details: Option<Details>) -> Listed {
        Listed { name: name.into(), kind: Kind::KernelFunction, details }
    }

    fn details(unavailable: Option<Unavailable>) -> Details {
        let field = |names: &[&str], declared: &str, at_return| Readable {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            declared: declared.into(),
            at_return,
            usable: "number",
        };
        let fields = vec![field(&["size", "arg3"], "size_t", false), field(&["return"], "int", true)];
        Details { declared: "int f(size_t size)".into(), fields, back_end: "kprobe", unavailable }
    }

    #[test]
    fn few_points_are_told_with_their_fields_and_the_command_to_type() {
        let listing = Listing { points: vec![point("f", Some(details(None)))], others: 0 };
        let lines = "f: function of the kernel\n  int f(size_t size)\n  can be probed here (kprobe)\n\
                     \u{20}    size or arg3  size_t  number\n     return        int     number  when it returns\n  rdiag probe count \
                     --param function=f\n";
        assert_eq!(&*text(&listing), lines);
    }

    #[test]
    fn what_stands_in_the_way_is_told_in_place_of_a_command() {
        let gap = Unavailable::new(Reason::Denied, "this user may not look at it").with_remedy("run rdiag as root");
        let said = text(&Listing { points: vec![point("f", Some(details(Some(gap))))], others: 0 });
        assert!(
            said.contains("cannot be probed here (kprobe): this user may not look at it; run rdiag as root"),
            "{said}"
        );
        assert!(!said.contains("--param"), "{said}");
    }

    #[test]
    fn many_points_are_told_by_name_whatever_is_in_it() {
        let said = text(&Listing { points: vec![point("a\u{1b}[31m", None), point("b", None)], others: 3 });
        assert!(!said.contains('\u{1b}') && said.ends_with("and 3 more\n"), "{said:?}");
    }
}
