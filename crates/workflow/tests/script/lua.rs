//! `language: lua`: values, errors, and nothing that leads out of it.

use std::time::{Duration, Instant};

use cachalot_workflow::script::ScriptRunner;
use cachalot_workflow::script::lua::check;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::harness::{self, alone, failing, lua, lua_with, tests, wait, with_state};

tests!(
    values_convert_as_in_the_reference,
    values_without_json_form_are_refused_by_name,
    cyclic_and_exploding_values_are_refused,
    state_and_globals_are_private_to_the_block,
    printed_text_is_reported,
    time_is_the_clock_of_the_run,
    errors_have_the_line_of_the_file,
    check_finds_syntax_errors_and_runs_nothing,
    exactly_the_documented_libraries_are_available,
    removed_libraries_are_named_in_errors,
    bytecode_is_not_loaded,
    string_metatables_are_reset_after_the_block,
    endless_loops_are_stopped,
    endless_loops_in_native_functions_are_stopped,
    memory_is_limited,
    deep_recursion_is_an_error,
    coroutines_cannot_escape_the_limits,
    block_cannot_forge_an_answer,
    arbitrary_text_does_not_end_the_worker,
);

async fn returned(runner: &dyn ScriptRunner, source: &str, state: Value) -> Value {
    match with_state(runner, source, state).await {
        Ok(ended) => ended.returned,
        Err(failure) => panic!("{source}: {failure}"),
    }
}

/// Results of the reference implementation for the same blocks.
fn values_convert_as_in_the_reference() {
    wait(async {
        let runner = lua();
        for (source, state, expected) in [
            ("", json!({"x": 1}), json!(null)),
            ("return", json!({}), json!(null)),
            ("return nil", json!({}), json!(null)),
            ("return 42", json!({}), json!(42)),
            ("return 'é'", json!({}), json!("é")),
            ("return false", json!({}), json!(false)),
            ("return {}", json!({}), json!({})),
            ("return {a = {}}", json!({}), json!({"a": {}})),
            ("return {1, 2, 'x'}", json!({}), json!([1, 2, "x"])),
            ("return 1, 'two'", json!({}), json!([1, "two"])),
            ("return nil, 'why'", json!({}), json!([null, "why"])),
            (
                "return {a = 3.0, b = 3.5, c = 2^53, d = 10 / 2, e = -0.0, f = -2^63}",
                json!({}),
                json!({"a": 3, "b": 3.5, "c": 9_007_199_254_740_992_i64, "d": 5, "e": 0, "f": i64::MIN}),
            ),
            (
                "return {2^63, 1e300}",
                json!({}),
                json!([9.223_372_036_854_776e18, 1e300]),
            ),
            (
                "return {a = {1, nil, 3}, b = {[3] = 'x'}}",
                json!({}),
                json!({"a": [1, null, 3], "b": [null, null, "x"]}),
            ),
            (
                "return {a = {1, 2, k = 'v'}}",
                json!({}),
                json!({"a": {"1": 1, "2": 2, "k": "v"}}),
            ),
            (
                "return {a = {[0] = 'z', [1] = 'o'}}",
                json!({}),
                json!({"a": {"0": "z", "1": "o"}}),
            ),
            (
                "return {a = state.n, t = math.type(state.n), u = state.n + 1}",
                json!({"n": i64::MAX}),
                json!({"a": i64::MAX, "t": "integer", "u": i64::MIN}),
            ),
            (
                "return {t = math.type(state.f), s = tostring(state.f), v = state.f}",
                json!({"f": 2.0}),
                json!({"t": "float", "s": "2.0", "v": 2}),
            ),
            (
                "local n = 0 for _, v in ipairs(state.l) do n = n + v end return {n = n, len = #state.l}",
                json!({"l": [1, 2, 3]}),
                json!({"n": 6, "len": 3}),
            ),
            (
                "return {l = state.l, n = #state.l}",
                json!({"l": [1, null, 3, null]}),
                json!({"l": [1, null, 3], "n": 1}),
            ),
            ("return {l = state.l}", json!({"l": []}), json!({"l": {}})),
            (
                "return {m = state.m, z = state.m.k.z}",
                json!({"m": {"k": {"z": [1, {"q": null}]}}}),
                json!({"m": {"k": {"z": [1, {}]}}, "z": [1, {}]}),
            ),
            (
                "return {a = state.m['1'], b = state.m[1]}",
                json!({"m": {"1": "x"}}),
                json!({"a": "x"}),
            ),
            (
                "local t = {{1, 2}, {3, 4}} return {a = t[2][1], b = '{{ state.x }}'}",
                json!({"x": 1}),
                json!({"a": 3, "b": "{{ state.x }}"}),
            ),
            (
                "local s = ... return {a = s.x}",
                json!({"x": 5}),
                json!({"a": 5}),
            ),
            (
                "return {a = 7 // 2, b = 7 / 2, c = 7 % 3, d = 2^3, e = 7.0 // 2, s = '10' + 5, t = '3' * '4'}",
                json!({}),
                json!({"a": 3, "b": 3.5, "c": 1, "d": 8, "e": 3, "s": 15, "t": 12}),
            ),
            (
                "return {a = #'é', b = utf8.len('é'), c = ('x'):upper()}",
                json!({}),
                json!({"a": 2, "b": 1, "c": "X"}),
            ),
            (
                "local c = coroutine.wrap(function() coroutine.yield(1) end) return c()",
                json!({}),
                json!(1),
            ),
            (
                "return setmetatable({a = 1}, {__index = {b = 2}, __pairs = error, __len = error})",
                json!({}),
                json!({"a": 1}),
            ),
            ("-- lua\nreturn load('return 1 + 1')()", json!({}), json!(2)),
            (
                "return load('return x', 'n', 't', {x = 7})()",
                json!({}),
                json!(7),
            ),
        ] {
            assert_eq!(returned(&runner, source, state).await, expected, "{source}");
        }
        let keys = returned(&runner, "return {b = 1, a = 2, c = 3}", json!({})).await;
        let keys: Vec<&String> = keys.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["a", "b", "c"]);
    });
}

