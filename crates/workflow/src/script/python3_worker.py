"""Runs blocks of an agent file: one line of JSON in, one line of JSON out."""
import sys

# Files of the working directory, from which blocks may import, do not take the place of the standard library here.
DIRECTORY = [sys.path.pop(0)] if sys.path[:1] == [""] else []
import ast, contextlib, io, json, math, os, queue, threading, types

DEEPEST = 100
MOST_COMPILED = 256
COMPILED = {}
GIVEN = {"state", "variables", "json", "print"}
RESULTS = "parallel_results"
# Fields of the result of a branch: those that the state has, and those that are the same for all.
KEPT = ("branch", "index", "success", "state", "result", "error", "error_type", "subgraph")
ALWAYS = {
    "error": None, "error_type": None, "traceback": None, "timeout": False, "retry_count": 0,
    "circuit_state": None, "attempt_errors": [], "exit_code": None,
}


class BranchResult(dict):
    """The result of a branch as a block sees it: with its fields as attributes, with the fields of
    its state as items, and with what the branch saw besides what it has set."""

    def __init__(self, given, base):
        seen = dict(given["state"])
        with_views(seen, {})
        self.given, self.base = given["state"], base
        # A subgraph saw nothing but its own state.
        if given["success"] and "subgraph" not in given:
            seen.update({k: v for k, v in base.items() if k not in seen})
        super().__init__(given, state=seen)
        for key, value in ALWAYS.items():
            self.setdefault(key, list(value) if isinstance(value, list) else value)
        for key, value in seen.items():
            self.setdefault(key, value)

    def __getattr__(self, name):
        if name in KEPT or name in ALWAYS:
            try:
                return self[name]
            except KeyError:
                pass
        raise AttributeError(f"'dict' object has no attribute {name!r}")

    def to_dict(self):
        return {key: self[key] for key in self if key in KEPT or key in ALWAYS}

    def unviewed(self):
        """The result as the state has it."""
        plain = {}
        for key, value in self.items():
            if key == "state" and isinstance(value, dict):
                plain[key] = {k: v for k, v in value.items() if self.is_own(k, v)}
            elif key in KEPT:
                if value is not None or key not in ALWAYS:
                    plain[key] = value
            elif key not in ALWAYS and key not in self["state"]:
                plain[key] = value
        return plain

    def is_own(self, key, value):
        return key in self.given or key not in self.base or self.base[key] is not value


def is_result(value):
    has = isinstance(value, dict) and "branch" in value and "success" in value
    return has and isinstance(value.get("state"), dict)


def has_results(value):
    return isinstance(value, list) and bool(value) and is_result(value[0])


def with_views(state, base):
    """Has the results in a state shown as blocks see them."""
    for key, value in state.items():
        if has_results(value):
            state[key] = [BranchResult(it, base) if is_result(it) else it for it in value]


class Unfit(Exception):
    """A value that JSON has no place for, and the steps that lead to it."""

    def __init__(self, what):
        self.what, self.steps = what, []

    def message(self, root):
        return f"{root}{''.join(reversed(self.steps))} is {self.what}"


class Printed(io.TextIOBase):
    """What a block prints, up to a limit in bytes."""

    def __init__(self, most):
        self.kept, self.room, self.dropped = [], most, 0

    def writable(self):
        return True

    def write(self, text):
        data = text.encode("utf-8", "replace")
        kept = data[: self.room].decode("utf-8", "ignore") if not self.dropped else ""
        size = len(kept.encode("utf-8"))
        self.kept.append(kept)
        self.room -= size
        self.dropped += len(data) - size
        return len(text)

    def whole(self):
        text = "".join(self.kept)
        if self.dropped:
            text += f"\n[{self.dropped} more bytes were printed and not kept]\n"
        return text


INSTEAD = (
    ((set, frozenset), "return sorted(value) or list(value)"),
    ((bytes, bytearray), "return value.decode() or value.hex()"),
    ((BaseException,), "return str(value)"),
    ((range,), "return list(value)"),
)


