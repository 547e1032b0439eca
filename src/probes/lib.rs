//! Measurements inside the kernel: one folder for each probe, with the program (`ID.bpf.c`), its committed object and the
//! Rust that reads it. A probe counts and reads; it never judges.
//!
//! To add one: write `ID/mod.rs` with a `pub(super) static PROBE: ProbeDef`, and add its lines here and to `registry.rs`. Ids are
//! those of bcc's tools where bcc has the tool. A probe imports what it is made of from `def.rs`, and never the list.

mod biolatency;
mod biosnoop;
mod biotop;
mod block;
mod cachestat;
mod calls;
mod count;
mod cpudist;
mod dbslower;
mod dcsnoop;
mod deadlock;
mod def;
mod drops;
mod events;
mod execsnoop;
mod file_ops;
mod fileslower;
mod filetop;
mod fsdist;
mod functions;
mod futexctn;
mod grammar;
mod graph;
mod hardirqs;
mod killsnoop;
mod klockstat;
mod kvmexit;
pub mod listing;
mod llcstat;
mod log;
mod memleak;
mod memstall;
mod migrations;
mod named_stacks;
mod netqtop;
mod offcputime;
mod oomkill;
mod opensnoop;
mod owners;
mod params;
mod per_point;
mod point_reads;
mod profile;
mod readahead;
mod registry;
mod response;
mod runqlat;
mod runqlen;
mod runqslower;
mod sockets;
mod softirqs;
mod stack_table;
mod stat;
mod stream;
mod swapin;
mod syncsnoop;
mod syscount;
mod table;
mod tcplife;
mod tcpretrans;
mod tcptop;
mod timeline;
mod totals;
mod traced;
mod value_read;

pub use def::{Context, FOR, FilterKind, GivesStacks, ParamDef, ParamKind, Params, Probe, ProbeDef, Taken};
pub use grammar::kernel_functions as check_function_list;
pub use per_point::check_point;
pub use registry::{ALL, find, metrics, with_stacks};
pub use response::check_marks;
