//! Unit tests of `src/script/changes.rs`.

use super::*;
use crate::script::block::parse;

#[test]
fn writes_to_state_are_detected() {
    for source in [
        "state['a'] = 1",
        "del state['a']",
        "state['a'] += 1",
        "state.update(a=1)",
        "d = state['d']\nd['a'] = 1",
        "d = state['d']\nd += state['e']",
        "d = state['d']\nd *= 2",
        "f = state['d'].append\nf(1)",
        "def f(s):\n  s.pop('a')\nf(state)",
        "for state['a'] in [1]: pass",
        "a, state['b'] = 1, 2",
        "getattr(state, 'po' + 'p')('a')",
        "dict.__setitem__(state, 'a', 1)",
        "import random\nrandom.shuffle(state['d'])",
        "from heapq import heappush\nheappush(state['d'], 1)",
        "parallel_results[0]['state'].clear()",
    ] {
        assert!(may_change_state(parse(source).unwrap().suite()), "{source}");
    }
    for source in [
        "return {'a': state['a'] + 1}",
        "n = 0\nfor x in state['xs']:\n  n += 1\nreturn {'n': n}",
        "import json, re\nreturn json.loads(state.get('a', '{}'))",
        "out = []\nout.append(1)",
        "return sorted(state)",
        "t = ''\nt += f'{state}'",
    ] {
        assert!(
            !may_change_state(parse(source).unwrap().suite()),
            "{source}"
        );
    }
}
