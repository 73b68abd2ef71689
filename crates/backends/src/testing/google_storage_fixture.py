"""A stand-in of our own for Google Cloud Storage: objects with generations, over the XML API.

The emulators of the package registries ignore the conditions of writes. This one implements what
https://cloud.google.com/storage/docs/xml-api/put-object-upload and
https://cloud.google.com/storage/docs/request-preconditions say, as far as the tests need it.
"""

import hashlib
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

objects = {}
buckets = set()
lock = threading.Lock()
generations = iter(range(1700000000000000, sys.maxsize))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, content=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(content)

    def refuse(self, status, code):
        self.answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def place(self):
        bucket, _, name = urlsplit(self.path).path.lstrip("/").partition("/")
        return unquote(bucket), unquote(name)

    def do_PUT(self):
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        bucket, name = place = self.place()
        with lock:
            if not name:
                buckets.add(bucket)
                return self.answer(200)
            if bucket not in buckets:
                return self.refuse(404, "NoSuchBucket")
            _, generation, _ = objects.get(place, (None, 0, None))
            expected = self.headers.get("x-goog-if-generation-match")
            if expected is not None and int(expected) != generation:
                return self.refuse(412, "PreconditionFailed")
            generation = next(generations)
            tag = f'"{hashlib.md5(content).hexdigest()}"'
            objects[place] = (content, generation, tag)
        self.answer(200, headers=[("ETag", tag), ("x-goog-generation", str(generation))])

    def do_GET(self):
        place = self.place()
        with lock:
            found = objects.get(place)
            exists = place[0] in buckets
        if found is None:
            return self.refuse(404, "NoSuchKey" if exists else "NoSuchBucket")
        content, generation, tag = found
        headers = [
            ("ETag", tag),
            ("x-goog-generation", str(generation)),
            ("Last-Modified", "Tue, 24 Nov 2026 00:00:00 GMT"),
        ]
        if self.headers.get("If-None-Match") == tag:
            return self.answer(304, headers=headers)
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        if asked:
            first, _, last = asked.partition("-")
            end = min(int(last) + 1, len(content)) if last else len(content)
            headers.append(("Content-Range", f"bytes {first}-{end - 1}/{len(content)}"))
            return self.answer(206, content[int(first) : end], headers)
        self.answer(200, content, headers)

    do_HEAD = do_GET

    def do_DELETE(self):
        with lock:
            found = objects.pop(self.place(), None)
        return self.refuse(404, "NoSuchKey") if found is None else self.answer(204)


# A shell starts background processes with this signal ignored.
signal.signal(signal.SIGINT, signal.SIG_DFL)
# Connections that come faster than threads are created.
ThreadingHTTPServer.request_queue_size = 500
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
