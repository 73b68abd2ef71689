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

const BLOCKS: [&str; 59] = [
    "return f\"{state['name']!r:>10}|{state['n']:03d}|{state['price']:.2f}|{1000000:,}|{'x':^5}|{state['n']=}\"",
    "return f\"{state['price']:>8.1f}|{0.5:%}|{255:#x}|{255:08b}|{-3:+d}|{1e10:g}|{'é':*<4}\"",
    "width = 6\nreturn f\"{state['name']:{width}}|{'nested ' + f'{1 + 1}'}|{{}}\"",
    "return [state.get('missing'), state.get('missing', 5), state.get('none', 5), 'n' in state]",
    "return [r['id'] for r in state['rows'] if r['score']]",
    "return {r['id']: r['score'] for r in state['rows']}",
    "return sorted({t.upper() for t in state['tags']})",
    "return [(x, y) for x in range(3) for y in range(x)]",
    "return sum(r['score'] or 0 for r in state['rows'])",
    "return json.dumps({'b': [1, 2.0, None, True], 'a': 'é\"'}, sort_keys=True)",
    "return json.dumps(state['rows'], indent=2, ensure_ascii=False)",
    "return json.loads('{\"a\": [1, 2.5, null, \"\\\\u00e9\"]}')",
    "def outer(x):\n  def inner(y):\n    return x + y\n  return inner\nreturn outer(1)(2)",
    "count = 0\ndef bump():\n  nonlocal count\n  count += 1\n  return count\nbump()\nbump()\nreturn count",
    "def f(a, b=2, *args, c=3, **kwargs):\n  return [a, b, args, c, kwargs]\nreturn [f(1), f(1, 2, 3, c=4, d=5), f(*[1, 2], **{'c': 9})]",
    "def fact(n):\n  return 1 if n < 2 else n * fact(n - 1)\nreturn fact(20)",
    "try:\n  x = 1 / 0\nexcept ZeroDivisionError as e:\n  x = str(e)\nelse:\n  x = 'else'\nfinally:\n  print('finally')\nreturn x",
    "try:\n  int('x')\nexcept (TypeError, ValueError) as e:\n  return [type(e).__name__, str(e)]",
    "try:\n  state['missing']\nexcept KeyError as e:\n  return repr(e)",
    "try:\n  raise RuntimeError('a')\nexcept Exception:\n  try:\n    raise\n  except RuntimeError as e:\n    return str(e)",
    "n = 0\nwhile True:\n  n += 1\n  if n == 3: continue\n  if n > 5: break\nelse:\n  n = -1\nreturn n",
    "for t in state['tags']:\n  if t == 'z': break\nelse:\n  return 'no z'\nreturn 'z'",
    "total = 0\nfor i, t in enumerate(state['tags'], start=1):\n  total += i * len(t)\nreturn total",
    "x = list(range(10))\nreturn [x[2:5], x[::-1], x[-3:], x[::3], x[:2], 'hello'[1:4], (1, 2, 3)[1:]]",
    "return sorted(state['rows'], key=lambda r: -(r['score'] or 0))",
    "x = [3, 1, 2]\nx.sort(reverse=True)\nx.append(0)\nx.insert(0, 9)\nx.extend([7])\nx.remove(1)\nreturn [x, x.pop(), x.index(9), x.count(3)]",
    "return sorted([('b', 1), ('a', 2), ('a', 1)])",
    "a, b = {1, 2, 3}, {2, 3, 4}\nreturn [sorted(a & b), sorted(a | b), sorted(a - b), sorted(a ^ b), a.issubset(b), len(a)]",
    "t = state['text']\nreturn [t.strip(), t.split(), t.lower(), t.replace('l', 'L'), t.splitlines(), t.find('World'), t.count('l')]",
    "return ['a-b-c'.split('-', 1), 'x'.join(['a', 'b']), 'abc'.startswith('ab'), 'abc'.endswith(('x', 'c')), 'a'.zfill(3), 'ab'.ljust(4) + '|', 'Title case'.title(), '12'.isdigit()]",
    "return ['{} {}'.format(1, 'a'), '{0:>5}|{name}'.format('x', name='y'), 'a' * 3, 'b' in 'abc', 'abc'.partition('b')]",
    "first, *middle, last = [1, 2, 3, 4]\n(a, b), c = (1, 2), 3\na, b = b, a\nreturn [first, middle, last, a, b, c]",
    "if (n := len(state['tags'])) > 2:\n  return n\nreturn 0",
    "return [y := 5, y ** 2, [z := i for i in range(3)], z]",
    "return [7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 / 2, 2 ** 10, 2 ** -1, divmod(-7, 2), abs(-3), round(2.5), round(3.14159, 2)]",
    "return [1 << 10, 6 & 3, 6 | 3, 6 ^ 3, ~6, 0xff, 0b11, 1_000, int('12'), int('ff', 16), float('1e3')]",
    "return [0.1 + 0.2, 1e16, 1e-7, 1 / 3, 100.0, -0.0, str(1e22), repr(0.1), str(3.0)]",
    "return [state['big'], state['big'] + 1, 2 ** 63, -2 ** 63, 10 ** 18]",
    "return [int(True) + 1, sum(int(t > 'a') for t in state['tags']), not [], [] or 'x', 0 and 1, None is None, 1 < 2 < 3, 'a' if state['yes'] else 'b']",
    "return [min(3, 1, 2), max([1, 5]), any([0, 1]), all([]), list(zip([1, 2], 'ab')), list(map(str, [1, 2])), list(filter(None, [0, 1, 2])), list(reversed([1, 2]))]",
    "d = {'a': 1}\nd.update({'b': 2})\nd.setdefault('c', []).append(3)\nx = d.pop('a')\nreturn [d, x, list(d), list(d.items()), {**d, 'z': 0}]",
    "d = {}\nfor w in 'a b a c b a'.split():\n  d[w] = d.get(w, 0) + 1\nreturn sorted(d.items(), key=lambda kv: (-kv[1], kv[0]))",
    "import re\nreturn [re.findall(r'\\d+', 'a1b22'), re.sub(r'(\\w)1', r'<\\1>', 'a1 b1'), re.split(r',\\s*', 'a, b,c'), bool(re.match('a', 'b')), re.search(r'(?P<x>\\d)', 'a5').group('x')]",
    "import math\nreturn [math.floor(2.7), math.ceil(2.1), math.sqrt(16), math.gcd(12, 18), round(math.pi, 5), math.isclose(0.1 + 0.2, 0.3)]",
    "from datetime import datetime, timedelta, date\nd = datetime(2024, 2, 28, 12, 30) + timedelta(days=2, hours=1)\nreturn [d.isoformat(), d.strftime('%Y/%m/%d %H:%M'), (date(2024, 3, 1) - date(2024, 2, 1)).days, d.weekday()]",
    "from datetime import datetime\nreturn [datetime.fromisoformat('2024-12-24T10:00:00').year, datetime.strptime('2024-01-02', '%Y-%m-%d').isoformat()]",
    "from collections import Counter, defaultdict\ng = defaultdict(list)\nfor w in ['apple', 'bob', 'avocado']:\n  g[w[0]].append(w)\nreturn [dict(g), Counter('abca').most_common(1)]",
    "import itertools, functools\nreturn [list(itertools.chain([1], [2, 3])), functools.reduce(lambda a, b: a * b, [1, 2, 3, 4]), list(itertools.islice(itertools.count(5), 3))]",
    "import base64\nreturn base64.b64encode('héllo'.encode('utf-8')).decode('ascii')",
    "class Point:\n  kind = 'p'\n  def __init__(self, x, y):\n    self.x = x\n    self.y = y\n  def norm(self):\n    return self.x ** 2 + self.y ** 2\np = Point(3, 4)\nreturn [p.norm(), p.kind, isinstance(p, Point)]",
    "def logged(f):\n  def wrapper(*args):\n    print('calling', args)\n    return f(*args)\n  return wrapper\n@logged\ndef add(a, b): return a + b\nreturn add(1, 2)",
    "print('a', 1, 2.0, None, True, [1, 'x'], {'k': (1,)}, sep=' | ')\nprint('no newline', end='')\nprint()\nprint('tab\\tand \\'quotes\\'', repr('x\\n'))",
    "x = [[0] * 2 for _ in range(2)]\nx[0][1] = 5\ny = [row[:] for row in x]\ny[1][0] = 7\nreturn [x, y]",
    "text = '''line one\n  line two\n\tline three'''\nlines = [line.strip() for line in text.split('\\n')]\nresult = {'n': len(lines), 'lines': lines}",
    "total = 0\nfor row in state['rows']:\n  total += row['score'] or 0\n_hidden = 1\naverage = total / 3\nimport math\ndef helper(): return 1\nflag = helper() == 1",
    "x, y = 1, 2\nif x > y:\n  bigger = x\nelse:\n  smaller = x\nz: int = 5\nz += 1",
    "return [round(2.675, 2), round(0.35, 1), round(1.05, 1), round(2.5), round(-2.5), round(1234, -2), round(-0.04, 1), round(1e300, 2), round(5e-324, 400), round(3, 2), round(number=2.345, ndigits=2)]",
    "matrix = [[1, 2], [3, 4]]\nreturn [list(r) for r in zip(*matrix)]",
    "assert state['n'] == 7, 'n is not 7'\npairs = {k: v for k, v in zip('abc', range(3)) if v}\nreturn pairs",
];

/// Blocks that fail in both with the same message and line.
const FAILURES: [&str; 21] = [
    "raise ValueError('no')",
    "x = 1\nraise KeyError('k')",
    "x = 1\n\nreturn x / 0",
    "def f():\n  return [][3]\n\nf()",
    "return undefined",
    "return state['missing']",
    "return None.x",
    "return [] + 1",
    "return len(5)",
    "int('x')",
    "assert False, 'never'",
    "assert False",
    "raise ValueError",
    "return {1, 2}",
    "return {'a': [b'x']}",
    "return 2 ** 70",
    "return float('inf')",
    "return {(1, 2): 3}",
    "return {1: 2, '1': 3}",
    "seen = {1}",
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
                0,
                json!("     'Ada'|007|12.50|1,000,000|  x  |state['n']=7"),
            ),
            (
                9,
                json!("{\"a\": \"\\u00e9\\\"\", \"b\": [1, 2.0, null, true]}"),
            ),
            (13, json!(2)),
            (
                36,
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
