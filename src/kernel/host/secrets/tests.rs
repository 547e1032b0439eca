use super::{masked, masked_bytes};

/// Each line as `|` between words, before and after.
fn check(table: &[(&str, &str)]) {
    for (line, expected) in table {
        assert_eq!(masked(line.split('|')).join("|"), *expected, "{line}");
    }
}

#[test]
fn values_of_options_and_variables_with_such_a_name_are_masked_and_the_name_stays() {
    check(&[
        ("app|--password=hunter2", "app|--password=***"),
        ("app|--password|hunter2|-v", "app|--password|***|-v"),
        ("app|-password|hunter2", "app|-password|***"),
        ("app|--db-password=a=b,c&d", "app|--db-password=***"),
        ("env|PGPASSWORD=hunter2|psql|-p|5432", "env|PGPASSWORD=***|psql|-p|5432"),
        (
            "env|MYSQL_PWD=x|AWS_SECRET_ACCESS_KEY=y|GITHUB_TOKEN=z|a",
            "env|MYSQL_PWD=***|AWS_SECRET_ACCESS_KEY=***|GITHUB_TOKEN=***|a",
        ),
        ("app|--token|t|--api-key=k|--apiKey=k|--secret|s", "app|--token|***|--api-key=***|--apiKey=***|--secret|***"),
        (
            "app|--passphrase|p|--credentials=c|--access_token=t",
            "app|--passphrase|***|--credentials=***|--access_token=***",
        ),
        ("java|-Djavax.net.ssl.keyStorePassword=x|-jar|a.jar", "java|-Djavax.net.ssl.keyStorePassword=***|-jar|a.jar"),
        ("docker|run|-e|POSTGRES_PASSWORD=x|img", "docker|run|-e|POSTGRES_PASSWORD=***|img"),
        ("kubectl|--from-literal=password=x", "kubectl|--from-literal=password=***"),
        ("helm|--set=db.password=x,replicas=3", "helm|--set=db.password=***,replicas=3"),
        ("redis-server|--requirepass|x|--port|1", "redis-server|--requirepass|***|--port|1"),
        ("beam|-setcookie|x", "beam|-setcookie|***"),
    ]);
}

#[test]
fn options_of_well_known_programs_are_masked() {
    check(&[
        ("mysql|-uroot|-phunter2|db", "mysql|-uroot|-p***|db"),
        ("/usr/bin/mysqldump|-p|db", "/usr/bin/mysqldump|-p|db"),
        ("sudo|mysql|-phunter2", "sudo|mysql|-p***"),
        ("sshpass|-p|hunter2|ssh|host", "sshpass|-p|***|ssh|host"),
        ("sshpass|-phunter2|ssh|-p|22|host", "sshpass|-p***|ssh|-p|22|host"),
        ("redis-cli|-a|hunter2|ping", "redis-cli|-a|***|ping"),
        ("mongosh|-u|me|-p|hunter2", "mongosh|-u|me|-p|***"),
        ("docker|login|-u|me|-p|hunter2|host", "docker|login|-u|me|-p|***|host"),
        ("curl|-u|me:hunter2|http://h/", "curl|-u|me:***|http://h/"),
        ("curl|-ume:hunter2", "curl|-ume:***"),
        ("curl|--user|me:a:b", "curl|--user|me:***"),
        ("ldapsearch|-D|cn=me|-w|hunter2", "ldapsearch|-D|cn=me|-w|***"),
        ("smbclient|-U|me%hunter2", "smbclient|-U|me%***"),
        ("openssl|pkcs12|-passin|pass:hunter2", "openssl|pkcs12|-passin|pass:***"),
    ]);
}