fn values_without_json_form_are_refused_by_name() {
    wait(async {
        let runner = lua();
        for (source, part) in [
            (
                "return {a = {b = print}}",
                r#"the returned value["a"]["b"] is a function"#,
            ),
            (
                "return {x = {1, 1 / 0}}",
                r#"the returned value["x"][2] is the number inf"#,
            ),
            ("return 0 / 0", "the returned value is the number"),
            ("return coroutine.create(print)", "is a thread"),
            ("return {a = '\\xff'}", "is text that is not UTF-8"),
            ("return {['\\xff'] = 1}", "a key that is not UTF-8"),
            ("return {[1.5] = 'x'}", "a key that is a number"),
            ("return {[true] = 'x'}", "a key that is a boolean"),
            ("return {[{}] = 'x'}", "a key that is a table"),
            ("return {[2] = 1, ['2'] = 1, a = 1}", "the same key in JSON"),
            ("return {[1000000000] = 1}", "1000000000 as the last index"),
            ("return {[math.maxinteger] = 1}", "as the last index"),
        ] {
            let failure = failing(&runner, source).await;
            assert_eq!(failure.kind, "script_error", "{source}: {failure}");
            assert!(failure.message.contains(part), "{source}: {failure}");
        }
        let failure = with_state(&runner, "return 1", json!({"n": u64::MAX})).await;
        let failure = failure.unwrap_err();
        assert!(
            failure.message.contains("18446744073709551615"),
            "{failure}"
        );
    });
}

fn cyclic_and_exploding_values_are_refused() {
    wait(async {
        let runner = lua_with(|options| options.memory_limit = 64 << 20);
        let failure = failing(&runner, "local t = {} t.t = t return t").await;
        assert!(
            failure.message.contains("nested more than 100"),
            "{failure}"
        );
        // A few tables that are 2^60 values of JSON.
        let failure = failing(
            &runner,
            "local t = {1} for _ = 1, 60 do t = {t, t} end return t",
        )
        .await;
        assert!(
            failure.message.contains("too many values") || failure.kind == "script_memory",
            "{failure}"
        );
    });
}

fn state_and_globals_are_private_to_the_block() {
    wait(async {
        let runner = lua_with(|options| options.workers = 1);
        let source = "state.x = 9 leaked = 1 string.upper = nil";
        let ended = returned(&runner, source, json!({"x": 1})).await;
        assert_eq!(ended, json!(null));
        let source = "return {leaked = type(leaked), x = state.x, upper = ('x'):upper()}";
        let ended = returned(&runner, source, json!({})).await;
        assert_eq!(ended, json!({"leaked": "nil", "upper": "X"}));
        let variables = harness::object(json!({"v": [1]}));
        let block = harness::block("return {v = variables.v[1], a = state.a}");
        let state = harness::object(json!({"a": 2}));
        let ended = runner.run(&block, &state, &variables).await.unwrap();
        assert_eq!(ended.returned, json!({"a": 2, "v": 1}));
    });
}

