//! What is read out of each format, and what is said of what cannot be read.

use vramcast_tokens::{Documents, Format, LONGEST, ReadError};

/// The documents of an input, and in their place `line: reason` of those that are broken.
fn read(format: Format, input: &[u8]) -> Vec<String> {
    let mut documents = Documents::new(input, format, "text");
    let (mut all, mut document) = (Vec::new(), String::new());
    loop {
        match documents.read(&mut document) {
            Ok(true) => all.push(document.clone()),
            Ok(false) => return all,
            Err(ReadError::Broken { line, reason }) => all.push(format!("{line}: {reason}")),
            Err(error) => {
                all.push(error.to_string());
                return all;
            }
        }
    }
}

fn check(format: Format, input: &[u8], expected: &[&str]) {
    let shown = String::from_utf8_lossy(input);
    assert_eq!(read(format, input), expected, "{shown:?}");
}

#[test]
fn every_line_of_a_text_with_something_in_it_is_a_document() {
    let check = |input: &[u8], expected: &[&str]| check(Format::Text, input, expected);
    check(b"", &[]);
    check(b"\n \r\n\n", &[]);
    check(b"one\n\ntwo", &["one", "two"]);
    check(b"one\r\n two \r\n", &["one", " two "]);
    check(b"\xEF\xBB\xBFone\n", &["one"]);
    check(b"\xEF\xBB\xBF\none\n", &["one"]);
    check(b"\xEF\xBB\xBF", &[]);
    check(
        b"one\nb\xFFd\nthree\n",
        &["one", "2: not UTF-8 from byte 2 on", "three"],
    );
}

#[test]
fn a_field_of_every_json_line_is_a_document() {
    let check = |input: &[u8], expected: &[&str]| check(Format::JsonLines, input, expected);
    check(
        br#"{"id": 1, "text": "one", "more": {"text": "no"}}"#,
        &["one"],
    );
    check(
        br#"{"text": "a\nb\u00e9\ud83d\ude00"}"#,
        &["a\nb\u{e9}\u{1f600}"],
    );
    check(br#"{"t\u0065xt": "one", "text": "two"}"#, &["two"]);
    check(b"\xEF\xBB\xBF{\"text\": \"\"}\r\n\r\n", &[""]);
    check(
        br#"{"label": 1, "sentence": "x"}"#,
        &["1: no field `text`; there are: label, sentence"],
    );
    check(
        br#"{"text": 5}"#,
        &["1: invalid type: integer `5`, expected a string in `text`"],
    );
    check(
        br#"{"text": null}"#,
        &["1: invalid type: null, expected a string in `text`"],
    );
    check(
        br#"["text"]"#,
        &["1: invalid type: sequence, expected an object"],
    );
    check(
        b"{\"text\": \"one\"}\n\n{\"text\": \"tw\n{\"text\": \"three\"} x\n{\"text\": \"four\"}",
        &[
            "one",
            "3: not JSON, or cut off: EOF while parsing a string in column 12",
            "4: not JSON, or cut off: trailing characters in column 19",
            "four",
        ],
    );
    check(
        br#"{"text": "\ud83d"}"#,
        &["1: not JSON, or cut off: unexpected end of hex escape in column 17"],
    );
}

#[test]
fn a_column_of_every_record_is_a_document() {
    let check = |input: &[u8], expected: &[&str]| check(Format::Csv, input, expected);
    check(b"", &[]);
    check(b"text\n", &[]);
    check(
        b"id,text\n1,one\n2,\"two, \"\"too\"\"\"\n",
        &["one", "two, \"too\""],
    );
    check(
        b"\xEF\xBB\xBFtext,id\r\none,1\r\n\r\n\"\",2\r\n",
        &["one", ""],
    );
    check(b"id,text\r\n1,one\r\n2,\"a\r\nb\"\r\n", &["one", "a\r\nb"]);
    check(b"id,text\n1,\"a\n\nb\"\n2,c", &["a\n\nb", "c"]);
    check(b"id,text\n1,5\" disk\n2,c\n", &["5\" disk", "c"]);
    check(
        b"id,body\n1,one\n",
        &["no column `text`; there are: id, body"],
    );
    check(
        b"id,text\n1,\"a\nb\"\n2\n3,c,d\n4,e\n",
        &[
            "a\nb",
            "4: 1 fields instead of 2",
            "5: 3 fields instead of 2",
            "e",
        ],
    );
    check(
        b"id,text\n1,one\n2,\"two\n3,three\n",
        &["one", "3: a quote that is never closed"],
    );
    check(
        b"id,text\n\xFF,one\n2,\xFF\n",
        &["one", "3: not UTF-8 from byte 1 on"],
    );
}

#[test]
fn a_line_that_never_ends_is_broken_and_the_next_is_read() {
    let mut input = vec![b'a'; LONGEST + 10];
    input.extend(b"\nnext\n");
    check(Format::Text, &input, &["1: longer than 64 MiB", "next"]);
}
