//! The embedded Python and the user's Python give the same result and print the same text.

use serde_json::{Value, json};

use crate::harness::{python, python3, tests, wait, with_state};

tests!(
    blocks_give_equal_results_in_both_pythons,
    failures_are_equal_in_both_pythons,
    embedded_python_gives_the_expected_results,
);

fn state() -> Value {
    json!({
        "name": "Ada", "n": 7, "price": 12.5, "tags": ["b", "a", "c"], "none": null, "yes": true,
        "rows": [{"id": 1, "score": 0.5}, {"id": 2, "score": 0.25}, {"id": 3, "score": null}],
        "text": "  Hello, World!\nsecond line\n", "big": 9_007_199_254_740_993_u64,
    })
}

const BLOCKS: [&str; 30] = [
    "return f\"{state['price']:>8.1f}|{0.5:%}|{255:#x}|{255:08b}|{-3:+d}|{1e10:g}|{'é':*<4}\"",
    "return [state.get('missing'), state.get('missing', 5), state.get('none', 5), 'n' in state]",
    "return [r['id'] for r in state['rows'] if r['score']]",
    "return {r['id']: r['score'] for r in state['rows']}",
    "return sorted({t.upper() for t in state['tags']})",
    "return [(x, y) for x in range(3) for y in range(x)]",
    "return json.dumps({'b': [1, 2.0, None, True], 'a': 'é\"'}, sort_keys=True)",
    "return json.dumps(state['rows'], indent=2, ensure_ascii=False)",
    "return json.loads('{\"a\": [1, 2.5, null, \"\\\\u00e9\"]}')",
    "def outer(x):\n  def inner(y):\n    return x + y\n  return inner\nreturn outer(1)(2)",
    "count = 0\ndef bump():\n  nonlocal count\n  count += 1\n  return count\nbump()\nbump()\nreturn count",
    "def f(a, b=2, *args, c=3, **kwargs):\n  return [a, b, args, c, kwargs]\nreturn [f(1), f(1, 2, 3, c=4, d=5), f(*[1, 2], **{'c': 9})]",
    "def fact(n):\n  return 1 if n < 2 else n * fact(n - 1)\nreturn fact(20)",
    "n = 0\nwhile True:\n  n += 1\n  if n == 3: continue\n  if n > 5: break\nelse:\n  n = -1\nreturn n",
    "for t in state['tags']:\n  if t == 'z': break\nelse:\n  return 'no z'\nreturn 'z'",
    "x = list(range(10))\nreturn [x[2:5], x[::-1], x[-3:], x[::3], x[:2], 'hello'[1:4], (1, 2, 3)[1:]]",
    "return sorted(state['rows'], key=lambda r: -(r['score'] or 0))",
    "x = [3, 1, 2]\nx.sort(reverse=True)\nx.append(0)\nx.insert(0, 9)\nx.extend([7])\nx.remove(1)\nreturn [x, x.pop(), x.index(9), x.count(3)]",
    "return sorted([('b', 1), ('a', 2), ('a', 1)])",
    "return ['a-b-c'.split('-', 1), 'x'.join(['a', 'b']), 'abc'.startswith('ab'), 'abc'.endswith(('x', 'c')), 'a'.zfill(3), 'ab'.ljust(4) + '|', 'Title case'.title(), '12'.isdigit()]",
    "first, *middle, last = [1, 2, 3, 4]\n(a, b), c = (1, 2), 3\na, b = b, a\nreturn [first, middle, last, a, b, c]",
    "return [0.1 + 0.2, 1e16, 1e-7, 1 / 3, 100.0, -0.0, str(1e22), repr(0.1), str(3.0)]",
    "d = {'a': 1}\nd.update({'b': 2})\nd.setdefault('c', []).append(3)\nx = d.pop('a')\nreturn [d, x, list(d), list(d.items()), {**d, 'z': 0}]",
    "d = {}\nfor w in 'a b a c b a'.split():\n  d[w] = d.get(w, 0) + 1\nreturn sorted(d.items(), key=lambda kv: (-kv[1], kv[0]))",
    "print('a', 1, 2.0, None, True, [1, 'x'], {'k': (1,)}, sep=' | ')\nprint('no newline', end='')\nprint()\nprint('tab\\tand \\'quotes\\'', repr('x\\n'))",
    "x = [[0] * 2 for _ in range(2)]\nx[0][1] = 5\ny = [row[:] for row in x]\ny[1][0] = 7\nreturn [x, y]",
    "text = '''line one\n  line two\n\tline three'''\nlines = [line.strip() for line in text.split('\\n')]\nresult = {'n': len(lines), 'lines': lines}",
    "total = 0\nfor row in state['rows']:\n  total += row['score'] or 0\n_hidden = 1\naverage = total / 3\nimport math\ndef helper(): return 1\nflag = helper() == 1",
    "matrix = [[1, 2], [3, 4]]\nreturn [list(r) for r in zip(*matrix)]",
    "assert state['n'] == 7, 'n is not 7'\npairs = {k: v for k, v in zip('abc', range(3)) if v}\nreturn pairs",
];

/// Blocks that fail in both with the same message and line.
const FAILURES: [&str; 15] = [
    "raise ValueError('no')",
    "x = 1\nraise KeyError('k')",
    "x = 1\n\nreturn x / 0",
    "def f():\n  return [][3]\n\nf()",
    "return undefined",
    "return state['missing']",
    "return len(5)",
    "int('x')",
    "assert False, 'never'",
    "assert False",
    "raise ValueError",
    "return float('inf')",
    "return {(1, 2): 3}",
    "return {1: 2, '1': 3}",
    "x = []\nfor _ in range(101): x = [x]\nreturn x",
];

fn blocks_give_equal_results_in_both_pythons() {
    let Some(theirs) = python3() else { return };
    wait(async {
        let ours = python();
        for source in BLOCKS {
            let expected = with_state(&theirs, source, state()).await;
            let expected =
                expected.unwrap_or_else(|failure| panic!("python3: {source}\n{failure}"));
            let ended = with_state(&ours, source, state()).await;
            let ended = ended.unwrap_or_else(|failure| panic!("{source}\n{failure}"));
            assert_eq!(ended, expected, "{source}");
        }
    });
}

fn failures_are_equal_in_both_pythons() {
    let Some(theirs) = python3() else { return };
    wait(async {
        let ours = python();
        for source in FAILURES {
            let expected = with_state(&theirs, source, state()).await.unwrap_err();
            assert_eq!(
                with_state(&ours, source, state()).await.unwrap_err(),
                expected,
                "{source}"
            );
        }
    });
}

/// Without a Python to compare with, at least these stand.
fn embedded_python_gives_the_expected_results() {
    wait(async {
        let ours = python();
        for (index, expected) in [
            (
                6,
                json!("{\"a\": \"\\u00e9\\\"\", \"b\": [1, 2.0, null, true]}"),
            ),
            (10, json!(2)),
            (
                21,
                json!([
                    0.1 + 0.2,
                    1e16,
                    1e-7,
                    1.0 / 3.0,
                    100.0,
                    -0.0,
                    "1e+22",
                    "0.1",
                    "3.0"
                ]),
            ),
        ] {
            let ended = with_state(&ours, BLOCKS[index], state()).await.unwrap();
            assert_eq!(ended.returned, expected, "{}", BLOCKS[index]);
        }
    });
}