fn printed_text_is_reported() {
    wait(async {
        let runner = lua();
        let source = "print('a', 1, 2.0, nil, true)\nprint()\nprint('\\xff')\nerror('bad')";
        let failure = failing(&runner, source).await;
        assert_eq!(failure.printed, "a\t1\t2.0\tnil\ttrue\n\n\u{fffd}\n");
        assert_eq!((failure.line, &*failure.message), (Some(4), "bad"));
        let source = "for _ = 1, 40 do print(('x'):rep(100000)) end";
        let printed = alone(&runner, source).await.unwrap().printed;
        assert!(printed.len() < 1_100_000 && printed.contains("more bytes were printed"));
    });
}

fn time_is_the_clock_of_the_run() {
    wait(async {
        let clock = std::sync::Arc::new(cachalot_core::ManualClock::at(1_772_323_200_000));
        let runner = lua_with(|options| options.clock = clock);
        let source = "return {now = os.time(), text = os.date('%Y-%m-%d %H:%M'), clock = math.type(os.clock()), \
                      utc = os.date('!%H'), of = os.time{year = 2026, month = 3, day = 1, hour = 0}, \
                      year = os.date('*t').year, then_ = os.date('%F', 0)}";
        assert_eq!(
            returned(&runner, source, json!({})).await,
            json!({"now": 1_772_323_200, "text": "2026-03-01 00:00", "clock": "float", "utc": "00",
                   "of": 1_772_323_200, "year": 2026, "then_": "1970-01-01"})
        );
        let failure = failing(&runner, "local x = 1\nos.date('%Ez')").await;
        assert_eq!(failure.line, Some(2), "{failure}");
        assert!(failure.message.starts_with("bad argument #1"), "{failure}");
    });
}

fn errors_have_the_line_of_the_file() {
    wait(async {
        let runner = lua();
        for (source, line, message) in [
            (
                "local x\nlocal y = x.z",
                42,
                "attempt to index a nil value (local 'x')",
            ),
            ("\n\nerror('bad')", 43, "bad"),
            ("\nerror('bad', 0)", 42, "bad"),
            (
                "local function f()\n  error('deep')\nend\n\nf()",
                42,
                "deep",
            ),
            ("x = 1\nerror()", 42, "nil"),
            (
                "error({code = 1})",
                41,
                "the block raised an error that is a table: raise text, or give it `__tostring`",
            ),
            (
                "error(setmetatable({}, {__tostring = function() return 'mine' end}))",
                41,
                "mine",
            ),
            (
                "local t = {}\n\ntable.concat({t})",
                43,
                "invalid value (table) at index 1 in table for 'concat'",
            ),
            ("local x = = 1", 41, "not Lua: unexpected symbol near '='"),
            ("\nif x then\n", 42, "not Lua: 'end' expected near <eof>"),
            (
                "goto nowhere",
                41,
                "not Lua: no visible label 'nowhere' for <goto> at line 41",
            ),
        ] {
            let block = cachalot_workflow::script::Script {
                source: source.to_owned(),
                first_line: 41,
            };
            let failure = runner.run(&block, &Map::new(), &Map::new()).await;
            let failure = failure.unwrap_err();
            assert_eq!(failure.message, message, "{source}");
            assert_eq!(failure.line, Some(line), "{source}: {failure}");
            assert_eq!(failure.kind, "script_error");
        }
    });
}

fn check_finds_syntax_errors_and_runs_nothing() {
    for (source, line, message) in [
        ("x = (1 + 2", 7, "not Lua: ')' expected near <eof>"),
        ("\nlocal 1 = 2", 8, "not Lua: <name> expected near '1'"),
        (
            "if true then\n x = 1\n\n",
            8,
            "not Lua: 'end' expected (to close 'if' at line 7) near <eof>",
        ),
        ("return 'a\n", 7, "not Lua: unfinished string near <eof>"),
        (
            "x = [[",
            7,
            "not Lua: unfinished long string (starting at line 7) near <eof>",
        ),
    ] {
        let failure = check(source, 7).unwrap_err();
        assert_eq!(failure.message, message, "{source}");
        assert_eq!(failure.line, Some(line), "{source}");
    }
    for source in [
        "",
        "while true do end",
        "error('x')",
        "-- lua\nreturn {}",
        "return 1 -- \u{e9}\n\n",
    ] {
        assert_eq!(check(source, 1), Ok(()), "{source}");
    }
    for source in [
        "(".repeat(100_000),
        "{".repeat(100_000),
        "x = ".to_owned() + &"-".repeat(100_000).replace("--", "- ") + "1",
        "if x then ".repeat(10_000),
        "a.".repeat(50_000),
        "x = '".to_owned() + &"é".repeat(100_000) + "'",
        "\x1bLua\x54\0\x19".to_owned(),
    ] {
        assert!(check(&source, 1).is_err(), "{:.30}", source);
    }
}

