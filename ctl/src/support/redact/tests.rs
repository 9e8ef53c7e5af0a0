use super::*;

fn text(text: &str) -> String {
    Redactor::default().text(text)
}

fn words(line: &str) -> String {
    let words: Vec<String> = line.split('|').map(str::to_owned).collect();
    Redactor::default().arguments(&words).join("|")
}

#[test]
fn what_is_no_secret_stays() {
    for line in [
        "",
        "started in 1.2 s",
        "GET /index.html HTTP/1.1 200 https://example.org/a?b=c#d",
        "listening on 0.0.0.0:80, see http://[::1]:80/",
        "mail to admin@example.org",
        "git clone ssh://git@example.org/repo",
        "a token was sent",
        "authorization was refused",
        "the bearer",
        "-----BEGIN CERTIFICATE-----",
        "Grüße: 世界=1 \u{1f511}",
    ] {
        assert_eq!(text(line), line);
    }
    for line in [
        "nginx|-g|daemon off;",
        "/bin/keyring|--monkey=3|--config|/etc/x.yaml",
        "sh|-c|echo  a   b ",
        "ssh|-i|id",
    ] {
        assert_eq!(words(line), line);
    }
}

#[test]
fn passwords_of_addresses() {
    for (line, safe) in [
        ("postgres://web:s3cret@db:5432/app", "postgres://web:(removed)@db:5432/app"),
        ("to https://u:p@h/ and amqp://a:b@c", "to https://u:(removed)@h/ and amqp://a:(removed)@c"),
        ("https://ghp_abc@github.com/x", "https://(removed)@github.com/x"),
        ("redis://:hunter2@cache", "redis://:(removed)@cache"),
        ("\"http://a:b@c:d@host\"", "\"http://a:(removed)@host\""),
        ("http://a:@host", "http://a:@host"),
        ("see http://host/a:b@c", "see http://host/a:b@c"),
        ("x://ü:ö@h", "x://ü:(removed)@h"),
    ] {
        assert_eq!(text(line), safe);
    }
}

#[test]
fn headers_of_requests() {
    for (line, safe) in [
        ("Authorization: Basic dXNlcjpw", "Authorization: (removed)"),
        ("> authorization:Digest username=\"x\", nonce=1", "> authorization:(removed)"),
        ("curl -H \"Authorization: Bearer abc\" http://h", "curl -H \"Authorization: (removed)\" http://h"),
        ("curl -H 'authorization: x' h", "curl -H 'authorization: (removed)' h"),
        ("{\"Authorization\":\"Bearer abc\",\"a\":1}", "{\"Authorization\":\"(removed)\",\"a\":1}"),
        (
            "{\\\"authorization\\\":\\\"Basic abc\\\",\\\"a\\\":1}",
            "{\\\"authorization\\\":\\\"(removed)\\\",\\\"a\\\":1}",
        ),
        ("Proxy-Authorization: x", "Proxy-Authorization: (removed)"),
        ("sent Bearer eyJhbGciOi.x.y, got 401", "sent Bearer (removed), got 401"),
        ("BEARER  abc def", "BEARER  (removed) def"),
        ("Authorization:", "Authorization:"),
    ] {
        assert_eq!(text(line), safe);
    }
}

#[test]
fn values_with_the_name_of_a_secret() {
    for (line, safe) in [
        ("DB_PASSWORD=hunter2 started", "DB_PASSWORD=(removed) started"),
        ("password: hunter2", "password: (removed)"),
        ("{\"api_key\": \"a b\", \"x\": 1}", "{\"api_key\": \"(removed)\", \"x\": 1}"),
        ("{\"clientSecret\":\"x\"}", "{\"clientSecret\":\"(removed)\"}"),
        ("/login?user=a&access_token=abc&x=1", "/login?user=a&access_token=(removed)&x=1"),
        ("token='a b' end", "token='(removed)' end"),
        ("{\\\"token\\\":\\\"abc\\\"}", "{\\\"token\\\":\\\"(removed)\"}"),
        ("a=b=c password=x=y", "a=b=c password=(removed)"),
        ("password=", "password="),
        ("ü_password=ö!", "ü_password=(removed)"),
    ] {
        assert_eq!(text(line), safe);
    }
}

