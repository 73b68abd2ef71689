//! Messages for transports in which a line is a message.

use bytes::Bytes;

/// Returns a message on one line: white space that ends a line becomes a space. A line end within a string, which is no
/// JSON but which some readers accept, becomes its escape.
pub(super) fn on_one_line(bytes: &Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', bytes).is_none() {
        return bytes.clone();
    }
    let mut line = Vec::with_capacity(bytes.len());
    let (mut in_string, mut is_escaped) = (false, false);
    for &byte in bytes {
        match byte {
            b'\n' if in_string => line.extend_from_slice(br"\n"),
            b'\r' if in_string => line.extend_from_slice(br"\r"),
            b'\n' | b'\r' => line.push(b' '),
            _ => line.push(byte),
        }
        if byte == b'"' && !is_escaped {
            in_string = !in_string;
        }
        is_escaped = in_string && byte == b'\\' && !is_escaped;
    }
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_on_several_lines_becomes_one_line() {
        let pretty = Bytes::from_static(b"{\n \"id\": 1,\r\n \"result\": {\"a\": \"x\\\\\"}\n}");
        assert_eq!(
            on_one_line(&pretty),
            "{  \"id\": 1,   \"result\": {\"a\": \"x\\\\\"} }"
        );
    }
}
