//! Programs with an option for a secret whose name does not say so.

use super::Next;

/// A program, and such options of it.
#[derive(Debug)]
pub(super) struct Program {
    names: &'static [&'static str],
    pub(super) options: &'static [Secret],
}

/// An option that takes a secret.
#[derive(Debug)]
pub(super) struct Secret {
    pub(super) name: &'static str,
    /// Its value may be the rest of the word.
    pub(super) attached: bool,
    /// Its value may be the next word.
    pub(super) apart: bool,
    /// The secret is what follows this sign in the value.
    sign: Option<char>,
}

impl Secret {
    pub(super) fn next(&self) -> Next {
        self.sign.map_or(Next::Secret, Next::Account)
    }
}

const fn attached(name: &'static str) -> Secret {
    Secret { name, attached: true, apart: false, sign: None }
}

const fn both(name: &'static str) -> Secret {
    Secret { name, attached: true, apart: true, sign: None }
}

const fn apart(name: &'static str) -> Secret {
    Secret { name, attached: false, apart: true, sign: None }
}

const fn account(name: &'static str, sign: char) -> Secret {
    Secret { name, attached: !matches!(name.as_bytes(), [b'-', b'-', ..]), apart: true, sign: Some(sign) }
}

/// The program that a word names, with or without its folder.
pub(super) fn program(word: &str) -> Option<&'static Program> {
    let name = word.rsplit('/').next().unwrap_or_default();
    PROGRAMS.iter().find(|program| program.names.contains(&name))
}

const PROGRAMS: &[Program] = &[
    // What others start, with a `-p` of its own.
    Program { names: &["ssh", "scp", "sftp", "rsync", "psql"], options: &[] },
    // `-p` alone makes them ask.
    Program {
        names: &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlcheck",
            "mysqlshow",
            "mysqlslap",
            "mysqlpump",
            "mysqlbinlog",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
            "mariadb-import",
            "mariadb-check",
            "mariadb-show",
            "mariadb-slap",
            "mariadb-binlog",
            "mariadb-backup",
            "mariabackup",
            "xtrabackup",
            "mycli",
        ],
        options: &[attached("-p")],
    },
    Program {
        names: &[
            "mongo",
            "mongosh",
            "mongodump",
            "mongorestore",
            "mongoexport",
            "mongoimport",
            "mongostat",
            "mongotop",
        ],
        options: &[both("-p")],
    },
    Program { names: &["sshpass"], options: &[both("-p")] },
    Program { names: &["login"], options: &[both("-p")] },
    Program { names: &["redis-cli", "valkey-cli"], options: &[apart("-a")] },
    Program {
        names: &["ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldapcompare", "ldappasswd", "ldapwhoami"],
        options: &[both("-w"), both("-s")],
    },
    Program { names: &["sqlcmd", "bcp", "isql", "tsql"], options: &[both("-P")] },
    Program { names: &["ipmitool"], options: &[apart("-P")] },
    Program {
        names: &["curl"],
        options: &[
            account("--user", ':'),
            account("--proxy-user", ':'),
            account("-u", ':'),
            account("-U", ':'),
            apart("-b"),
        ],
    },
    Program { names: &["smbclient", "rpcclient", "net"], options: &[account("--user", '%'), account("-U", '%')] },
    Program { names: &["lftp"], options: &[account("-u", ',')] },
    Program {
        names: &["openssl"],
        options: &[account("-passin", ':'), account("-passout", ':'), account("-pass", ':'), apart("-k")],
    },
];