fn exactly_the_documented_libraries_are_available() {
    wait(async {
        let runner = lua();
        let source = "local names = {} for name in pairs(_G) do names[#names + 1] = name end\n\
                      table.sort(names) local os_ = {} for name in pairs(os) do os_[#os_ + 1] = name end\n\
                      table.sort(os_) return {g = table.concat(names, ' '), os = table.concat(os_, ' ')}";
        assert_eq!(
            returned(&runner, source, json!({})).await,
            json!({
                "g": "_G _VERSION assert collectgarbage coroutine error getmetatable ipairs load math next os \
                      pairs pcall print rawequal rawget rawlen rawset select setmetatable state string table \
                      tonumber tostring type utf8 variables xpcall",
                "os": "clock date time",
            })
        );
    });
}

fn removed_libraries_are_named_in_errors() {
    wait(async {
        let runner = lua();
        for (source, part) in [
            ("io.open('/etc/passwd')", "no access to files"),
            ("os.execute('true')", "no access to processes"),
            ("os.getenv('HOME')", "no access to the environment"),
            ("os.exit(0)", "`os.exit`: use `return`"),
            ("os.remove('/tmp/x')", "no access to files"),
            ("require('os')", "no access to modules"),
            (
                "package.loadlib('libc.so.6', 'system')",
                "no access to modules",
            ),
            ("dofile('/etc/passwd')", "no access to files"),
            ("loadfile('/etc/passwd')", "no access to files"),
            ("debug.getregistry()", "no access to `debug`"),
            ("string.dump(print)", "no access to bytecode"),
        ] {
            let failure = failing(&runner, &format!("local x = 1\n{source}")).await;
            assert_eq!(failure.kind, "script_unsupported", "{source}: {failure}");
            assert_eq!(failure.line, Some(2), "{source}: {failure}");
            assert!(failure.message.contains(part), "{source}: {failure}");
        }
    });
}

fn bytecode_is_not_loaded() {
    wait(async {
        let runner = lua();
        let source = r#"
            local code = "\27Lua\x54\0\x19\x93\r\n\x1a\n"
            local one, why_one = load(code)
            local two, why_two = load(code, "x", "b")
            local three, why_three = load(function() local it = code code = nil return it end, "x", "bt", {})
            return {one = one == nil and why_one, two = two == nil and why_two, three = three == nil and why_three}
        "#;
        let refused = "attempt to load a binary chunk (mode is 't')";
        assert_eq!(
            returned(&runner, source, json!({})).await,
            json!({"one": refused, "two": refused, "three": refused})
        );
        let failure = failing(&runner, "\x1bLua\x54\0").await;
        assert_eq!(failure.kind, "script_error", "{failure}");
    });
}

fn string_metatables_are_reset_after_the_block() {
    wait(async {
        let runner = lua_with(|options| options.workers = 1);
        let source = "local m = getmetatable('') m.__index = function() return 'caught' end\n\
                      m.__add = function() return 'added' end return {a = ('x').y, b = 'p' + 'q'}";
        let ended = returned(&runner, source, json!({})).await;
        assert_eq!(ended, json!({"a": "caught", "b": "added"}));
        let source = "return {a = type(('x').y), b = ('x'):rep(2)}";
        assert_eq!(
            returned(&runner, source, json!({})).await,
            json!({"a": "nil", "b": "xx"})
        );
    });
}

/// The message at a time limit of 100 ms, from the worker and from its parent.
const STOPPED: &str = "the block ran longer than its time limit of 100ms and was stopped";