def plain(value, left):
    """A value for the wire; tuples become lists and int keys text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise Unfit("text with half a surrogate pair, which JSON does not have") from None
        return str(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise Unfit(
                "an integer beyond 64 bits, which JSON readers round; return it as text: str(value)"
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unfit(
                f"the float {float(value)!r}, which JSON does not have; return None or text instead"
            )
        return float(value)
    if isinstance(value, (list, tuple)):
        left = deeper(left)
        return [under(f"[{index}]", item, left) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return dict_plain(value, left)
    raise unfit(value)


def dict_plain(value, left):
    if isinstance(value, BranchResult):
        value = value.unviewed()
    left, result = deeper(left), {}
    for key, item in value.items():
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise Unfit(
                f"a dict with the key {shortened(repr(key))} ({type(key).__name__}); "
                "keys must be text: str(key)"
            )
        text = plain(key, left) if isinstance(key, str) else str(int(key))
        if text in result:
            raise Unfit(
                f"a dict with the keys {text} and '{text}', which are the same key in JSON"
            )
        result[text] = under(f"[{key!r}]", item, left)
    return result


def under(step, value, left):
    try:
        return plain(value, left)
    except Unfit as unfit:
        unfit.steps.append(step)
        raise


def deeper(left):
    if left == 0:
        raise Unfit(f"nested more than {DEEPEST} levels deep")
    return left - 1


def unfit(value):
    instead = next((how for kinds, how in INSTEAD if isinstance(value, kinds)), None)
    if instead is None:
        for method in ("isoformat", "total_seconds"):
            if hasattr(value, method):
                instead = f"return value.{method}()"
                break
        else:
            fspath = hasattr(value, "__fspath__")
            instead = "return str(value)" if fspath else "return text, numbers, lists and dicts"
    name = type(value).__name__
    return Unfit(f"a value of type {name}, which JSON does not have; {instead}")


def shortened(text):
    return text[:60] + "…" if len(text) > 60 else text


def returns(statements):
    """Whether the block itself returns, as opposed to a function that it defines."""
    todo = list(statements)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))
    return False


def assigned(tree):
    """Every name that the block assigns anywhere and may show."""
    names = {}
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None
        if type(node).__name__ in ("MatchAs", "MatchStar"):
            name = node.name
        if name and not name.startswith("_") and name not in GIVEN:
            names[name] = True
    return list(names)


def run(block):
    """Runs a block and returns what it returned and what it did to its state, for the wire."""
    if block.get("compile_only"):
        compiled(block["source"])
        return None, {"set": {}, "removed": []}
    state, reached = block["state"], "state" in block["source"] or RESULTS in block["source"]
    before = {key: json.dumps(value) for key, value in state.items()} if reached else {}
    with_views(state, {k: v for k, v in state.items() if not has_results(v)})
    returned = value_of(block, state)
    return returned, changes(before, state) if reached else {"set": {}, "removed": []}


def changes(before, state):
    hint = "; the state keeps what a block puts into it"
    after = {}
    for key, value in state.items():
        try:
            name = plain(key, 0) if isinstance(key, str) else next(iter(dict_plain({key: None}, 1)))
        except Unfit as unfit:
            raise Refused(unfit.message("state") + hint) from None
        after[name] = root(value, f"state[{key!r}]", DEEPEST - 1, hint)
    changed = {k: v for k, v in after.items() if k not in before or json.dumps(v) != before[k]}
    return {"set": changed, "removed": [key for key in before if key not in after]}


def compiled(source):
    """The code of a block, and the names that it may show, or None if it is the body of a function."""
    known = COMPILED.get(source)
    if known is None:
        tree = ast.parse(source, "<block>")
        shown = None
        if returns(tree.body):
            whole = ast.parse("def __block__(state, variables, json): pass")
            whole.body[0].body = tree.body
            tree = whole
        else:
            shown = assigned(tree)
        known = compile(tree, "<block>", "exec"), shown
        if len(COMPILED) >= MOST_COMPILED:
            COMPILED.clear()
        COMPILED[source] = known
    return known


def value_of(block, state):
    """Runs a block and returns what it returned."""
    code, shown = compiled(block["source"])
    given = {
        "state": state,
        "variables": block["variables"],
        "json": json,
    }
    names = {"__name__": "__block__", **given}
    if RESULTS in state:
        names[RESULTS] = state[RESULTS]
    exec(code, names)
    if shown is None:
        return root(names["__block__"](**given), "the returned value", DEEPEST, "")
    hint = (
        "; a name that begins with `_` stays inside the block, and `return` defines its result"
    )
    definitions = (type, types.ModuleType, types.FunctionType, types.MethodType)
    definitions += (types.BuiltinFunctionType,)
    return {
        name: root(names[name], name, DEEPEST - 1, hint)
        for name in shown
        if name in names and not isinstance(names[name], definitions)
    }


def root(value, name, left, hint):
    try:
        return plain(value, left)
    except Unfit as unfit:
        raise Refused(unfit.message(name) + hint) from None


class Refused(Exception):
    """What a block returned cannot leave it."""


def explained(error):
    """The exception as Python prints its last line, and the line of the block."""
    if isinstance(error, SyntaxError) and error.filename == "<block>":
        return f"{type(error).__name__}: {error.msg}", error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<block>":
            line = trace.tb_lineno
        trace = trace.tb_next
    kind = type(error)
    module = kind.__module__
    name = kind.__qualname__ if module in ("builtins", "__block__") else f"{module}.{kind.__qualname__}"
    try:
        text = str(error)
    except Exception:
        text = "<exception str() failed>"
    return f"{name}: {text}" if text else name, line


def answer(block):
    printed = Printed(block["most_printed"])
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            returned, changed = run(block)
        return {"ended": {"returned": returned, "printed": printed.whole(), "changes": changed}}
    except Refused as refused:
        kind, message, line = "script_error", str(refused), None
    except MemoryError as error:
        kind, (message, line) = "script_memory", explained(error)
        message += "; `settings.python.memory_limit` is the limit"
    except SystemExit as error:
        kind, (message, line) = "script_error", explained(error)
        message += "; the block called exit, which fails it: `return` ends a block"
    except BaseException as error:
        kind, (message, line) = "script_error", explained(error)
    if line is not None:
        line += block["first_line"] - 1
    failed = {"kind": kind, "message": message, "line": line, "printed": printed.whole()}
    return {"failed": failed}


def limit_memory(limit):
    """Limits the address space to what it is now, and `limit` bytes more; 0 means no limit."""
    if limit and sys.platform == "linux":
        import resource

        with open("/proc/self/statm") as sizes:
            now = int(sizes.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + limit, now + limit))


def main():
    # The pipes to our parent are ours alone: what a block starts or prints past us gets others.
    lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    todo = queue.Queue()

    def read():
        for line in lines:
            todo.put(line)
        # Our parent is gone, or has no more use for us: not even the running block goes on.
        os._exit(0)

    own = os.getpid()
    limit_memory(json.loads(lines.readline())["memory_limit"])
    sys.path[:0] = DIRECTORY
    threading.Thread(target=read, daemon=True).start()
    say(answers, b"ready %d.%d" % sys.version_info[:2])
    while True:
        block = json.loads(todo.get())
        reply = {"number": block["number"], "answer": answer(block)}
        if os.getpid() != own:
            # A copy of us, made by the block: the answer is the original's to give.
            os._exit(0)
        say(answers, json.dumps(reply).encode("ascii", "backslashreplace"))


def say(answers, line):
    answers.write(line + b"\n")
    answers.flush()


main()