#[test]
fn arguments_of_commands() {
    for (line, safe) in [
        ("app|--password=x|-v", "app|--password=(removed)|-v"),
        ("app|--password|x|-v", "app|--password|(removed)|-v"),
        ("app|--api-key|x", "app|--api-key|(removed)"),
        ("app|--key|/etc/key.pem|a", "app|--key|(removed)|a"),
        ("app|-token|x", "app|-token|(removed)"),
        ("app|--token|--next|x", "app|--token|--next|x"),
        ("kubeadm|token|abc", "kubeadm|token|(removed)"),
        ("env|DB_PASSWORD=x|app", "env|DB_PASSWORD=(removed)|app"),
        ("app|--db|postgres://a:b@c/d", "app|--db|postgres://a:(removed)@c/d"),
        ("curl|-H|Authorization: Bearer abc|h", "curl|-H|Authorization: (removed)|h"),
        ("curl|-H|Bearer|abc", "curl|-H|Bearer|(removed)"),
        (
            "sh|-c|app --password x  --secret=y; app  z",
            "sh|-c|app --password (removed)  --secret=(removed); app  z",
        ),
        ("app: --token x worker", "app: --token (removed) worker"),
        ("app|--secret", "app|--secret"),
        ("app|--secret|", "app|--secret|"),
    ] {
        assert_eq!(words(line), safe);
    }
}

#[test]
fn command_lines_within_a_text() {
    for (line, safe) in [
        ("exec: mysql --password hunter2 -u root", "exec: mysql --password (removed) -u root"),
        ("run 'app --api-key=abc --key  x; y'", "run 'app --api-key=(removed) --key  (removed); y'"),
        ("--token", "--token"),
        ("app --token --verbose", "app --token --verbose"),
        ("a--key b, --monkey c", "a--key b, --monkey c"),
    ] {
        assert_eq!(text(line), safe);
    }
}

const KEY_TEXT: &str = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEowIBAAKCAQEA\nabc=\n-----END RSA PRIVATE KEY-----";

#[test]
fn private_keys() {
    let around = format!("before\nkey: {KEY_TEXT} after\nlast");
    let gone = text(&around);
    assert!(!gone.contains("MIIE") && !gone.contains("abc="), "{gone}");
    assert!(
        gone.starts_with("before\nkey: (removed)\n") && gone.ends_with("\n(removed) after\nlast"),
        "{gone}"
    );
    assert_eq!(gone.lines().count(), around.lines().count(), "a line for each");
    let flat = KEY_TEXT.replace('\n', "\\n");
    assert_eq!(
        text(&format!("{{\"a\":\"{flat}\",\"b\":\"{flat}\"}}")),
        "{\"a\":\"(removed)\",\"b\":\"(removed)\"}"
    );
    let public = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBg\n-----END PUBLIC KEY-----";
    assert_eq!(text(public), public, "what everybody may know stays");
}

#[test]
fn keys_that_are_cut_off() {
    let begun = KEY_TEXT.rsplit_once('\n').unwrap().0;
    assert!(!text(begun).contains("MIIE"));
    let (_, ending) = KEY_TEXT.split_once("\n\n").unwrap();
    assert_eq!(text(&format!("a line\n{ending}\nnext")), "a line\n(removed)\n(removed)\n(removed)\nnext");
    let endless = format!("-----BEGIN PRIVATE KEY-----\n{}", "a line\n".repeat(KEY_LINES + 5));
    assert!(text(&endless).ends_with("a line\na line\n"), "what is no key is not lost for ever");
}

#[test]
fn a_document() {
    let yaml = "
spec:
  process: {command: [app, --token, abc], environment: {A: b, EMPTY: ''}}
  health: [{http: {headers: {Authorization: Basic abc, Accept: text}}}]
  list: {environment: [A=b, C]}
message: connected to amqp://a:b@c
number: 7
password: hunter2
nested: [[x, {secretName: y}], null, true]
";
    let mut value: Value = serde_yaml::from_str(yaml).unwrap();
    let mut redactor = Redactor::default();
    redactor.value(&mut value);
    let safe = "
spec:
  process: {command: [app, --token, (removed)], environment: {A: (removed), EMPTY: (removed)}}
  health: [{http: {headers: {Authorization: (removed), Accept: text}}}]
  list: {environment: [A=(removed), C=(removed)]}
message: connected to amqp://a:(removed)@c
number: 7
password: (removed)
nested: [[x, {secretName: (removed)}], null, true]
";
    assert_eq!(value, serde_yaml::from_str::<Value>(safe).unwrap());
    let counts: Vec<(&str, u64)> = redactor.removed.into_iter().collect();
    assert_eq!(counts, [("arguments", 1), ("assignments", 3), ("environment", 4), ("urls", 1)]);
}

#[test]
fn a_spec_that_is_none_is_not_handed_on() {
    let mut value: Value = serde_yaml::from_str("spec: 'environment: {A: b'").unwrap();
    Redactor::default().value(&mut value);
    assert_eq!(value["spec"], GONE);
}

#[test]
fn what_was_safe_stays_as_it_is() {
    let once = text("Authorization: x\npassword=y https://a:b@c Bearer z\nDB_TOKEN: q");
    let mut again = Redactor::default();
    assert_eq!(again.text(&once), once);
}