fn endless_loops_are_stopped() {
    wait(async {
        let runner = lua_with(|options| options.time_limit = Duration::from_millis(100));
        for (source, line) in [
            ("while true do end", Some(1)),
            ("local x = 1\nrepeat x = x + 1\nuntil false", None),
            ("local function f() return f() end\nreturn f()", Some(1)),
            ("pcall(function()\nwhile true do end end)", Some(2)),
            (
                "coroutine.wrap(function()\nwhile true do end end)()",
                Some(2),
            ),
            (
                "local t = setmetatable({}, {__index = function(t, k) return t[k .. 'x'] end}) return t.a",
                None,
            ),
        ] {
            let began = Instant::now();
            let failure = failing(&runner, source).await;
            assert!(began.elapsed() < Duration::from_secs(60), "{source}");
            if source.contains("__index") {
                continue; // The stack may end before the time does.
            }
            assert_eq!(failure.kind, "script_timeout", "{source}: {failure}");
            assert_eq!(failure.message, STOPPED, "{source}");
            assert!(
                line.is_none() || failure.line == line,
                "{source}: {failure:?}"
            );
        }
        assert_eq!(returned(&runner, "return 1", json!({})).await, json!(1));
    });
}

fn endless_loops_in_native_functions_are_stopped() {
    wait(async {
        let runner = lua_with(|options| options.time_limit = Duration::from_millis(100));
        for source in [
            // Matching that takes forever.
            "return (('a'):rep(40) .. 'b'):find(('a*'):rep(30) .. 'c')",
            "while true do pcall(function() while true do end end) end",
            "table.move({}, 1, 1 << 50, 2)",
            "setmetatable({}, {__gc = function() while true do end end})",
            "setmetatable({}, {__gc = function() while true do end end}) collectgarbage()",
            "local c <close> = setmetatable({}, {__close = function() while true do end end})",
            "error(setmetatable({}, {__tostring = function() while true do end end}))",
        ] {
            let began = Instant::now();
            let failure = failing(&runner, source).await;
            assert!(began.elapsed() < Duration::from_secs(60), "{source}");
            assert_eq!(failure.kind, "script_timeout", "{source}: {failure}");
            assert_eq!(failure.message, STOPPED, "{source}");
        }
        assert_eq!(returned(&runner, "return 1", json!({})).await, json!(1));
    });
}

fn memory_is_limited() {
    wait(async {
        let runner = lua_with(|options| options.memory_limit = 64 << 20);
        for source in [
            "return #('x'):rep(1 << 40)",
            "local s = 'x' while true do s = s .. s end",
            "local t = {} while true do t[#t + 1] = {} end",
            "local t = {} for i = 1, 1 << 30 do t[i] = i end",
            "return table.concat({}, ('x'):rep(1 << 20), 1, 1 << 20)",
            "return ('x'):rep(1 << 20):gsub('x', ('y'):rep(1 << 20))",
            "local t = {} collectgarbage('collect') while true do t[#t + 1] = ('x'):rep(1 << 20) .. #t end",
            "local function f() local t = {} for i = 1, 100 do t[i] = coroutine.create(f) coroutine.resume(t[i]) end end\nlocal all = {} while true do all[#all + 1] = coroutine.create(f) end",
        ] {
            let failure = failing(&runner, source).await;
            let is_limit = failure.kind == "script_memory"
                || failure.message.contains("invalid value (nil) at index 1")
                || failure.message.contains("resulting string too large");
            assert!(is_limit, "{source}: {} {failure}", failure.kind);
        }
        // Memory that is given back counts no more.
        let source = "local ok, why = pcall(string.rep, 'x', 1 << 40) return {ok = ok, why = why}";
        let ended = returned(&runner, source, json!({})).await;
        assert_eq!(ended["ok"], json!(false), "{ended}");
        assert_eq!(
            returned(&runner, "return #('x'):rep(1 << 20)", json!({})).await,
            json!(1 << 20)
        );
    });
}

fn deep_recursion_is_an_error() {
    wait(async {
        let runner = lua();
        for source in [
            "local function f() return 1 + f() end return f()",
            "local function f() return pcall(f) and 1 end error(tostring(f()) .. ' overflow')",
            "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
            "local t = setmetatable({}, {}) getmetatable(t).__index = function(_, k) return t[k] end return t.x",
            "local t = {} setmetatable(t, {__tostring = function() return tostring(t) end}) return tostring(t)",
            "local function f(s) return (s:gsub('.', f)) end return f('x')",
            "local f f = coroutine.wrap(function() f() end) f()",
            "local function f() return coroutine.wrap(f)() end return f()",
            "local t = setmetatable({}, {__concat = function(a, b) return a .. b end}) return t .. t",
            "return load('return ' .. ('('):rep(10000) .. '1' .. (')'):rep(10000))()",
            "return string.rep('x', 300):find(('(x'):rep(300))",
            "return select('#', table.unpack({}, 1, 1e7))",
            "return select('#', ('x'):rep(1e7):byte(1, -1))",
        ] {
            let failure = failing(&runner, source).await;
            assert!(
                ["script_error", "script_memory"].contains(&failure.kind),
                "{source}: {} {failure}",
                failure.kind
            );
        }
        assert_eq!(returned(&runner, "return 1", json!({})).await, json!(1));
    });
}

