//! `rdiag man`: the manual page.

use super::command;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};

/// Print the manual page: rdiag man | man -l -
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn main(_: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let mut page = Vec::new();
    let render = |page: &mut Vec<u8>| -> std::io::Result<()> {
        clap_mangen::Man::new(command()).render(page)?;
        for sub in command().get_subcommands().filter(|sub| sub.get_name() != "help") {
            let name = format!("rdiag {}", sub.get_name());
            let man = clap_mangen::Man::new(sub.clone().bin_name(name));
            man.render_synopsis_section(page)?;
            man.render_description_section(page)?;
            man.render_options_section(page)?;
        }
        Ok(())
    };
    render(&mut page).map_err(Failure::io("rendering the manual page"))?;
    ui.print(&Text::lines(String::from_utf8_lossy(&page)))?;
    Ok(Exit::Done)
}