#[test]
fn passwords_in_urls_headers_and_connection_strings_are_masked() {
    check(&[
        ("psql|postgres://me:hunter2@host:5432/db", "psql|postgres://me:***@host:5432/db"),
        ("app|--url=redis://:hunter2@host/0", "app|--url=redis://:***@host/0"),
        ("app|amqp://me:p@ss@host", "app|amqp://me:***@host"),
        ("app|amqp://me:p/ss@host", "app|amqp://me:***@host"),
        ("git|clone|https://ghp_0123456789abcdefghij@github.com/x", "git|clone|https://***@github.com/x"),
        ("app|a://u:p@h,b://v:q@i", "app|a://u:***@h,b://v:***@i"),
        ("curl|-H|Authorization: Bearer abc.def", "curl|-H|Authorization: Bearer ***"),
        ("curl|-H|authorization:abc", "curl|-H|authorization:***"),
        ("curl|-H|X-Api-Key: abc|http://h", "curl|-H|X-Api-Key: ***|http://h"),
        ("curl|-HCookie: a=b; c=d", "curl|-HCookie: a=b; c=d"),
        ("curl|-H|Cookie: a=b; c=d", "curl|-H|Cookie: ***"),
        ("curl|http://h/?user=me&token=abc&x=1", "curl|http://h/?user=me&token=***&x=1"),
        ("app|Server=h;Password=x;Database=d", "app|Server=h;Password=***;Database=d"),
        (
            "curl|-d|{\"user\":\"me\",\"password\":\"a,b\",\"x\":1}",
            "curl|-d|{\"user\":\"me\",\"password\":\"***\",\"x\":1}",
        ),
        ("curl|-d|{\"password\": \"a\"}", "curl|-d|{\"password\": ***"),
        ("psql|host=h password=x dbname=d", "psql|host=h password=*** dbname=d"),
    ]);
}

#[test]
fn a_line_within_a_word_is_masked_as_a_line() {
    check(&[
        ("sh|-c|mysql -uroot -phunter2 db && echo ok", "sh|-c|mysql -uroot -p*** db && echo ok"),
        ("sh|-c|PGPASSWORD='a b' psql -p 5432", "sh|-c|PGPASSWORD=*** psql -p 5432"),
        ("sh|-c|curl -H \"Authorization: Bearer x\" h", "sh|-c|curl -H \"Authorization: Bearer ***\" h"),
        ("sh|-c|app  --password 'a b'  -v", "sh|-c|app  --password '***'  -v"),
        ("sh|-c|app --token \"x\" 'unbalanced", "sh|-c|app --token \"***\" 'unbalanced"),
    ]);
}

#[test]
fn what_is_no_secret_stays() {
    let same = [
        "app|--password-file=/x|--token-ttl|5m|--secret-name=web",
        "app|-port|80|--no-password|x|--ask-pass|host|--max-tokens=5",
        "env|PWD=/x|OLDPWD=/y|sh",
        "ssh|-p|22|me@host:/path",
        "docker|run|-p|8080:80|-v|/run/secrets:/run/secrets:ro|img",
        "app|http://host:8080/@scope/x|http://me@host/",
        "tokenizer|--model|x|secret-service|passwd",
        "postgres: me db [local] idle",
        "nginx: worker process",
        "app|--password=|--use-token=true|--password|--next",
        "app|--author=me|--passive|--key=/etc/x.pem|--compass|n",
        "sshd: root@pts/0",
        "",
    ];
    for line in same {
        assert_eq!(masked(line.split('|')).join("|"), line);
    }
}

#[test]
fn a_line_of_the_kernel_keeps_its_shape_and_one_without_secrets_its_bytes() {
    assert_eq!(masked_bytes(b"mysql\0-px\0\0"), Some(b"mysql\0-p***\0\0".to_vec()));
    assert_eq!(masked_bytes(b"cat\0\0x\xff\0"), None);
    assert_eq!(masked_bytes(b""), None);
    assert_eq!(masked_bytes(b"app\0--token\0\xff\0"), Some(b"app\0--token\0***\0".to_vec()));
}

#[test]
fn absurd_lines_are_harmless() {
    for line in [
        "=",
        ":",
        "://",
        "://@",
        "a://:@",
        "-",
        "--",
        "--=",
        "-=x",
        "'",
        "\"\"",
        "' '",
        "password=",
        "\"password\":\"",
        "é=ü:ö@",
    ] {
        let _ = masked([line, line, "x"]);
        let _ = masked([format!("{line} {line}").as_str(), "--password"]);
    }
    let long = "\"'".repeat(50_000) + " " + &"a=:".repeat(50_000);
    assert!(masked([long.as_str()]).len() == 1);
}
