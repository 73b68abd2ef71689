"""A stand-in of our own for Firestore, in memory, over the REST API.

It implements https://firebase.google.com/docs/firestore/reference/rest as far as the tests need it, and refuses what
the documentation of quotas and indexes says that the service refuses. If the package `google-cloud-firestore` is
installed, every request also has to be a message of the official types.

Two methods are for tests: `fail` makes the next requests to a collection fail, `count` returns what they have cost.
"""

import json
import re
import signal
import sys
import threading
import time
from base64 import b64decode, b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

try:
    from google.cloud.firestore_v1.types import firestore as official
    from google.protobuf import json_format
except ImportError:
    official = None

MESSAGES = {
    "batchGet": "BatchGetDocumentsRequest",
    "batchWrite": "BatchWriteRequest",
    "beginTransaction": "BeginTransactionRequest",
    "commit": "CommitRequest",
    "rollback": "RollbackRequest",
    "runAggregationQuery": "RunAggregationQueryRequest",
    "runQuery": "RunQueryRequest",
}
LARGEST_NUMBER = 2**63 - 1
# Of the documents and index entries that a transaction writes or deletes
# (https://github.com/firebase/firebase-tools/issues/1036).
LARGEST_TRANSACTION = 10 << 20
# Of the request; the service names this number.
LARGEST_REQUEST = 11534336

lock = threading.RLock()
documents = {}  # by path: (fields, time of creation, time of the last change)
transactions = {}  # by id: what was read, as functions and their results
faults = {}  # by collection: the errors of the next requests
costs = {}  # by collection: the numbers of requests and of documents that were read
last_time = 0


class Refused(Exception):
    def __init__(self, code, status, message):
        super().__init__(message)
        self.code, self.status = code, status


def invalid(message):
    return Refused(400, "INVALID_ARGUMENT", message)