fn coroutines_cannot_escape_the_limits() {
    wait(async {
        let runner = lua();
        for (source, expected) in [
            (
                "return select(2, coroutine.resume(coroutine.running()))",
                json!("cannot resume non-suspended coroutine"),
            ),
            (
                "return select(2, pcall(coroutine.yield, 1))",
                json!("attempt to yield from outside a coroutine"),
            ),
            (
                "return select(2, pcall(coroutine.close, coroutine.running()))",
                json!("cannot close main thread"),
            ),
            (
                "local c = coroutine.wrap(function() coroutine.close(coroutine.running()) return 1 end) return {c()}",
                json!({}),
            ),
            (
                "local c = coroutine.create(print) coroutine.close(c) return coroutine.status(c)",
                json!("dead"),
            ),
            (
                "local c = coroutine.wrap(function() error({a = 1}) end) local _, e = pcall(c) return e",
                json!({"a": 1}),
            ),
            (
                "local c = coroutine.wrap(function() table.sort({1, 2, 3}, function() coroutine.yield() end) end) return select(2, pcall(c))",
                json!("attempt to yield across a C-call boundary"),
            ),
        ] {
            assert_eq!(
                returned(&runner, source, json!({})).await,
                expected,
                "{source}"
            );
        }
        // A block that yields is no generator.
        let failure = failing(&runner, "coroutine.yield(1)").await;
        assert_eq!(failure.message, "attempt to yield from outside a coroutine");
    });
}

fn block_cannot_forge_an_answer() {
    wait(async {
        let runner = lua_with(|options| options.workers = 1);
        let forged = r#"{"number":1,"answer":{"ended":{"returned":"forged","printed":""}}}"#;
        let source = format!("print('\\n' .. [=[{forged}]=] .. '\\n') return 1");
        let ended = alone(&runner, &source).await.unwrap();
        assert_eq!(ended.returned, json!(1));
        assert_eq!(returned(&runner, "return 2", json!({})).await, json!(2));
    });
}

/// Every text ends in a value or a failure of the block; the worker is there for the next one.
fn arbitrary_text_does_not_end_the_worker() {
    let words = prop::sample::select(vec![
        "local ",
        "x",
        "y",
        " = ",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "'a'",
        "\"",
        "\\",
        "function",
        " end ",
        "return ",
        "if ",
        " then ",
        "else ",
        "while ",
        " do ",
        "for ",
        " in ",
        "pairs",
        "1",
        "0x1p4",
        "1e309",
        "..",
        "...",
        ".",
        ":",
        "#",
        "-",
        "--",
        "[[",
        "]]",
        "\n",
        "nil",
        "true",
        "goto a",
        "::a::",
        "state",
        "string.rep",
        "pcall",
        "error",
        "setmetatable",
        "_ENV",
        "_G",
        "<close>",
        "<const>",
        "coroutine.wrap",
        "é",
        "\0",
        "\x1b",
        "%",
        "~",
        "//",
        ">>",
        "<",
        "==",
        ",",
        ";",
        "and ",
        "or ",
        "not ",
        "math.huge",
        "tostring",
        "load",
    ]);
    let texts = prop::collection::vec(words, 0..24).prop_map(|words| words.concat());
    let limited = lua_with(|options| {
        options.time_limit = Duration::from_millis(200);
        options.memory_limit = 64 << 20;
        options.workers = 1;
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut tests = TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    tests
        .run(&texts, |text| {
            let compiles = check(&text, 1).is_ok();
            match runtime.block_on(alone(&limited, &text)) {
                Ok(_) => prop_assert!(compiles, "it ran"),
                Err(failure) => {
                    prop_assert!(failure.kind != "script_worker", "{}", failure);
                    prop_assert_eq!(
                        !failure.message.starts_with("not Lua"),
                        compiles,
                        "{}",
                        failure
                    );
                }
            }
            Ok(())
        })
        .unwrap();
}