def now():
    """Returns the next time: a number of microseconds that increases."""
    global last_time
    last_time = max(last_time + 1, time.time_ns() // 1000)
    return last_time


def stamp(micros):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(micros // 10**6)) + f".{micros % 10**6:06}Z"


def check_path(path):
    parts = path.split("/")
    if parts[0] != "projects" or parts[2] != "databases" or parts[4] != "documents":
        raise invalid(f"Document name {path!r} has invalid format.")
    if len(path.encode()) > 6144:
        raise invalid("Document name is longer than 6 KiB.")
    for part in parts[5:]:
        is_reserved = part in ("", ".", "..") or re.fullmatch("__.*__", part)
        if is_reserved or len(part.encode()) > 1500:
            raise invalid(f"Resource id {part!r} is invalid.")


def size(value):
    """The size of a value, by https://firebase.google.com/docs/firestore/storage-size."""
    kind, content = next(iter(value.items()))
    return {
        "stringValue": lambda: len(content.encode()) + 1,
        "bytesValue": lambda: len(b64decode(content, validate=True)),
        "integerValue": lambda: 8,
        "booleanValue": lambda: 1,
        "nullValue": lambda: 1,
    }[kind]()


def name_size(path):
    return sum(len(part.encode()) + 1 for part in path.split("/")[5:]) + 16


def document_size(path, fields):
    return name_size(path) + 32 + sum(len(name.encode()) + 1 + size(value) for name, value in fields.items())


def check_size(path, fields):
    for name, value in fields.items():
        if size(value) > 1_048_487:
            raise invalid(f'The value of property "{name}" is longer than 1048487 bytes.')
    if document_size(path, fields) > 1_048_576:
        raise invalid(f"Document {path!r} cannot be written because its size exceeds 1,048,576 bytes.")


def cost(path):
    """The size of a document and of its index entries: two of each field, with the first 1,500 bytes of its value."""
    if path not in documents:
        return 0
    fields = documents[path][0]
    names = name_size(path) + name_size(path.rsplit("/", 2)[0])
    entries = (names + len(name.encode()) + 1 + min(size(value), 1500) + 32 for name, value in fields.items())
    return document_size(path, fields) + 2 * sum(entries)


def number(value):
    text = value.get("integerValue")
    if text is not None and not -(2**63) <= int(text) < 2**63:
        raise invalid("An integer is too large.")
    return None if text is None else int(text)


def shown(path, mask=None):
    fields, created, updated = documents[path]
    if mask is not None:
        fields = {name: value for name, value in fields.items() if name in mask}
    return {"name": path, "fields": fields, "createTime": stamp(created), "updateTime": stamp(updated)}


def check_condition(write, path):
    condition = write.get("currentDocument", {})
    found = documents.get(path)
    if "exists" in condition and condition["exists"] != (found is not None):
        if found is None:
            raise Refused(404, "NOT_FOUND", f"No document to update: {path}")
        raise Refused(409, "ALREADY_EXISTS", f"Document already exists: {path}")
    if "updateTime" in condition and (found is None or stamp(found[2]) != condition["updateTime"]):
        raise Refused(400, "FAILED_PRECONDITION", "the stored version does not match the required base version")


def apply(write, moment):
    """Executes a write; returns its result."""
    if "delete" in write:
        check_path(write["delete"])
        check_condition(write, write["delete"])
        documents.pop(write["delete"], None)
        return {}
    update = write["update"]
    path, fields = update["name"], dict(update.get("fields", {}))
    check_path(path)
    check_condition(write, path)
    before, created, updated = documents.get(path, ({}, moment, None))
    if "updateMask" in write:
        mask = write["updateMask"].get("fieldPaths", [])
        new = {name: value for name, value in before.items() if name not in mask}
        new.update((name, value) for name, value in fields.items() if name in mask)
    else:
        new = fields
    results = []
    for transform in write.get("updateTransforms", []):
        name = transform["fieldPath"]
        old = number(new.get(name, {}))
        if "increment" in transform:
            value = min((old or 0) + number(transform["increment"]), LARGEST_NUMBER)
        else:
            value = number(transform["maximum"])
            value = value if old is None else max(old, value)
        new[name] = {"integerValue": str(value)}
        results.append(new[name])
    for value in new.values():
        number(value)
    check_size(path, new)
    # A write that changes nothing keeps the time.
    moment = updated if updated is not None and new == before else moment
    documents[path] = (new, created, moment)
    result = {"updateTime": stamp(moment)}
    if results:
        result["transformResults"] = results
    return result


def key_of(path, fields, name):
    """Returns what a document is compared by in the order of a field; None if it has no such field."""
    if name == "__name__":
        return tuple(part.encode() for part in path.split("/"))
    return None if name not in fields else comparable(fields[name])


def comparable(value):
    kind, content = next(iter(value.items()))
    if kind == "nullValue":
        return (0,)
    if kind == "booleanValue":
        return (1, content)
    if kind == "integerValue":
        return (2, int(content))
    if kind == "stringValue":
        return (4, content.encode()[:1500])
    if kind == "referenceValue":
        return tuple(part.encode() for part in content.split("/"))
    raise invalid(f"values of the kind {kind} are not ordered by this stand-in")


OPERATORS = {
    "EQUAL": lambda one, two: one == two,
    "LESS_THAN": lambda one, two: one < two,
    "LESS_THAN_OR_EQUAL": lambda one, two: one <= two,
    "GREATER_THAN": lambda one, two: one > two,
    "GREATER_THAN_OR_EQUAL": lambda one, two: one >= two,
}


def select(parent, query):
    """Returns the paths of a query's result."""
    unknown = set(query) - {"select", "from", "where", "orderBy", "startAt", "limit"}
    if unknown or len(query["from"]) != 1 or set(query["from"][0]) != {"collectionId"}:
        raise invalid(f"this stand-in does not know {unknown or query['from']}")
    collection = f"{parent}/{query['from'][0]['collectionId']}/"
    filters = query.get("where", {}).get("compositeFilter", {"op": "AND", "filters": []})
    if filters["op"] != "AND":
        raise invalid("this stand-in knows no other composition than AND")
    filters = [each["fieldFilter"] for each in filters["filters"]]
    orders = [(order["field"]["fieldPath"], order["direction"]) for order in query.get("orderBy", [])]
    # The index of a field has the order of its values, and of the names of documents within a value: it serves one
    # equality with a range of names.
    equal = {each["field"]["fieldPath"] for each in filters if each["op"] == "EQUAL"}
    fields = {each["field"]["fieldPath"] for each in filters} - equal
    if equal and (len(equal) > 1 or "__name__" in equal or orders != [("__name__", "ASCENDING")]):
        raise Refused(400, "FAILED_PRECONDITION", "The query requires an index.")
    if len(fields | {name for name, _ in orders if name != "__name__"}) > 1:
        raise Refused(400, "FAILED_PRECONDITION", "The query requires an index.")
    if fields and orders and orders[0][0] not in fields:
        raise invalid("the first order has to be that of the field with the inequality")
    if len({direction for _, direction in orders}) > 1:
        raise Refused(400, "FAILED_PRECONDITION", "The query requires an index.")
    found = []
    for path, (content, _, _) in documents.items():
        if not path.startswith(collection) or "/" in path[len(collection) :]:
            continue
        keys = [key_of(path, content, name) for name, _ in orders or [("__name__", "ASCENDING")]]
        if None in keys:
            continue
        for each in filters:
            key = key_of(path, content, each["field"]["fieldPath"])
            other = comparable(each["value"])
            if key is None:
                break
            # An inequality holds for values of one type only.
            is_same_type = each["field"]["fieldPath"] == "__name__" or key[0] == other[0]
            if not is_same_type or not OPERATORS[each["op"]](key, other):
                break
        else:
            found.append((keys, path))
    is_descending = any(direction == "DESCENDING" for _, direction in orders)
    found.sort(reverse=is_descending)
    if "startAt" in query:
        start = [comparable(value) for value in query["startAt"]["values"]]
        is_before = query["startAt"].get("before", False)

        def is_reached(keys):
            keys = keys[: len(start)]
            return keys == start if is_before and keys == start else (keys < start if is_descending else keys > start)

        found = [(keys, path) for keys, path in found if is_reached(keys)]
    return [path for _, path in found[: query.get("limit")]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # An answer is sent at once, and not in two parts.
    wbufsize = 1 << 20

    def log_message(self, *_):
        pass

    def answer(self, status, content):
        content = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, method = self.path.removeprefix("/v1/").rpartition(":")
        path = unquote(path)
        try:
            if self.headers.get("Authorization") != "Bearer owner":
                raise Refused(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
            if len(text) > LARGEST_REQUEST:
                raise invalid(f"Request payload size exceeds the limit: {LARGEST_REQUEST} bytes.")
            request = json.loads(text)
            if method in ("fail", "count"):
                with lock:
                    return self.answer(200, {"fail": fail, "count": count}[method](request))
            check_message(method, path, request)
            with lock:
                collection = re.search("/documents/([^/\"]+)", path + text.decode())
                check_faults(collection and collection[1], method, request)
                result = METHODS[method](path, request)
                found = sum("document" in part or "found" in part for part in result)
                requests, read = costs.get(collection and collection[1], (0, 0))
                costs[collection and collection[1]] = (requests + 1, read + found)
            self.answer(200, result)
        except Refused as error:
            content = {"error": {"code": error.code, "message": str(error), "status": error.status}}
            is_list = method in ("batchGet", "runQuery", "runAggregationQuery")
            self.answer(error.code, [content] if is_list else content)


def fail(request):
    """Makes the next requests to a collection fail."""
    fault = {name: request[name] for name in ("code", "status", "message", "method")}
    faults.setdefault(request["collection"], []).extend([fault] * request["times"])
    return {}


def count(request):
    """Returns what the requests to a collection have cost."""
    requests, read = costs.pop(request["collection"], (0, 0))
    return {"requests": requests, "documents": read}


def check_faults(collection, method, request):
    for fault in faults.get(collection, []):
        if fault["method"] in ("", method):
            faults[collection].remove(fault)
            transactions.pop(request.get("transaction"), None)
            raise Refused(fault["code"], fault["status"], fault["message"])


def check_message(method, path, request):
    if method not in MESSAGES:
        raise Refused(404, "NOT_FOUND", f"there is no method {method!r}")
    if official is None:
        return
    name = "parent" if method.startswith("run") else "database"
    value = path if name == "parent" else path.removesuffix("/documents")
    message = getattr(official, MESSAGES[method]).pb()()
    try:
        json_format.ParseDict({**request, name: value}, message)
    except json_format.ParseError as error:
        raise invalid(str(error)) from None


def remember(request, read):
    """Executes a read; notes it in its transaction."""
    result = read()
    if "transaction" in request:
        reads = transactions.get(request["transaction"])
        if reads is None:
            raise invalid("Invalid transaction.")
        reads.append((read, result))
    return result


def versions(paths):
    return [(path, documents[path][2] if path in documents else None) for path in paths]


def batch_get(_, request):
    paths = request["documents"]
    for path in paths:
        check_path(path)
    remember(request, lambda: versions(paths))
    mask = request.get("mask", {}).get("fieldPaths")
    moment = stamp(now())
    parts = [{"found": shown(path, mask)} if path in documents else {"missing": path} for path in paths]
    # The order of the answer is not that of the request.
    return [{**part, "readTime": moment} for part in reversed(parts)]


def begin(*_):
    transaction = b64encode(str(now()).encode()).decode()
    transactions[transaction] = []
    return {"transaction": transaction}


def commit(_, request):
    if "transaction" in request:
        reads = transactions.pop(request["transaction"], None)
        if reads is None:
            raise invalid("Invalid transaction.")
        if any(read() != result for read, result in reads):
            raise Refused(409, "ABORTED", "Too much contention on these documents. Please try again.")
    before = dict(documents)
    moment = now()
    try:
        writes = request.get("writes", [])
        total = sum(cost(write.get("delete", "")) for write in writes)
        results = [apply(write, moment) for write in writes]
        total += sum(cost(write["update"]["name"]) for write in writes if "update" in write)
        if total > LARGEST_TRANSACTION:
            raise invalid("Transaction too big. Decrease transaction size.")
    except Refused:
        documents.clear()
        documents.update(before)
        raise
    return {"writeResults": results, "commitTime": stamp(moment)} if results else {"commitTime": stamp(moment)}


def batch_write(_, request):
    paths = [write.get("delete") or write["update"]["name"] for write in request["writes"]]
    if len(set(paths)) < len(paths) or len(paths) > 500:
        raise invalid("a document is written twice, or there are too many writes")
    results, states = [], []
    for write in request["writes"]:
        try:
            results.append(apply(write, now()))
            states.append({})
        except Refused as error:
            results.append({})
            states.append({"code": 9, "message": str(error)})
    return {"writeResults": results, "status": states}


def rollback(_, request):
    transactions.pop(request["transaction"], None)
    return {}


def run_query(parent, request):
    query = request["structuredQuery"]
    found = remember(request, lambda: versions(select(parent, query)))
    mask = [field["fieldPath"] for field in query["select"]["fields"]] if "select" in query else None
    moment = stamp(now())
    parts = [{"document": shown(path, mask), "readTime": moment} for path, _ in found]
    return parts or [{"readTime": moment}]


def aggregate(parent, request):
    query = request["structuredAggregationQuery"]
    paths = select(parent, query["structuredQuery"])
    fields = {}
    for each in query["aggregations"]:
        if "count" in each:
            value = len(paths)
        else:
            name = each["sum"]["field"]["fieldPath"]
            value = sum(number(documents[path][0].get(name, {})) or 0 for path in paths)
        fields[each["alias"]] = {"integerValue": str(value)}
    return [{"result": {"aggregateFields": fields}, "readTime": stamp(now())}]


METHODS = {
    "batchGet": batch_get,
    "batchWrite": batch_write,
    "beginTransaction": begin,
    "commit": commit,
    "rollback": rollback,
    "runAggregationQuery": aggregate,
    "runQuery": run_query,
}

# Shells start background processes with this signal ignored.
signal.signal(signal.SIGINT, signal.SIG_DFL)
# Connections that come faster than threads are created.
ThreadingHTTPServer.request_queue_size = 500
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
